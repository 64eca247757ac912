"""The node cube, node × time × feature: what the isolation forest judges.

Every feature is a deviation, never a raw value: of the node's devices from their peers and from their own habit, then
of the node from the other nodes of its job (of its kind, where its job is small). What is unknown is NaN.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import MINUTE, Ms
from anomaly.features.load import busy_mask
from anomaly.panels import Panel, Rows
from anomaly.records import Entity, Floats, Ints

LEAST_PEERS = 5
"""A node and at least four others."""

WORKING_SHARE = 0.8
"""Share of the window for which most of a node's GPUs must have worked."""

How = Literal["highest", "lowest", "mean", "slope", "spread", "swing", "errors"]


@dataclass(frozen=True, slots=True)
class Feature:
    """One column. `floor` is the smallest deviation of interest, in `unit`: as a standard deviation, what is smaller
    counts as noise."""

    name: str
    signals: tuple[str, ...]
    how: How
    unit: str
    symptom: str
    floor: float
    about: str
    per: float = 1.0
    """The signal's unit in units of the feature (nanoseconds a second in one: 1e9)."""


def _table(*features: Feature) -> dict[str, Feature]:
    return {feature.name: feature for feature in sorted(features, key=lambda feature: feature.name)}


FEATURES: dict[str, Feature] = _table(
    Feature("gpu_temp_highest", ("gpu_temp",), "highest", "celsius", "thermal", 1.0, "hottest GPU at equal power"),
    Feature("gpu_temp_mean", ("gpu_temp",), "mean", "celsius", "thermal", 0.7, "GPU temperature at equal power"),
    Feature("gpu_temp_slope", ("gpu_temp",), "slope", "celsius/min", "thermal", 0.3, "warming of the fastest GPU"),
    Feature("memory_temp_highest", ("memory_temp",), "highest", "celsius", "thermal", 1.2, "hottest GPU memory"),
    Feature("throttled_share", ("thermal_violation",), "highest", "ratio", "thermal", 0.01,
            "share of time throttled for heat", 1e9),
    Feature("sm_clock_lowest", ("sm_clock",), "lowest", "log", "compute", 0.004, "slowest clock"),
    Feature("sm_clock_slope", ("sm_clock",), "slope", "log/min", "compute", 0.002, "change of the clocks"),
    Feature("power_mean", ("gpu_power",), "mean", "log", "compute", 0.02, "board power"),
    Feature("power_swing", ("gpu_power",), "swing", "log", "compute", 0.2, "how restless board power is"),
    Feature("util_spread", ("gpu_util",), "spread", "percent", "compute", 2.0, "utilisation of the GPUs"),
    Feature("tensor_spread", ("tensor_active",), "spread", "ratio", "compute", 0.02, "tensor activity of the GPUs"),
    Feature("pcie_replays", ("pcie_replay",), "errors", "log", "compute", 0.3, "PCIe replays a minute"),
    Feature("nvlink_errors", ("nvlink_errors",), "errors", "log", "nvlink", 0.3, "NVLink errors a minute"),
    Feature("ecc_corrected", ("ecc_correctable",), "errors", "log", "memory", 0.3, "corrected memory errors a minute"),
    Feature("received_lowest", ("rdma_bytes_received",), "lowest", "log", "network", 0.05, "least received on a rail"),
    Feature("transmitted_lowest", ("rdma_bytes_transmitted",), "lowest", "log", "network", 0.05,
            "least sent on a rail"),
    Feature("pauses_received", ("pfc_pause_received",), "highest", "log", "network", 0.3, "pauses received on a rail"),
    Feature("pauses_sent", ("pfc_pause_transmitted",), "highest", "log", "network", 0.3, "pauses sent on a rail"),
    Feature("link_errors", ("symbol_errors", "link_error_recovery", "port_receive_errors"), "errors", "log", "network",
            0.3, "link errors a minute"),
    Feature("drops", ("rdma_discards", "buffer_drops"), "errors", "log", "network", 0.3, "packets dropped a minute"),
    Feature("cpu_busy", ("cpu_busy_ratio",), "highest", "ratio", "host", 0.02, "busy CPUs"),
)  # fmt: skip
"""Every feature there is, by name, in the order of names."""

