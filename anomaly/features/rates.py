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


def increases_from(raw: Floats, times: Ints, first: int, gap: Ms = LONGEST_GAP) -> tuple[Floats, Floats, Bools]:
    """The columns from `first` on of what `increases` gives, at the cost of these columns: only rows with holes in them
    look further back."""
    if first <= 0 or first >= raw.shape[1]:
        change, elapsed, ambiguous = increases(raw, times, gap=gap)
        return change[:, first:], elapsed[:, first:], ambiguous[:, first:]
    before, now = raw[:, first - 1 : -1], raw[:, first:]
    seconds = (times[first:] - times[first - 1 : -1]) / 1000.0
    change = now - before
    fell = change < 0
    ambiguous = np.zeros(now.shape, bool)
    if fell.any():
        reset = fell & (now <= RESET_SHARE * before)
        change = np.where(reset, now, change)
        ambiguous = fell & ~reset
        change[ambiguous] = np.nan
    elapsed = np.broadcast_to(seconds, now.shape)
    holes = np.isnan(change).any(axis=1) | (seconds > gap / 1000.0).any()
    if holes.any():
        step = max(1, int(times[first] - times[first - 1]))
        far = max(0, first - 1 - gap // step)
        elapsed = elapsed.copy()
        found = increases(raw[holes, far:], times[far:], gap=gap)
        for out, part in zip((change, elapsed, ambiguous), found, strict=True):
            out[holes] = part[:, first - far :]
    return change, elapsed, ambiguous


def windowed_rate(change: Floats, elapsed: Floats, columns: int, first: int = 0) -> Floats:
    """Increase per second over the trailing `columns` grid steps; NaN where none of them saw an increase measured.
    Only the columns from `first` on are computed and returned.

    Summed slice by slice in a fixed order, so that a block of steps gives bit for bit what single steps give.
    """
    width = change.shape[1] - first
    total = np.zeros((len(change), width))
    seconds = np.zeros((len(change), width))
    known = np.isfinite(change)
    if not known.all():
        change, elapsed = np.where(known, change, 0.0), np.where(np.isnan(elapsed), 0.0, elapsed)
    for back in range(columns - 1, -1, -1):
        low = max(first - back, 0)
        high = first - back + width
        if high <= low:
            continue
        total[:, width - (high - low) :] += change[:, low:high]
        seconds[:, width - (high - low) :] += elapsed[:, low:high]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(seconds > 0, total / seconds, np.nan)
