"""Load gates: clocks, temperatures and power are judged only while the GPU works."""

import numpy as np

from anomaly.clock import MINUTE, Ms
from anomaly.features.align import at_times, per_entity, row_lookup, take_rows
from anomaly.panels import Panel, Rows
from anomaly.records import Bools, Floats, Ints

BUSY_RATIO = 0.6
"""Utilisation from which a GPU counts as working: above input stalls, below any steady training phase."""

WARM_UP: Ms = 2 * MINUTE
"""How long it must have been working: clocks settle in seconds, and temperature starts from its own offset."""


def busy_mask(util: Panel | None, rows: Rows, times: Ints, per_device: bool, full: float = 100.0) -> Bools | None:
    """rows × times: whether each row's GPU (or, per node, most of its GPUs) has been working for WARM_UP.

    `full` is the utilisation of a device that always works. None without a utilisation signal: then nothing is known
    and nothing is gated.
    """
    if util is None or not len(util.rows):
        return None
    step = int(util.times[1] - util.times[0]) if len(util.times) > 1 else MINUTE
    working = np.where(np.isnan(util.values), np.nan, (util.values >= BUSY_RATIO * full).astype(float))
    steady = trailing_all(working, max(1, WARM_UP // step))
    if per_device:
        table = take_rows(steady, row_lookup(util.rows, rows, per_device=True))
    else:
        table = _per_node(steady, util.rows, rows)
    working_now: Bools = at_times(table, util.times, times, tolerance=3 * step) == 1.0
    return working_now


def trailing_all(flags: Floats, columns: int) -> Floats:
    """1 where every known flag of the trailing `columns` is 1 and the current one is known; NaN where it is not."""
    out = flags.copy()
    for back in range(1, min(columns, flags.shape[1])):
        earlier = flags[:, :-back]
        out[:, back:] = np.where(earlier == 0.0, np.where(np.isnan(out[:, back:]), np.nan, 0.0), out[:, back:])
    return out


def _per_node(steady: Floats, source: Rows, wanted: Rows) -> Floats:
    known, working = ~np.isnan(steady), steady == 1.0
    size = int(max(source.entity_code.max(), wanted.entity_code.max(initial=0))) + 1
    total, on = per_entity(known, source.entity_code, size), per_entity(working, source.entity_code, size)
    share = np.where(total > 0, (on * 2 >= total).astype(float), np.nan)
    return share[wanted.entity_code]
