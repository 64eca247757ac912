"""One signal's panel: all its rows × the grid times of a block, hygiene done, counters as rates."""

from dataclasses import replace

import numpy as np

from anomaly.clock import Ms
from anomaly.features.index import SeriesIndex, merge, rows_of
from anomaly.features.rates import increases, windowed_rate
from anomaly.features.ring import Ring
from anomaly.panels import Panel
from anomaly.records import Floats
from anomaly.signals.model import Signal

SENTINEL = 9.2e18
"""DCGM's INT64 blanks (not found, not supported, not permitted) all read 9223372036854775808 as a float."""

_BLANKS = np.array(
    [2147483632, 2147483633, 2147483634, 2147483635, 4294967295, 808334905] + [140737488355328 + i for i in range(4)],
    float,
)


def build_panel(signal: Signal, ring: Ring, index: SeriesIndex, since: Ms, step: Ms) -> Panel:
    """The panel of the steps after `since`, with the whole ring before them as context."""
    raw, dropped = clean(signal, ring.raw)
    if signal.kind == "counter":
        change, elapsed, ambiguous = increases(raw, ring.times)
        if ambiguous.any():
            dropped["counter_ambiguous"] = int(ambiguous.sum())
        places, change = merge(signal, index, ring.series, change)
        # Seconds are the same for every part of a row: the longest is the row's.
        _, elapsed = merge(_as_max(signal), index, ring.series, elapsed)
        values = windowed_rate(change, elapsed, max(1, signal.window(step) // ring.step))
        values[np.isnan(change)] = np.nan
    else:
        places, values = merge(signal, index, ring.series, raw)
    rows = rows_of(index, places)
    return Panel(signal.name, rows, ring.times, values, int(np.searchsorted(ring.times, since, side="right")), dropped)


def _as_max(signal: Signal) -> Signal:
    return replace(signal, parts="max", duplicates="max")


def clean(signal: Signal, raw: Floats) -> tuple[Floats, dict[str, int]]:
    """Values that cannot be true become NaN before any statistic, counted by reason."""
    dropped: dict[str, int] = {}
    with np.errstate(invalid="ignore"):
        blank = (raw >= SENTINEL) | np.isin(raw, _BLANKS) if raw.size else np.zeros(raw.shape, bool)
        if signal.kind == "counter":
            # A counter may pass through any 32-bit number; only the 64-bit blanks are certain.
            blank = raw >= SENTINEL
        infinite = np.isinf(raw)
        blank &= ~infinite
        outside = np.zeros(raw.shape, bool)
        if signal.valid is not None:
            outside = ((raw < signal.valid[0]) | (raw > signal.valid[1])) & ~blank & ~infinite
    for reason, mask in (("sentinel", blank), ("infinite", infinite), ("out_of_range", outside)):
        if mask.any():
            dropped[reason] = int(mask.sum())
    wrong = blank | infinite | outside
    return (np.where(wrong, np.nan, raw), dropped) if wrong.any() else (raw, dropped)


def presence_panel(signal: Signal, ring: Ring, index: SeriesIndex, since: Ms) -> Panel:
    """What was there at all: raw values, so that an impossible reading still counts as a device that answers."""
    places, values = merge(signal, index, ring.series, ring.raw)
    first = int(np.searchsorted(ring.times, since, side="right"))
    return Panel(signal.name, rows_of(index, places), ring.times, values, first, {})
