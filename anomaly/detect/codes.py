"""Codes: the XID gauge shows the last error until the driver reloads, so only its changes are events."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anomaly.clock import Ms
from anomaly.panels import Panel
from anomaly.records import Floats, Ints
from anomaly.signals.model import Codes


@dataclass(frozen=True, slots=True)
class Seen:
    """The last code of a row: since when it shows, and whether its beginning was an event we saw."""

    code: int
    since: Ms
    event: bool


def judge(panel: Panel, codes: Codes, seen: Mapping[str, Seen], watched_since: Ints) -> tuple[Floats, dict[str, Seen]]:
    """(score 1 while an event counts and 0 otherwise, the codes seen after the last step).

    A change of value to a hard code is an event. So is a first sample that shows one, when its node was watched before
    (some exporters create the series with the first error); when watching begins, at its `watched_since`, a code
    may be days old and is not an event. An event counts for `hold`, or for as long as the gauge shows a lasting code.
    """
    hard = {code for code, _, _ in codes.hard}
    new = panel.values[:, panel.first :]
    times = panel.times[panel.first :]
    score = np.where(np.isnan(new), np.nan, 0.0)
    after = dict(seen)
    interesting = np.flatnonzero((np.nan_to_num(new) != 0).any(axis=1))
    keys = {panel.rows.keys[i]: i for i in interesting.tolist()}
    known = {key for key in seen if seen[key].code != 0}
    if known:
        keys |= {key: i for i in range(len(panel.rows)) if (key := panel.rows.keys[i]) in known}
    for key, i in keys.items():
        before = panel.values[i, : panel.first]
        had_sample = bool((~np.isnan(before)).any())
        last = after.get(key) or (Seen(0, 0, False) if had_sample else None)
        for j in range(new.shape[1]):
            if np.isnan(new[i, j]):
                continue
            at, code = int(times[j]), int(new[i, j])
            if last is None:
                last = Seen(code, at, event=code in hard and at > watched_since[i])
            elif code != last.code:
                last = Seen(code, at, event=code in hard)
            lasts = last.code in codes.lasting or at - last.since < codes.hold
            score[i, j] = 1.0 if last.event and lasts else 0.0
        if last is not None and (last.code != 0 or key in after):
            after[key] = last
    return score, {key: value for key, value in after.items() if value.code != 0}
