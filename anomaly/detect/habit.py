"""The long memory of one quantity per row: medians of closed buckets, from which the usual value is read.

A bucket is five minutes or ten native intervals, whichever is longer; two dozen make the usual (two hours at the
default). The newest closed bucket is left out, so that a slow ramp is not taken for the habit it replaces; rows that
are past their boundary repeat their usual value instead of their present one, so that a fault never becomes the habit.
"""

from dataclasses import dataclass, field

import numpy as np

from anomaly.clock import MINUTE, Ms
from anomaly.detect.groups import MAD_TO_SIGMA, column_median
from anomaly.records import Bools, Floats, Ints

BUCKETS = 24
LEAST = 4
"""Closed buckets needed before anything counts as usual."""


def bucket_length(step: Ms) -> Ms:
    """Length of a bucket for a pipeline whose smallest step is `step`."""
    return max(5 * MINUTE, 10 * step)


@dataclass(frozen=True, slots=True)
class Habit:
    """`values[i, j]`: median of row `keys[i]` over the bucket that ended at `ends[j]`; NaN where it had no verdict."""

    keys: tuple[str, ...]
    ends: Ints
    values: Floats
    _usual: dict[tuple[int, int], tuple[Floats, Floats]] = field(default_factory=dict, compare=False, repr=False)
    """What was read from a range of buckets: the same for all ticks of a bucket."""


def no_habit() -> Habit:
    """A memory of nothing."""
    return Habit((), np.empty(0, np.int64), np.empty((0, 0)))


def usual(habit: Habit, keys: tuple[str, ...], at: Ms, bucket: Ms) -> tuple[Floats, Floats]:
    """(usual value, its robust spread) for each of `keys` at `at`; NaN for rows with too short a past."""
    if not habit.keys or not len(habit.ends):
        return np.full(len(keys), np.nan), np.full(len(keys), np.nan)
    use = (habit.ends <= at - bucket) & (habit.ends > at - (BUCKETS + 2) * bucket)
    if not use.any() or not habit.values.size:
        return np.full(len(keys), np.nan), np.full(len(keys), np.nan)
    at_bucket = (int(np.argmax(use)), int(use.sum()))  # ends ascend
    if at_bucket not in habit._usual:
        habit._usual[at_bucket] = _middle(habit.values[:, use].T)
    centre, spread = habit._usual[at_bucket]
    places = _places(habit.keys, keys)
    if places is None:
        return centre, spread
    found = places >= 0
    return (
        np.where(found, centre[np.maximum(places, 0)], np.nan),
        np.where(found, spread[np.maximum(places, 0)], np.nan),
    )


def _middle(past: Floats) -> tuple[Floats, Floats]:
    """(median, robust spread) of buckets × rows, NaN where there are too few."""
    centre, count = column_median(past)
    spread = MAD_TO_SIGMA * column_median(np.abs(past - centre))[0]
    return np.where(count >= LEAST, centre, np.nan), np.where(count >= LEAST, spread, np.nan)


def close_bucket(
    habit: Habit,
    keys: tuple[str, ...],
    values: Floats,
    held: Floats,
    flagged: Bools,
    end: Ms,
    bucket: Ms,
    forget: Bools,
) -> Habit:
    """The habit with the bucket ending at `end` added: the median of `values` (rows × the bucket's columns), or for
    `flagged` rows what was usual (`held`). Rows to `forget` lose their past (another job, another life)."""
    now = column_median(values.T)[0] if values.shape[1] else np.full(len(keys), np.nan)
    now = np.where(flagged, held, now)
    recent = habit.ends > end - (BUCKETS + 2) * bucket
    past = habit.values[:, recent]
    alive = np.flatnonzero(~np.isnan(past).all(axis=1)) if past.size else np.empty(0, np.int64)
    if len(alive) == len(habit.keys) and habit.keys == keys:
        all_keys, rows = keys, np.arange(len(keys))
    else:
        places = {habit.keys[i]: n for n, i in enumerate(alive.tolist())}
        for key in keys:
            places.setdefault(key, len(places))
        all_keys, rows = tuple(places), np.array([places[key] for key in keys], np.int64)
    ends = np.append(habit.ends[recent], end)
    out = np.full((len(all_keys), len(ends)), np.nan)
    if len(alive):
        out[: len(alive), :-1] = past[alive]
    if len(rows):
        out[rows[forget], :-1] = np.nan
        out[rows, -1] = now
    return Habit(all_keys, ends, out)


def _places(have: tuple[str, ...], wanted: tuple[str, ...]) -> Ints | None:
    """Where each of `wanted` stands in `have`, -1 where it does not; None when they are the same."""
    if have == wanted:
        return None
    table = {key: i for i, key in enumerate(have)}
    return np.array([table.get(key, -1) for key in wanted], np.int64)
