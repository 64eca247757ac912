"""Cutting a range into requests that Prometheus accepts, and putting the answers back together."""

import numpy as np

from anomaly.clock import Ms
from anomaly.records import Ints, Labels, Pulled

Range = tuple[Ms, Ms]
"""First and last grid point, both included, as in `query_range`."""


def split(start: Ms, end: Ms, step: Ms, max_points: int) -> list[Range]:
    """`[start, end]` as consecutive ranges of at most `max_points` points, none shared, none left out.

    Every range begins on the grid `start + k·step`. Prometheus refuses ranges of more than 11,000 steps.
    """
    if step <= 0 or max_points <= 0:
        raise ValueError(f"a range needs a positive step and point limit, not {step} ms and {max_points}")
    span = (max_points - 1) * step
    return [(first, min(first + span, end)) for first in range(start, end + 1, span + step)]


def halve(start: Ms, end: Ms, step: Ms) -> tuple[Range, Range] | None:
    """Two ranges that share no point and together are `[start, end]`; None for a single point."""
    points = (end - start) // step + 1
    if points < 2:
        return None
    middle = start + (points // 2) * step
    return (start, middle - step), (middle, end)


def snap(ts: Ints, start: Ms, step: Ms) -> Ints:
    """Each timestamp moved to the nearest point of the grid `start + k·step` (a tie goes to the later one).

    Prometheus answers on the grid; VictoriaMetrics may shift it when it re-aligns a range for its cache.
    """
    off = (ts - start) % step
    if not off.any():
        return ts
    return np.where(2 * off < step, ts - off, ts + (step - off))


def merge(parts: list[Pulled]) -> Pulled:
    """The answers to several sub-ranges as one: each label set once, its timestamps strictly rising.

    Of two samples of one series at one time the one that came first is kept. Warnings keep their order, once each.
    """
    warnings = tuple(dict.fromkeys(text for part in parts for text in part.warnings))
    if len(parts) == 1 and _tidy(parts[0]):
        return Pulled(parts[0].labels, parts[0].lengths, parts[0].ts, parts[0].values, warnings)

    rows: dict[frozenset[tuple[str, str]], int] = {}
    labels: list[Labels] = []
    ids: list[int] = []
    for part in parts:
        for label_set in part.labels:
            row = rows.setdefault(frozenset(label_set.items()), len(labels))
            if row == len(labels):
                labels.append(label_set)
            ids.append(row)

    lengths = np.concatenate([part.lengths for part in parts]) if parts else np.empty(0, np.int64)
    ts = np.concatenate([part.ts for part in parts]) if parts else np.empty(0, np.int64)
    values = np.concatenate([part.values for part in parts]) if parts else np.empty(0)
    series = np.repeat(np.asarray(ids, np.int64), lengths)
    order = np.lexsort((ts, series))  # stable: what came first stays first
    series, ts, values = series[order], ts[order], values[order]
    keep = np.ones(len(ts), np.bool_)
    keep[1:] = (series[1:] != series[:-1]) | (ts[1:] != ts[:-1])
    counts = np.bincount(series[keep], minlength=len(labels)).astype(np.int64)
    return Pulled(tuple(labels), counts, ts[keep], values[keep], warnings)


def within(pulled: Pulled, start: Ms, end: Ms) -> Pulled:
    """Only the samples of `[start, end]`; series left with none are gone."""
    keep = (pulled.ts >= start) & (pulled.ts <= end)
    if keep.all() and pulled.lengths.all():
        return pulled
    series = np.repeat(np.arange(len(pulled.labels)), pulled.lengths)
    counts = np.bincount(series[keep], minlength=len(pulled.labels)).astype(np.int64)
    labels = tuple(label_set for label_set, count in zip(pulled.labels, counts.tolist(), strict=True) if count)
    return Pulled(labels, counts[counts > 0], pulled.ts[keep], pulled.values[keep], pulled.warnings)


def _tidy(pulled: Pulled) -> bool:
    """Whether label sets are unique and timestamps rise strictly within each series already."""
    if len({frozenset(label_set.items()) for label_set in pulled.labels}) < len(pulled.labels):
        return False
    rises = np.diff(pulled.ts) > 0
    borders = np.cumsum(pulled.lengths)[:-1]
    borders = borders[(borders > 0) & (borders < len(pulled.ts))]
    rises[borders - 1] = True
    return bool(rises.all())
