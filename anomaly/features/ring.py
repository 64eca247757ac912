"""The short memory of one signal: its underlying series × grid times, as a dense matrix with NaN for "no sample"."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms
from anomaly.records import Floats, Ints, Samples


@dataclass(frozen=True, slots=True)
class Ring:
    """`raw[i, j]` is the sample of series `series[i]` at `times[j]`. Series ascend by id, times by `step`."""

    step: Ms
    series: NDArray[np.int32]
    times: Ints
    raw: Floats


def empty_ring(step: Ms) -> Ring:
    """A ring that remembers nothing."""
    return Ring(step, np.empty(0, np.int32), np.empty(0, np.int64), np.empty((0, 0)))


def grid(start: Ms, end: Ms, step: Ms) -> Ints:
    """Grid times in (start, end]: aligned to `step` counted from the epoch."""
    first = start - start % step + step
    return np.arange(first, end + 1, step, dtype=np.int64)


def extend(ring: Ring, samples: Samples, start: Ms, end: Ms, keep: Ms) -> Ring:
    """The ring with the grid times in (start, end] added, all of them, and what it held from longer than `keep` before
    `end` forgotten.

    Samples off the grid or outside (start, end] are ignored; of two samples at one place the last counts. A series
    without any sample left in the ring is dropped from it.
    """
    times = grid(start, end, ring.step)
    old = ring.times > end - keep
    all_times = np.concatenate([ring.times[old], times])
    inside = (samples.ts > start) & (samples.ts <= end) & (samples.ts % ring.step == 0)
    ids, ts, values = samples.series_id[inside], samples.ts[inside], samples.values[inside]
    kept = ring.raw[:, old]
    alive = ~np.isnan(kept).all(axis=1) if kept.size else np.zeros(len(ring.series), bool)
    series = np.union1d(ring.series[alive], ids).astype(np.int32)
    raw = np.full((len(series), len(all_times)), np.nan)
    raw[np.searchsorted(series, ring.series[alive]), : int(old.sum())] = kept[alive]
    if len(ts):
        columns = (ts - times[0]) // ring.step + int(old.sum())
        raw[np.searchsorted(series, ids), columns] = values
    return Ring(ring.step, series, all_times, raw)
