"""What Prometheus 2.x would answer, on arrays: instant lookback, `rate` and `histogram_quantile`, for regular scrapes.

Sources: promql/engine.go, functions.go (extrapolatedRate) and quantile.go (bucketQuantile) of Prometheus 2.42.
Matrices are series × scrape with NaN for "no sample".
"""

import numpy as np

from anomaly.clock import SECOND, Ms
from anomaly.records import Bools, Floats, Ints

LOOKBACK: Ms = 30 * SECOND
"""`--query.lookback-delta` of a server for back-filled data: a series ends this long after its last sample."""


def instant(values: Floats, first: Ms, scrape: Ms, grid: Ints, lookback: Ms = LOOKBACK) -> Floats:
    """The newest sample of each series at or before each time of `grid`, at most `lookback` old (2.x); else NaN."""
    found = np.full((len(values), len(grid)), np.nan)
    if not values.size:
        return found
    newest = (grid - first) // scrape
    for back in range(-(-lookback // scrape) + 1):
        at = newest - back
        fits = (at >= 0) & (at < values.shape[1]) & (grid - (first + at * scrape) <= lookback)
        candidate = values[:, np.clip(at, 0, values.shape[1] - 1)]
        found = np.where(np.isnan(found) & fits, candidate, found)
    return found


def rate(values: Floats, first: Ms, scrape: Ms, grid: Ints, window: Ms) -> Floats:
    """Increase per second over the `window` (closed at both ends) up to each time of `grid`, extrapolated; else NaN."""
    length = values.shape[1]
    if not values.size:
        return np.full((len(values), len(grid)), np.nan)
    positions = np.arange(length)
    present = ~np.isnan(values)
    last = np.maximum.accumulate(np.where(present, positions, -1), axis=1)
    following = np.minimum.accumulate(np.where(present, positions, length)[:, ::-1], axis=1)[:, ::-1]
    before = np.concatenate([np.full((len(values), 1), -1), last[:, :-1]], axis=1)
    filled = np.where(present, values, 0.0)
    earlier = np.take_along_axis(filled, np.maximum(before, 0), axis=1)
    # Only what a reset lost is summed up, so that the increase is exact where there was none.
    lost = np.cumsum(np.where(present & (before >= 0) & (filled < earlier), earlier, 0.0), axis=1)
    count = np.cumsum(present, axis=1)

    low, high = -((first - grid + window) // scrape), (grid - first) // scrape
    usable = (high >= 0) & (low < length)
    low, high = np.clip(low, 0, length - 1), np.clip(high, 0, length - 1)
    begin, end = following[:, low], last[:, high]
    ok = usable & (begin < end)
    begin, end = np.where(ok, begin, 0), np.where(ok, end, 0)

    def at(matrix: Floats | Ints, index: Ints) -> Floats:
        return np.asarray(np.take_along_axis(matrix, index, axis=1), np.float64)

    head = at(filled, begin)
    gained = at(filled, end) - head + (at(lost, end) - at(lost, begin))
    spanned = (end - begin) * scrape / SECOND
    between = spanned / np.maximum(at(count, end) - at(count, begin), 1.0)
    to_start = (first + begin * scrape - (grid - window)) / SECOND
    to_end = (grid - (first + end * scrape)) / SECOND
    with np.errstate(divide="ignore", invalid="ignore"):
        to_zero = spanned * head / gained
        to_start = np.where((gained > 0) & (head >= 0) & (to_zero < to_start), to_zero, to_start)
        reach = spanned + np.where(to_start < between * 1.1, to_start, between / 2)
        reach = reach + np.where(to_end < between * 1.1, to_end, between / 2)
        return np.asarray(np.where(ok, gained * (reach / spanned) / (window / SECOND), np.nan))


def histogram_quantile(q: float, bounds: Floats, counts: Floats) -> Floats:
    """The quantile of cumulative counts (… × bucket × time; the last bucket is +Inf); NaN without observations."""
    counts = np.maximum.accumulate(counts, axis=-2)
    total = counts[..., -1, :]
    rank = q * total
    bucket = np.minimum((counts < rank[..., None, :]).sum(axis=-2), len(bounds))
    inner = np.minimum(bucket, len(bounds) - 1)
    upper = bounds[inner]
    lower = np.where(inner > 0, bounds[np.maximum(inner - 1, 0)], 0.0)
    reached = np.take_along_axis(counts, inner[..., None, :], axis=-2)[..., 0, :]
    passed = np.take_along_axis(counts, np.maximum(inner - 1, 0)[..., None, :], axis=-2)[..., 0, :]
    passed = np.where(inner > 0, passed, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = lower + (upper - lower) * (rank - passed) / (reached - passed)
    # A quantile beyond the last finite bound is that bound: the histogram cannot tell.
    return np.asarray(np.where(total > 0, np.where(bucket == len(bounds), bounds[-1], inside), np.nan))


def present_any(values: Floats, axis: int | tuple[int, ...]) -> Bools:
    """Where at least one series of a group has a value: an aggregation has one exactly then."""
    return np.asarray((~np.isnan(values)).any(axis=axis))
