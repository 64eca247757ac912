"""Robust statistics of groups of rows, per column: the arithmetic of comparing peers."""

import numpy as np
from numpy.typing import NDArray

from anomaly.records import Floats, Ints

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation → standard deviation of a normal distribution (Rousseeuw & Croux 1993)."""


def sorted_median(ordered: Floats, count: Ints) -> Floats:
    """Median over axis 0 of columns sorted with NaN last, `count` values each; NaN where there are none."""
    low = np.maximum((count - 1) // 2, 0)
    high = np.maximum(count // 2, 0)
    columns = np.arange(ordered.shape[1])
    middle = (ordered[low, columns] + ordered[np.minimum(high, len(ordered) - 1), columns]) / 2
    return np.where(count > 0, middle, np.nan)


def column_median(values: Floats) -> tuple[Floats, Ints]:
    """(median over axis 0 ignoring NaN, how many values) per column."""
    count = np.count_nonzero(~np.isnan(values), axis=0)
    return sorted_median(np.sort(values, axis=0), count), count


def group_statistics(values: Floats, groups: NDArray[np.int64], least: int) -> tuple[Floats, Floats]:
    """(median, robust sigma) of each row's group at each column, aligned with `values`.

    `groups[i]` is the group of row i, negative for none. NaN where fewer than `least` members have a value.
    """
    centre = np.full(values.shape, np.nan)
    spread = np.full(values.shape, np.nan)
    order = np.argsort(groups, kind="stable")
    order = order[groups[order] >= 0]
    if not len(order):
        return centre, spread
    bounds = np.flatnonzero(np.diff(groups[order])) + 1
    for members in np.split(order, bounds):
        if len(members) < least:
            continue
        part = values[members]
        median, count = column_median(part)
        enough = count >= least
        if not enough.any():
            continue
        median = np.where(enough, median, np.nan)
        sigma = MAD_TO_SIGMA * column_median(np.abs(part - median))[0]
        centre[members] = median
        spread[members] = np.where(enough, sigma, np.nan)
    return centre, spread