RELATIVE: frozenset[How] = frozenset({"highest", "lowest", "mean", "slope"})
"""Made of residuals against peers; the others are made of the signal itself and compared node with node only."""


def signals_of(names: Sequence[str]) -> tuple[str, ...]:
    """The signals that features are made of, sorted."""
    return tuple(sorted({signal for name in names for signal in FEATURES[name].signals}))


@dataclass(frozen=True, slots=True)
class Trace:
    """One signal over the columns that the cube looks at. `residual` is None where the signal has no peers' verdict."""

    rows: Rows
    times: Ints
    values: Floats
    residual: Floats | None


@dataclass(frozen=True, slots=True)
class NodeCube:
    """`values[n, t, f]`: feature `features[f]` of `nodes[n]` in the window that ends at `times[t]`.

    A node that does not work is NaN in all features; `seen[n, t]` says that it had samples at all.
    """

    nodes: tuple[Entity, ...]
    times: Ints
    features: tuple[str, ...]
    values: Floats
    seen: NDArray[np.bool_]


def build_cube(
    features: Sequence[str],
    traces: Mapping[str, Trace],
    util: Panel | None,
    job: NDArray[np.int32],
    kind: NDArray[np.int64],
    rows: Rows,
    times: Ints,
    window: Ms,
) -> NodeCube:
    """The cube of the nodes `rows` at `times`; each value is made of the samples in (time - window, time].

    `job[n, t]` is the node's job (negative: none of its own), `kind[n]` its SKU. Without a utilisation signal every
    node counts as working. Features come in the order of their names, whatever the order asked for.
    """
    names = tuple(sorted(features))
    out = np.full((len(rows), len(times), len(names)), np.nan)
    seen = np.zeros((len(rows), len(times)), bool)
    place = np.full(1 + int(max([rows.entity_code.max(initial=0), *_codes(traces)])), -1, np.int64)
    place[rows.entity_code] = np.arange(len(rows))
    working = _working(util, rows, times, window)
    for t, at in enumerate(times.tolist()):
        windows = {name: _Window.of(trace, place, len(rows), at, window) for name, trace in traces.items()}
        for part in windows.values():
            seen[:, t] |= part.known_nodes()
        for f, name in enumerate(names):
            out[:, t, f] = _feature(FEATURES[name], windows, len(rows))
        out[~working[:, t], t] = np.nan
        out[:, t] = _against_peers(out[:, t], names, job[:, t], kind)
    return NodeCube(rows.entities, times, names, out, seen)


def _codes(traces: Mapping[str, Trace]) -> list[int]:
    return [int(trace.rows.entity_code.max(initial=0)) for trace in traces.values()]


@dataclass(frozen=True, slots=True)
class _Window:
    """One signal's samples in one window: rows × columns, and each row's node."""

    node: NDArray[np.int64]
    values: Floats
    residual: Floats | None
    nodes: int
    minutes: float
    """From the middle of the first half to the middle of the second."""

    @staticmethod
    def of(trace: Trace, place: NDArray[np.int64], nodes: int, at: Ms, window: Ms) -> "_Window":
        first, last = np.searchsorted(trace.times, [at - window, at], side="right").tolist()
        node = place[trace.rows.entity_code]
        residual = None if trace.residual is None else trace.residual[:, first:last]
        return _Window(node, trace.values[:, first:last], residual, nodes, window / 2 / MINUTE)

    def known_nodes(self) -> NDArray[np.bool_]:
        out = np.zeros(self.nodes, bool)
        out[self.node[(~np.isnan(self.values)).any(axis=1) & (self.node >= 0)]] = True
        return out


