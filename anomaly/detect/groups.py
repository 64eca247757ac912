"""Robust statistics of groups of rows, per column: the arithmetic of comparing peers."""

import numpy as np
from numpy.typing import NDArray

from anomaly.records import Floats, Ints

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation → standard deviation of a normal distribution (Rousseeuw & Croux 1993)."""

_CELLS = 4_000_000
"""Cells sorted at once: enough to keep NumPy busy, few enough to stay in memory."""


def last_median(ordered: Floats, count: Ints) -> Floats:
    """Median over the last axis, sorted with NaN last, of the first `count` values; NaN where there are none."""
    if not count.size:
        return np.full(count.shape, np.nan)
    width = ordered.shape[-1]
    if (count == width).all():
        return (ordered[..., (width - 1) // 2] + ordered[..., width // 2]) / 2
    flat = ordered.reshape(-1)
    start = np.arange(0, ordered.size, width).reshape(count.shape)
    middle = (flat[start + np.maximum((count - 1) // 2, 0)] + flat[start + np.minimum(count // 2, width - 1)]) / 2
    return np.where(count > 0, middle, np.nan)


def column_median(values: Floats) -> tuple[Floats, Ints]:
    """(median over axis 0 ignoring NaN, how many values) per column."""
    if not len(values):
        return np.full(values.shape[1], np.nan), np.zeros(values.shape[1], np.int64)
    ordered = np.sort(values.T, axis=-1)
    count = (ordered == ordered).sum(axis=-1)
    return last_median(ordered, count), count


def group_statistics(values: Floats, groups: NDArray[np.int64], least: int) -> tuple[Floats, Floats]:
    """(median, robust sigma) of each row's group at each column, aligned with `values`.

    `groups[i]` is the group of row i, negative for none. NaN where fewer than `least` members have a value. Groups of
    like size are laid side by side and sorted together.
    """
    centre = np.full(values.shape, np.nan)
    spread = np.full(values.shape, np.nan)
    order = np.argsort(groups, kind="stable")
    order = order[groups[order] >= 0]
    if not len(order) or not values.shape[1]:
        return centre, spread
    starts = np.concatenate([[0], np.flatnonzero(np.diff(groups[order])) + 1])
    sizes = np.diff(np.append(starts, len(order)))
    padded = values if (sizes == sizes[0]).all() else np.vstack([values, np.full((1, values.shape[1]), np.nan)])
    classes = np.ceil(np.log2(np.maximum(sizes, 1))).astype(int)
    for size_class in np.unique(classes[sizes >= least]):
        chosen = np.flatnonzero((classes == size_class) & (sizes >= least))
        width = int(sizes[chosen].max())
        places = np.arange(width)[None, :]
        inside = places < sizes[chosen, None]
        members = np.where(inside, order[np.minimum(starts[chosen, None] + places, len(order) - 1)], len(values))
        batch = max(1, _CELLS // (width * values.shape[1]))
        for at in range(0, len(chosen), batch):
            _fill(padded, members[at : at + batch], inside[at : at + batch], least, centre, spread)
    return centre, spread


def _fill(
    values: Floats, members: NDArray[np.int64], inside: NDArray[np.bool_], least: int, centre: Floats, spread: Floats
) -> None:
    """Statistics of some groups, groups × members of row numbers, written to their rows of `centre` and `spread`."""
    part = values[members].transpose(0, 2, 1)  # groups × columns × members, contiguous along members when sorted
    ordered = np.sort(part, axis=-1)
    count = (ordered == ordered).sum(axis=-1)
    median = np.where(count >= least, last_median(ordered, count), np.nan)
    deviation = np.sort(np.abs(part - median[..., None]), axis=-1)
    sigma = MAD_TO_SIGMA * last_median(deviation, np.where(count >= least, count, 0))
    rows = members[inside]
    group = np.repeat(np.arange(len(members)), inside.sum(axis=1))
    centre[rows], spread[rows] = median[group], sigma[group]
