"""One signal's panel: all its rows × the grid times of a block, hygiene done, counters as rates."""

from dataclasses import replace

import numpy as np

from anomaly.clock import Ms
from anomaly.features.index import SeriesIndex, merge, rows_of
from anomaly.features.rates import LONGEST_GAP, increases_from, windowed_rate
from anomaly.features.ring import Ring
from anomaly.panels import Panel
from anomaly.records import Floats, Ints
from anomaly.signals.model import Signal

SENTINEL = 9.2e18
"""DCGM's INT64 blanks (not found, not supported, not permitted) all read 9223372036854775808 as a float."""

_BLANKS = np.array(
    [2147483632, 2147483633, 2147483634, 2147483635, 4294967295, 808334905] + [140737488355328 + i for i in range(4)],
    float,
)

_LEAST_BLANK = float(_BLANKS.min())
_LARGEST = float(np.finfo(float).max)


def build_panel(
    signal: Signal, ring: Ring, index: SeriesIndex, since: Ms, step: Ms, context: Ms | None = None
) -> Panel:
    """The panel of the steps after `since`, with those after `context` before them (None: with the whole ring).

    What a column says does not depend on how many columns are asked for.
    """
    begin = 0 if context is None else int(np.searchsorted(ring.times, context, side="right"))
    times = ring.times[begin:]
    if signal.kind == "counter":
        columns = max(1, signal.window(step) // ring.step)
        far = max(0, begin - columns + 1 - 1 - LONGEST_GAP // ring.step)
        raw, dropped = clean(signal, ring.raw[:, far:])
        first = max(0, begin - columns + 1) - far
        change, elapsed, ambiguous = increases_from(raw, ring.times[far:], first)
        lead = begin - far - first
        if ambiguous.any():
            dropped["counter_ambiguous"] = int(ambiguous[:, lead:].sum())
        places, change = merge(signal, index, ring.series, change)
        # Seconds are the same for every part of a row: the longest is the row's.
        _, elapsed = merge(_as_max(signal), index, ring.series, elapsed)
        values = windowed_rate(change, elapsed, columns, lead)
        values[np.isnan(change[:, lead:])] = np.nan
    else:
        raw, dropped = clean(signal, ring.raw[:, begin:])
        places, values = merge(signal, index, ring.series, raw)
    rows = rows_of(index, places)
    return Panel(signal.name, rows, times, values, int(np.searchsorted(times, since, side="right")), dropped)


def _as_max(signal: Signal) -> Signal:
    return replace(signal, parts="max", duplicates="max")


def clean(signal: Signal, raw: Floats) -> tuple[Floats, dict[str, int]]:
    """Values that cannot be true become NaN before any statistic, counted by reason."""
    dropped: dict[str, int] = {}
    if raw.size:
        # Nearly always all is well, which the two extremes tell; NaN where there is no value at all.
        low, high = np.fmin.reduce(raw, axis=None), np.fmax.reduce(raw, axis=None)
        most = SENTINEL if signal.kind == "counter" else _LEAST_BLANK
        valid = signal.valid or (-np.inf, np.inf)
        if np.isnan(low) or (max(valid[0], -_LARGEST) <= low and high <= valid[1] and high < most):
            return raw, dropped
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


def holders(signal: Signal, ring: Ring, index: SeriesIndex) -> Ints:
    """Rows of the presence panel × its times: the code of the job that the row's series named at its last sample so
    far, -1 where it named none."""
    job = index.job[np.searchsorted(index.series, ring.series)].astype(float)
    named = np.where(np.isnan(ring.raw), np.nan, job[:, None])
    _, named = merge(_as_max(signal), index, ring.series, named)
    place = np.maximum.accumulate(np.where(np.isnan(named), 0, np.arange(named.shape[1])), axis=1)
    return np.nan_to_num(np.take_along_axis(named, place, axis=1), nan=-1.0).astype(np.int64)


def presence_panel(signal: Signal, ring: Ring, index: SeriesIndex, since: Ms) -> Panel:
    """What was there at all: raw values, so that an impossible reading still counts as a device that answers."""
    places, values = merge(signal, index, ring.series, ring.raw)
    first = int(np.searchsorted(ring.times, since, side="right"))
    return Panel(signal.name, rows_of(index, places), ring.times, values, first, {})
