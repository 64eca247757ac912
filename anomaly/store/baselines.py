"""Baselines: the closed buckets from which detectors read what is usual, kept because they cannot be pulled again.

A bucket of a row that was past its boundary holds what was usual before, so that it cannot be computed from samples
alone; a restart reads the buckets back.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from anomaly.clock import Ms
from anomaly.records import Bools, Floats, Ints
from anomaly.store.connect import Session

Buckets = tuple[Sequence[str], Ints, Floats]
"""(row keys, bucket ends, values rows × ends)"""


def put_buckets(session: Session, end: Ms, habits: Mapping[str, Buckets], forgotten_before: Ms) -> None:
    """Store the buckets that ended at `end` and drop those before `forgotten_before`.

    Rows that have no earlier bucket in `habits` (new ones, and those that lost their past to a new job or a new life)
    lose what is stored of them. Several buckets are stored one after the other, each with the columns up to its end.
    """
    with session.transaction():
        session.run("DELETE FROM baselines WHERE bucket_end < ? OR bucket_end >= ?", [forgotten_before, end])
        lost: dict[str, list[str]] = {"name": [], "key": []}
        known: dict[str, list[str]] = {"name": [], "key": []}
        newest = []
        for name, (keys, ends, values) in habits.items():
            if not len(ends) or int(ends[-1]) != end:
                continue
            if values.shape[1] > 1:
                without_past: Bools = np.logical_and.reduce(np.isnan(values[:, :-1]), axis=1)
                _add(lost, name, keys, without_past)
            good = ~np.isnan(values[:, -1])
            _add(known, name, keys, good)
            newest.append(values[good, -1])
        if lost["key"]:
            with session.given("rows_without_past", lost):
                session.run(
                    """DELETE FROM baselines USING rows_without_past AS lost
                       WHERE baselines.name = lost.name AND baselines.key = lost.key"""
                )
        value = np.concatenate(newest) if newest else np.empty(0)
        session.insert("baselines", {**known, "bucket_end": np.full(len(value), end, np.int64), "value": value})


def _add(columns: dict[str, list[str]], name: str, keys: Sequence[str], use: Bools) -> None:
    chosen = keys if use.all() else [keys[i] for i in np.flatnonzero(use).tolist()]
    columns["key"] += chosen
    columns["name"] += [name] * len(chosen)


def get_buckets(session: Session) -> dict[str, tuple[tuple[str, ...], Ints, Floats]]:
    """Everything stored, per name."""
    out: dict[str, tuple[tuple[str, ...], Ints, Floats]] = {}
    for (name,) in session.rows("SELECT DISTINCT name FROM baselines ORDER BY name"):
        found = session.rows("SELECT key, bucket_end, value FROM baselines WHERE name = ? ORDER BY key", [name])
        keys = tuple(dict.fromkeys(key for key, _, _ in found))
        places = {key: i for i, key in enumerate(keys)}
        ends = np.array(sorted({end for _, end, _ in found}), np.int64)
        values = np.full((len(keys), len(ends)), np.nan)
        rows = np.array([places[key] for key, _, _ in found], np.int64)
        columns = np.searchsorted(ends, np.array([end for _, end, _ in found], np.int64))
        values[rows, columns] = [value for _, _, value in found]
        out[name] = (keys, ends, values)
    return out
