"""From scores to findings: how long past the boundary means something, how long below it means the end.

A run begins with the first score past the boundary. It becomes a finding once it has lasted `persist` with at least
`least` real samples, nearly all of them past the boundary; it ends after `clear` of samples nearly all below it.
Missing samples change nothing: they neither confirm nor heal. Samples that come but cannot be judged end it in time.
What an incomplete answer shows may begin or carry a finding, and never ends one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from anomaly.clock import HOUR, Ms
from anomaly.detect.scored import Profile, Scored
from anomaly.records import Entity, Finding

TOLERATED = 0.2
"""Share of samples on the other side of the boundary that a run or its end forgives (Minder: ≥ 80 % of windows)."""

UNJUDGED: Ms = HOUR // 2
"""A run whose samples can no longer be judged for this long (or three times its clearing time) is given up."""

FORGET: Ms = HOUR
"""An unconfirmed run without any sample for this long is forgotten."""


@dataclass(frozen=True, slots=True)
class Run:
    """One row's stretch past the boundary, confirmed (a finding) or not yet."""

    entity: Entity
    device: str
    start: Ms
    past: int
    seen: int
    last: Ms
    """Newest sample past the boundary."""
    newest: Ms
    """Newest sample of either kind."""
    peak: float
    score: float
    observed: float | None
    expected: float | None
    confirmed: Ms | None = None
    below_since: Ms | None = None
    below: int = 0
    below_past: int = 0


def advance(runs: Mapping[str, Run], scored: Scored, first: int, last: int) -> dict[str, Run]:
    """The runs of one detector after columns [first, last) of its scores.

    Rows without a run and without a score past the boundary cost nothing.
    """
    if last <= first:
        return dict(runs)
    out = dict(runs)
    touched = np.empty(0, np.int64)
    if scored.highest(first, last) >= 1.0:
        touched = np.flatnonzero((scored.score[:, first:last] >= 1.0).any(axis=1))
    elif not out:
        return out
    rows = scored.rows_of(out) | {scored.keys[i]: i for i in touched.tolist()}
    for key, i in rows.items():
        run = out.get(key)
        for j in range(first, last):
            run = _step(run, scored, i, j)
        if run is None:
            out.pop(key, None)
        else:
            out[key] = run
    end = int(scored.times[last - 1])
    return {key: run for key, run in out.items() if run.confirmed is not None or end - run.newest <= FORGET}


def _step(run: Run | None, scored: Scored, i: int, j: int) -> Run | None:
    value = float(scored.score[i, j])
    at = int(scored.times[j])
    if run is not None and run.confirmed is not None and not value >= 1.0 and _doubtful(scored, j):
        return run
    if np.isnan(value):
        seen = not np.isnan(scored.observed[i, j])
        return None if run is not None and seen and _unjudged_too_long(run, scored.profile, at) else run
    past = value >= 1.0
    if run is not None and run.confirmed is None and at - run.newest > _patience(scored.profile):
        run = None
    if run is None:
        if not past:
            return None
        run = Run(scored.entities[i], scored.devices[i], at, 0, 0, at, at, 0.0, 0.0, None, None)
    run = replace(run, seen=run.seen + 1, newest=at, score=value)
    if past:
        run = replace(run, past=run.past + 1, last=at)
        if value >= run.peak:
            observed, expected = _number(scored.observed[i, j]), _number(scored.expected[i, j])
            run = replace(run, peak=value, observed=observed, expected=expected)
    if run.confirmed is None:
        return _towards_a_finding(run, scored.profile, at, past)
    return _towards_the_end(run, scored.profile, at, past)


def _doubtful(scored: Scored, j: int) -> bool:
    return scored.doubtful is not None and bool(scored.doubtful[j])


def _patience(profile: Profile) -> Ms:
    """How long a hole an unconfirmed run bridges: what lies beyond it is another story (a node that came back)."""
    return max(profile.persist, 3 * profile.uncertainty)


def _unjudged_too_long(run: Run, profile: Profile, at: Ms) -> bool:
    """Samples come, but nothing can be said of them any more (the GPU idles, the peers are gone)."""
    return at - run.newest >= max(UNJUDGED, 3 * profile.clear)


def _towards_a_finding(run: Run, profile: Profile, at: Ms, past: bool) -> Run | None:
    # A fact is not a matter of most samples: a device that answers in between is not gone.
    tolerated = 0 if profile.hard else TOLERATED * max(run.seen, 5)
    if run.seen - run.past > tolerated:
        return None
    if past and at - run.start >= profile.persist and run.past >= profile.least:
        return replace(run, confirmed=at)
    return run


def _towards_the_end(run: Run, profile: Profile, at: Ms, past: bool) -> Run | None:
    if run.below_since is None:
        return run if past else replace(run, below_since=at, below=1, below_past=0)
    run = replace(run, below=run.below + 1, below_past=run.below_past + int(past))
    if run.below_past > TOLERATED * max(run.below, 5):
        return replace(run, below_since=None, below=0, below_past=0)
    since = at if run.below_since is None else run.below_since
    quiet = not past and at - since >= profile.clear and run.below - run.below_past >= profile.least
    return None if quiet else run


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def finding(run: Run, profile: Profile, cause: str, hint: str) -> Finding:
    """A confirmed run as a finding."""
    return Finding(
        entity=run.entity,
        signal=profile.signal,
        device=run.device,
        detector=profile.detector,
        cause=cause,
        symptom=profile.symptom,
        hard=profile.hard,
        asymmetric=profile.asymmetric,
        onset=run.start,
        uncertainty=profile.uncertainty,
        last=run.last,
        peak=run.peak,
        score=run.score,
        direction=profile.direction,
        observed=run.observed,
        expected=run.expected,
        unit=profile.unit,
        hint=hint,
        confirmed=run.confirmed or run.last,
    )