def _feature(feature: Feature, windows: Mapping[str, _Window], nodes: int) -> Floats:
    parts = [windows[name] for name in feature.signals if name in windows]
    if not parts:
        return np.full(nodes, np.nan)
    if feature.how == "errors":
        rates = np.array([_total(part, middle(part.values, most=0.5)) for part in parts])
        known = ~np.isnan(rates).all(axis=0)
        return np.where(known, np.log1p(60.0 * np.nan_to_num(rates).sum(axis=0)), np.nan)
    part = parts[0]
    if feature.how == "spread":
        level = middle(part.values)
        return _extreme(part, level, np.fmax) - _extreme(part, level, np.fmin)
    if feature.how == "swing":
        return np.log(_extreme(part, _restlessness(part.values), np.fmax) + 0.01)
    if part.residual is None:
        return np.full(nodes, np.nan)
    if feature.how == "slope":
        half = part.residual.shape[1] // 2
        rise = (middle(part.residual[:, half:]) - middle(part.residual[:, :half])) / part.minutes
        high, low = _extreme(part, rise, np.fmax), _extreme(part, rise, np.fmin)
        return np.where(high >= -low, high, low)
    level = middle(part.residual) / feature.per
    if feature.how == "mean":
        return _mean(part, level)
    return _extreme(part, level, np.fmax if feature.how == "highest" else np.fmin)


def middle(values: Floats, most: float = 0.5) -> Floats:
    """Median of each row over its known columns; NaN where fewer than two, or than the share `most`, are known."""
    columns = values.shape[1]
    if not columns or not len(values):
        return np.full(len(values), np.nan)
    ordered = np.sort(values, axis=1)
    count = (ordered == ordered).sum(axis=1)
    low, high = np.maximum((count - 1) // 2, 0), np.minimum(count // 2, columns - 1)
    each = np.arange(len(values))
    median = (ordered[each, low] + ordered[each, high]) / 2
    return np.where((count >= 2) & (count >= most * columns), median, np.nan)


def _restlessness(values: Floats) -> Floats:
    """Median step from sample to sample, as a share of the level."""
    if values.shape[1] < 3:
        return np.full(len(values), np.nan)
    level = middle(values)
    step = middle(np.abs(np.diff(values, axis=1)))
    return np.where(level > 0, step / np.where(level > 0, level, 1.0), np.nan)


def _extreme(part: _Window, level: Floats, pick: np.ufunc) -> Floats:
    out = np.full(part.nodes, np.nan)
    good = part.node >= 0
    pick.at(out, part.node[good], level[good])
    return out


def _total(part: _Window, level: Floats) -> Floats:
    good = (part.node >= 0) & ~np.isnan(level)
    count = np.bincount(part.node[good], minlength=part.nodes)
    total = np.bincount(part.node[good], weights=level[good], minlength=part.nodes)
    return np.where(count > 0, total, np.nan)


def _mean(part: _Window, level: Floats) -> Floats:
    good = (part.node >= 0) & ~np.isnan(level)
    count = np.bincount(part.node[good], minlength=part.nodes)
    return _total(part, level) / np.maximum(count, 1)


def _working(util: Panel | None, rows: Rows, times: Ints, window: Ms) -> NDArray[np.bool_]:
    out = np.ones((len(rows), len(times)), bool)
    mask = busy_mask(util, rows, util.times, per_device=False) if util is not None else None
    if util is None or mask is None:
        return out
    for t, at in enumerate(times.tolist()):
        first, last = np.searchsorted(util.times, [at - window, at], side="right").tolist()
        columns = mask[:, first:last]
        out[:, t] = columns.mean(axis=1) >= WORKING_SHARE if columns.shape[1] else False
    return out


def _against_peers(values: Floats, names: Sequence[str], job: NDArray[np.int32], kind: NDArray[np.int64]) -> Floats:
    """Nodes × features less the median of the node's job or, where fewer than LEAST_PEERS of it are known, its kind."""
    centre = np.full(values.shape, np.nan)
    for codes in (np.where(job >= 0, job.astype(np.int64) * (int(kind.max(initial=0)) + 1) + kind, -1), kind):
        for code in np.unique(codes[codes >= 0]).tolist():
            members = np.flatnonzero(codes == code)
            part = values[members]
            count = (~np.isnan(part)).sum(axis=0)
            median = np.where(count >= LEAST_PEERS, middle(part.T, most=0.0), np.nan)
            centre[members] = np.where(np.isnan(centre[members]), median[None, :], centre[members])
    alone = np.array([FEATURES[name].how in RELATIVE for name in names])
    return values - np.where(np.isnan(centre) & alone[None, :], 0.0, centre)
