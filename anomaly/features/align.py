"""One signal's values at another's rows and times."""

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms
from anomaly.panels import Rows
from anomaly.records import Floats, Ints


def at_times(values: Floats, times: Ints, wanted: Ints, tolerance: Ms) -> Floats:
    """For each wanted time the newest column at or before it, not older than `tolerance`; NaN otherwise."""
    if not len(times):
        return np.full((len(values), len(wanted)), np.nan)
    place = np.searchsorted(times, wanted, side="right") - 1
    good = (place >= 0) & (wanted - times[np.maximum(place, 0)] <= tolerance)
    return np.where(good[None, :], values[:, np.maximum(place, 0)], np.nan)


def row_lookup(source: Rows, wanted: Rows, per_device: bool) -> NDArray[np.int64]:
    """For each wanted row the source row of the same entity (and device); -1 where there is none."""
    if per_device:
        table = {
            pair: i for i, pair in enumerate(zip(source.entity_code.tolist(), source.device_code.tolist(), strict=True))
        }
        pairs = zip(wanted.entity_code.tolist(), wanted.device_code.tolist(), strict=True)
        return np.array([table.get(pair, -1) for pair in pairs], np.int64)
    first = {code: i for i, code in reversed(list(enumerate(source.entity_code.tolist())))}
    return np.array([first.get(code, -1) for code in wanted.entity_code.tolist()], np.int64)


def take_rows(values: Floats, places: NDArray[np.int64]) -> Floats:
    """Rows of `values` at `places`; NaN rows for -1."""
    out = np.full((len(places), values.shape[1]), np.nan)
    found = places >= 0
    out[found] = values[places[found]]
    return out


def _pairs(rows: Rows) -> list[tuple[int, int]]:
    return list(zip(rows.entity_code.tolist(), rows.device_code.tolist(), strict=True))
