"""The short memory of one signal: its underlying series × grid times, as a dense matrix with NaN for "no sample"."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms
from anomaly.records import Floats, Ints, Samples


@dataclass(slots=True)
class _Room:
    """A matrix with columns to spare behind those `used`. Rings that grow out of each other share it: each sees its own
    columns only, and only the newest may use what is to spare."""

    table: Floats
    used: int


@dataclass(frozen=True, slots=True)
class Ring:
    """`raw[i, j]` is the sample of series `series[i]` at `times[j]`. Series ascend by id, times by `step`."""

    step: Ms
    series: NDArray[np.int32]
    times: Ints
    raw: Floats
    room: _Room | None = field(default=None, compare=False, repr=False)
    """What `raw` is a part of, ending at column `end` of it."""
    end: int = field(default=0, compare=False, repr=False)


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
    forgotten = int(np.searchsorted(ring.times, end - keep, side="right"))
    kept = ring.raw[:, forgotten:]
    all_times = np.concatenate([ring.times[forgotten:], times])
    inside = (samples.ts > start) & (samples.ts <= end) & (samples.ts % ring.step == 0)
    if not inside.all():
        samples = Samples(samples.series_id[inside], samples.ts[inside], samples.values[inside])
    place = _places(ring.series, samples.series_id)
    heard = np.zeros(len(ring.series), bool)
    heard[place[place >= 0]] = True
    alive = heard.copy()
    if kept.size and not heard.all():
        alive[~heard] = ~np.isnan(kept[~heard]).all(axis=1)
    if alive.all() and (place >= 0).all():
        series, room, last = ring.series, *_grown(ring, kept, len(times))
    else:
        # A row that is kept for its new samples only is empty so far, so it may as well be a new one.
        series = np.union1d(ring.series[alive], samples.series_id).astype(np.int32)
        room, last = _new_room(len(series), kept.shape[1], len(times))
        room.table[:, : kept.shape[1]] = np.nan
        room.table[np.searchsorted(series, ring.series[alive]), : kept.shape[1]] = kept[alive]
        place = _places(series, samples.series_id)
    room.table[:, last - len(times) : last] = np.nan
    if len(place):
        room.table[place, (samples.ts - times[0]) // ring.step + (last - len(times))] = samples.values
    return Ring(ring.step, series, all_times, room.table[:, last - len(all_times) : last], room, last)


def _grown(ring: Ring, kept: Floats, more: int) -> tuple[_Room, int]:
    """A room that holds `kept` and `more` columns after it, and where these end."""
    room = ring.room
    if room is not None and room.used == ring.end and ring.end + more <= room.table.shape[1]:
        room.used += more
        return room, room.used
    room, last = _new_room(len(kept), kept.shape[1], more)
    room.table[:, : kept.shape[1]] = kept
    return room, last


def _new_room(rows: int, columns: int, more: int) -> tuple[_Room, int]:
    last = columns + more
    return _Room(np.empty((rows, last + last // 2)), last), last


def _places(have: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where each of `wanted` stands in `have` (ascending); -1 for those that do not."""
    if not len(have) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    low, high = int(have[0]), int(have[-1])
    if high - low < 16 * len(have) + 1024 and low <= int(wanted.min()) and int(wanted.max()) <= high:
        table = np.full(high - low + 1, -1, np.int64)
        table[have - low] = np.arange(len(have))
        return table[wanted - low]
    place = np.minimum(np.searchsorted(have, wanted), len(have) - 1)
    return np.where(have[place] == wanted, place, -1)
