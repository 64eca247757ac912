"""One signal's values at another's rows and times."""

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms
from anomaly.panels import Rows
from anomaly.records import Bools, Floats, Ints


def at_times(values: Floats, times: Ints, wanted: Ints, tolerance: Ms) -> Floats:
    """For each wanted time the newest column at or before it, not older than `tolerance`; NaN otherwise."""
    if not len(times):
        return np.full((len(values), len(wanted)), np.nan)
    place = np.searchsorted(times, wanted, side="right") - 1
    good = (place >= 0) & (wanted - times[np.maximum(place, 0)] <= tolerance)
    return np.where(good[None, :], values[:, np.maximum(place, 0)], np.nan)


def row_lookup(source: Rows, wanted: Rows, per_device: bool) -> NDArray[np.int64]:
    """For each wanted row the source row of the same entity (and device); -1 where there is none."""
    have, want = source.entity_code.astype(np.int64), wanted.entity_code.astype(np.int64)
    if per_device:
        span = 1 + int(max(source.device_code.max(initial=0), wanted.device_code.max(initial=0)))
        have, want = have * span + source.device_code, want * span + wanted.device_code
    if len(have) == len(want) and (have == want).all() and (have[1:] > have[:-1]).all():
        return np.arange(len(want), dtype=np.int64)
    if not len(have):
        return np.full(len(want), -1, np.int64)
    # Of several rows of one device the last counts, of several of one entity the first.
    order = np.argsort(have, kind="stable")
    place = np.searchsorted(have[order], want, side="right" if per_device else "left") - int(per_device)
    place = np.clip(place, 0, len(have) - 1)
    return np.where(have[order[place]] == want, order[place], -1)


def take_rows(values: Floats, places: NDArray[np.int64]) -> Floats:
    """Rows of `values` at `places`; NaN rows for -1."""
    out = np.full((len(places), values.shape[1]), np.nan)
    found = places >= 0
    out[found] = values[places[found]]
    return out


def per_entity(flags: Bools, entity_code: NDArray[np.int32], size: int) -> Floats:
    """How many of each entity's rows are set, entities (by code) × columns."""
    out = np.zeros((size, flags.shape[1]))
    for column in range(flags.shape[1]):
        out[:, column] = np.bincount(entity_code, weights=flags[:, column], minlength=size)
    return out
