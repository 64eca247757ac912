"""The long memory of one quantity per row: medians of closed buckets, from which the usual value is read.

A bucket is five minutes or ten native intervals, whichever is longer; two dozen make the usual (two hours at the
default). The newest closed bucket is left out, so that a slow ramp is not taken for the habit it replaces; rows that
are past their boundary repeat their usual value instead of their present one, so that a fault never becomes the habit.
"""

from dataclasses import dataclass

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


def no_habit() -> Habit:
    """A memory of nothing."""
    return Habit((), np.empty(0, np.int64), np.empty((0, 0)))


def usual(habit: Habit, keys: tuple[str, ...], at: Ms, bucket: Ms) -> tuple[Floats, Floats]:
    """(usual value, its robust spread) for each of `keys` at `at`; NaN for rows with too short a past."""
    if not habit.keys or not len(habit.ends):
        return np.full(len(keys), np.nan), np.full(len(keys), np.nan)
    use = (habit.ends <= at - bucket) & (habit.ends > at - (BUCKETS + 2) * bucket)
    past = habit.values[:, use].T
    if not past.size:
        return np.full(len(keys), np.nan), np.full(len(keys), np.nan)
    centre, count = column_median(past)
    spread = MAD_TO_SIGMA * column_median(np.abs(past - centre))[0]
    enough = count >= LEAST
    places = _places(habit.keys, keys)
    found = places >= 0
    good = found & enough[np.maximum(places, 0)]
    return (
        np.where(good, centre[np.maximum(places, 0)], np.nan),
        np.where(good, spread[np.maximum(places, 0)], np.nan),
    )


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
    alive = [i for i, row in enumerate(habit.values[:, recent]) if not np.isnan(row).all()]
    places = {habit.keys[i]: n for n, i in enumerate(alive)}
    extra = [key for key in keys if key not in places]
    all_keys = tuple(habit.keys[i] for i in alive) + tuple(extra)
    for key in extra:
        places[key] = len(places)
    ends = np.append(habit.ends[recent], end)
    out = np.full((len(all_keys), len(ends)), np.nan)
    if alive:
        out[: len(alive), :-1] = habit.values[np.ix_(np.array(alive, np.int64), np.flatnonzero(recent))]
    rows = np.array([places[key] for key in keys], np.int64)
    if len(rows):
        out[rows[forget], :-1] = np.nan
        out[rows, -1] = now
    return Habit(all_keys, ends, out)


def _places(have: tuple[str, ...], wanted: tuple[str, ...]) -> Ints:
    if have == wanted:
        return np.arange(len(wanted), dtype=np.int64)
    table = {key: i for i, key in enumerate(have)}
    return np.array([table.get(key, -1) for key in wanted], np.int64)
