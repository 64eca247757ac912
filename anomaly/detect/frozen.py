"""Readings that stand still although the device works: a lost GPU whose exporter goes on, or frozen telemetry.

After a GPU has fallen off the bus, dcgm-exporter repeats its last temperature, power, utilisation and clock for days,
and leaves other fields out. Of busy healthy A100 samples 0.8 % repeat once, 0.035 % three times, none six times (66
node-days of public telemetry, temperature and power at once); idle devices repeat often.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anomaly.detect.absence import Absent, counts
from anomaly.panels import Rows
from anomaly.records import Bools, Floats, Ints

REPEATS = 6
"""Repetitions of all readings, at load, that no healthy device shows."""

FEW = 2
"""Repetitions that are enough where other fields of the device have vanished."""

LOOK = 20
"""Steps that are looked back over, the current one included."""

LEAST_SIGNALS = 3
"""One or two readings may well stay the same (temperature in whole degrees, the power of a light and steady load)."""


@dataclass(frozen=True, slots=True)
class Stillness:
    """Devices × steps, over the last LOOK steps of each."""

    present: Bools
    """Enough of its readings are there."""
    repeats: Ints
    """How often in a row all of them have been the same."""
    pairs: Ints
    """How often a reading followed another."""
    changes: Ints
    """How often it differed."""


def stillness(tables: Sequence[Floats]) -> Stillness:
    """How still the readings of each device stand; one table a signal, devices × steps, aligned.

    Steps with fewer than LEAST_SIGNALS samples count neither way. What a step says rests on the last LOOK steps alone.
    """
    cube = np.stack(tables)
    there = ~np.isnan(cube)
    real: Bools = there.sum(axis=0) >= LEAST_SIGNALS
    changed = np.zeros(real.shape, bool)
    last = np.full(cube.shape[:2], np.nan)
    for column in range(cube.shape[2]):
        now, known = cube[:, :, column], there[:, :, column] & ~np.isnan(last)
        # Readings that have nothing in common with the last ones do not repeat them.
        changed[:, column] = (known & (now != last)).any(axis=0) | ~known.any(axis=0)
        last = np.where(real[:, column], now, last)
    place = np.arange(real.shape[1])
    first = _first_real(real, np.maximum(place - LOOK + 1, 0))
    inner = changed & real
    latest = np.maximum.accumulate(np.where(inner, place[None, :], -1), axis=1)
    start = np.maximum(latest, first)
    seen, turned = np.cumsum(real, axis=1), np.cumsum(inner, axis=1)
    at_first, at_start = np.minimum(first, place[None, :]), np.minimum(start, place[None, :])
    return Stillness(
        real,
        seen - np.take_along_axis(seen, at_start, axis=1),
        seen - np.take_along_axis(seen, at_first, axis=1),
        turned - np.take_along_axis(turned, at_first, axis=1),
    )


def _first_real(real: Bools, begin: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per row and step, the first column at or after `begin[step]` that has a sample; beyond the end for none."""
    columns = real.shape[1]
    following = np.where(real, np.arange(columns)[None, :], columns)
    following = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
    return following[:, begin]


def frozen_devices(still: Stillness, busy: Bools, gone: Bools, rows: Rows) -> Floats:
    """1 where a device has frozen at work while a neighbour's readings move, or while other fields of it vanished; 0
    where its readings move; NaN for no verdict. Repetitions from before it worked do not count: idle devices repeat,
    and utilisation rises a refresh before power and temperature.

    A refresh slower than the grid repeats readings too: REPEATS counts refreshes as the busy devices of other nodes
    show them.
    """
    repeats, member = still.repeats, rows.entity_code
    size = int(member.max(initial=-1)) + 1
    moving = still.present & (repeats < REPEATS // 2)
    company = counts(moving, member, size)[member] - moving > 0
    at_work = np.minimum(repeats, _run(busy) - 1)
    lasting = at_work >= _needed(still, busy, member, size)
    frozen = still.present & ((lasting & company) | (gone & (at_work >= FEW)))
    return np.where(frozen, 1.0, np.where(still.present & (repeats == 0), 0.0, np.nan))


def frozen_nodes(still: Stillness, busy: Bools, gone: Bools, rows: Rows, times: Ints) -> Absent:
    """Nodes: 1 where all readings of all devices stand still, complete, and some device works: that is the telemetry,
    since no fault leaves everything as it was. 0 where one moves."""
    member = rows.entity_code
    size = int(member.max(initial=-1)) + 1
    lasting = still.repeats >= _needed(still, busy, member, size)
    there = counts(still.present, member, size)
    flat = counts(still.present & lasting & ~gone, member, size)
    working = counts(still.present & busy, member, size)
    moving = counts(still.present & (still.repeats == 0), member, size)
    score = np.where((there > 0) & (flat == there) & (working > 0), 1.0, np.where(moving > 0, 0.0, np.nan))
    of = {int(code): rows.entities[i] for i, code in enumerate(member)}
    nodes = sorted(of)
    return Absent(tuple(of[code] for code in nodes), ("",) * len(nodes), times, score[nodes])


def _run(flags: Bools) -> Ints:
    """For how many steps up to each the flag has been set without a break."""
    place = np.arange(flags.shape[1])
    last: Ints = place - np.maximum.accumulate(np.where(flags, -1, place), axis=1)
    return last


def _needed(still: Stillness, busy: Bools, member: NDArray[np.integer[Any]], size: int) -> Floats:
    """Repetitions asked of each device: REPEATS, times how many steps a refresh takes on the other nodes."""
    pairs = counts(busy, member, size, still.pairs)
    changes = counts(busy, member, size, still.changes)
    pairs, changes = pairs.sum(axis=0) - pairs, changes.sum(axis=0) - changes
    share = np.where(pairs >= LOOK, changes / np.maximum(pairs, 1.0), 1.0)
    needed: Floats = np.ceil(REPEATS / np.maximum(share, 1e-6))[member]
    return needed
