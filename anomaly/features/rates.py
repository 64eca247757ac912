"""Counters → increases → rates, per underlying series before anything is merged."""

import numpy as np

from anomaly.clock import MINUTE, Ms
from anomaly.records import Bools, Floats, Ints

RESET_SHARE = 0.1
"""After a real reset a counter starts small; a fall to more than this share of the old value is something else
(another exporter's copy, a corrected reading), and `port_transmit_wait` falls by itself dozens of times a week."""

LONGEST_GAP: Ms = 15 * MINUTE
"""An increase over a longer hole is not attributed to the step at its end."""


def increases(
    raw: Floats, times: Ints, restarted: Bools | None = None, gap: Ms = LONGEST_GAP
) -> tuple[Floats, Floats, Bools]:
    """(increase since the series' previous sample, seconds since it, ambiguous) for series × times.

    NaN where there is no sample, none before it, or the fall is ambiguous. `restarted[i, j]` says that the series'
    process is known to have restarted since its previous sample, so that any fall is a reset.
    """
    present = ~np.isnan(raw)
    places = np.where(present, np.arange(raw.shape[1]), -1)
    last = np.maximum.accumulate(places, axis=1)
    previous = np.concatenate([np.full((len(raw), 1), -1), last[:, :-1]], axis=1)
    has = present & (previous >= 0)
    at = np.maximum(previous, 0)
    before = np.take_along_axis(raw, at, axis=1)
    elapsed = (times[None, :] - times[at]) / 1000.0
    has &= elapsed <= gap / 1000.0
    change = raw - before
    fell = has & (change < 0)
    reset = fell & (raw <= RESET_SHARE * before)
    if restarted is not None:
        reset |= fell & restarted
    change = np.where(reset, raw, change)
    ambiguous = fell & ~reset
    change = np.where(has & ~ambiguous, change, np.nan)
    return change, np.where(np.isnan(change), np.nan, elapsed), ambiguous


def windowed_rate(change: Floats, elapsed: Floats, columns: int) -> Floats:
    """Increase per second over the trailing `columns` grid steps; NaN where none of them saw an increase measured.

    Summed slice by slice in a fixed order, so that a block of steps gives bit for bit what single steps give.
    """
    total = np.zeros_like(change)
    seconds = np.zeros_like(change)
    plain, time = np.nan_to_num(change, nan=0.0, posinf=0.0, neginf=0.0), np.nan_to_num(elapsed)
    for back in range(columns - 1, -1, -1):
        if back >= change.shape[1]:
            continue
        total[:, back:] += plain[:, : change.shape[1] - back]
        seconds[:, back:] += time[:, : change.shape[1] - back]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(seconds > 0, total / seconds, np.nan)
