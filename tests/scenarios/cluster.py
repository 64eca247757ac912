"""A small cluster as NumPy arrays: what its exporters would show, minute by minute, before anything happens to it.

Written without a look at `anomaly.source.simulated`, so that two opinions of what a cluster looks like meet the same
production code. Values are per grid step of 15 s; counters are kept as rates until they are exported.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import MINUTE, SECOND, Ms, parse_time
from anomaly.records import Bools, Floats, Ints, Labels

STEP: Ms = 15 * SECOND
ORIGIN: Ms = parse_time("2026-11-30T00:00:00Z")

GPU_GAUGES = ("gpu_temp", "gpu_power", "sm_clock", "gpu_util", "tensor_active", "framebuffer_used", "xid")
GPU_COUNTERS = ("ecc_correctable", "ecc_uncorrectable", "pcie_replay", "thermal_violation")
RAIL_COUNTERS = (
    "rdma_bytes_received",
    "symbol_errors",
    "link_downed",
    "rdma_discards",
    "pfc_pause_received",
    "pfc_pause_transmitted",
)
HOST_GAUGES = ("boot_time", "cpu_busy_ratio", "memory_available_ratio")
DCGM, NODE = "dcgm-exporter", "node-exporter"

Key = tuple[str, str]
"""(node, device), or (job, node) for a job's own series."""


@dataclass(frozen=True)
class JobPlan:
    """A training job: which nodes, from minute `start` to minute `end`."""

    name: str
    nodes: tuple[str, ...]
    start: float = 0.0
    end: float = 1e9


@dataclass
class Cluster:
    """`gauges[signal][key]` and `rates[signal][key]` are arrays over `times`; NaN is "no sample". `label_times` lists,
    per node, from when on its GPUs carry further labels; `twins` are nodes whose GPUs two exporters report."""

    nodes: tuple[str, ...]
    gpus: int
    rails: int
    times: Ints
    jobs: tuple[JobPlan, ...]
    groups: dict[str, dict[str, str]]
    random: np.random.Generator
    gauges: dict[str, dict[Key, Floats]] = field(default_factory=dict)
    rates: dict[str, dict[Key, Floats]] = field(default_factory=dict)
    restarts: dict[str, list[int]] = field(default_factory=dict)
    extra_labels: dict[str, list[tuple[int, dict[str, str]]]] = field(default_factory=dict)
    twins: set[str] = field(default_factory=set)
    further: dict[str, list[tuple[Labels, Floats]]] = field(default_factory=dict)
    """Series of any signal, as they are."""
    job_of: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def columns(self, start: float, end: float | None = None) -> slice:
        """The steps from minute `start` up to, but not at, minute `end`."""
        first, last = np.searchsorted(self.times, [minute(start), minute(1e6 if end is None else end)]).tolist()
        return slice(first, last)

    def ramp(self, start: float, minutes: float, end: float | None = None) -> Floats:
        """0 before minute `start`, 1 from `minutes` later on, 0 again from minute `end`."""
        rise = np.clip((self.times - minute(start)) / max(minutes * MINUTE, 1), 0.0, 1.0)
        return np.where(self.times >= minute(1e6 if end is None else end), 0.0, rise)

    def during(self, start: float, end: float | None = None) -> Bools:
        out = np.zeros(len(self.times), bool)
        out[self.columns(start, end)] = True
        return out

    def noise(self, sigma: float) -> Floats:
        return self.random.normal(0.0, sigma, len(self.times))

    def members(self, job: str) -> tuple[str, ...]:
        return next(plan.nodes for plan in self.jobs if plan.name == job)

    def gpu_keys(self, nodes: Iterable[str], gpu: int | None = None) -> list[Key]:
        return [(node, str(g)) for node in nodes for g in range(self.gpus) if gpu is None or g == gpu]

    def silence(self, nodes: Sequence[str], where: Bools, target: str | None = None) -> None:
        """No samples of the nodes' targets (or one of them), and `up` says 0."""
        for name, series in (*self.gauges.items(), *self.rates.items()):
            of = DCGM if name in GPU_GAUGES + GPU_COUNTERS else NODE
            if name in ("iteration_seconds", "up", "kube_cordoned") or (target is not None and of != target):
                continue
            for key, values in series.items():
                if key[0] in nodes:
                    values[where] = np.nan
        for (node, job), values in self.gauges["up"].items():
            if node in nodes and target in (None, job):
                values[where & ~np.isnan(values)] = 0.0
        if target is None:
            for (_, node), values in self.gauges["iteration_seconds"].items():
                if node in nodes:
                    values[where] = np.nan


def minute(at: float) -> Ms:
    """Minutes of the scenario → the instant."""
    return ORIGIN + round(at * MINUTE)


def healthy(
    minutes: int,
    nodes: int,
    gpus: int,
    rails: int,
    jobs: Sequence[JobPlan],
    groups: dict[str, dict[str, str]],
    seed: int,
) -> Cluster:
    """A cluster to which nothing happens: GPUs that differ for ever, jobs that come and go."""
    names = tuple(f"node-{i + 1}" for i in range(nodes))
    times = np.arange(ORIGIN + STEP, minute(minutes) + 1, STEP, dtype=np.int64)
    cluster = Cluster(names, gpus, rails, times, tuple(jobs), groups, np.random.default_rng(seed))
    for name in (*GPU_GAUGES, *HOST_GAUGES, "up", "storage_p99", "iteration_seconds", "kube_cordoned"):
        cluster.gauges[name] = {}
    for name in (*GPU_COUNTERS, *RAIL_COUNTERS):
        cluster.rates[name] = {}
    for node in names:
        at_work = np.full(len(times), -1, np.int64)
        for j, plan in enumerate(jobs):
            if node in plan.nodes:
                at_work[cluster.columns(plan.start, plan.end)] = j
        cluster.job_of[node] = at_work
        _host(cluster, node)
        for g in range(gpus):
            _gpu(cluster, node, g, at_work >= 0)
        for r in range(rails):
            _rail(cluster, node, r, at_work >= 0)
    for plan in jobs:
        lockstep = 10.0 * np.exp(cluster.noise(0.006))
        for node in plan.nodes:
            running = cluster.during(plan.start, plan.end)
            cluster.gauges["iteration_seconds"][plan.name, node] = np.where(running, lockstep, np.nan)
    return cluster


def _host(cluster: Cluster, node: str) -> None:
    ones = np.ones(len(cluster.times))
    cluster.gauges["up"][node, DCGM] = ones.copy()
    cluster.gauges["up"][node, NODE] = ones.copy()
    cluster.gauges["boot_time"][node, ""] = ones * (ORIGIN / 1000 - 86_400)
    cluster.gauges["cpu_busy_ratio"][node, ""] = np.clip(0.2 + cluster.noise(0.02), 0, 1)
    cluster.gauges["memory_available_ratio"][node, ""] = np.clip(0.5 + cluster.noise(0.01), 0, 1)
    cluster.gauges["storage_p99"][node, "train-data"] = 0.05 * np.exp(cluster.noise(0.08))


def _gpu(cluster: Cluster, node: str, g: int, busy: Bools) -> None:
    key, random = (node, str(g)), cluster.random
    power = np.where(busy, 380.0 * (1 + random.normal(0, 0.02)) + cluster.noise(8.0), 60.0 + cluster.noise(1.0))
    warmth = 28.0 + 0.08 * power + random.normal(0, 2.5) + 0.4 * g
    cluster.gauges["gpu_power"][key] = power
    cluster.gauges["gpu_temp"][key] = np.round(warmth + cluster.noise(0.7))
    clock = 1755.0 * (1 + random.normal(0, 0.004)) + cluster.noise(4.0)
    cluster.gauges["sm_clock"][key] = np.where(busy, np.round(clock / 15) * 15, 210.0)
    cluster.gauges["gpu_util"][key] = np.where(busy, np.clip(np.round(98 + cluster.noise(1.5)), 0, 100), 0.0)
    wave = 0.02 * np.sin(np.arange(len(cluster.times)) / 3.1 + g)
    cluster.gauges["tensor_active"][key] = np.where(busy, 0.45 + wave, 0.0)
    cluster.gauges["framebuffer_used"][key] = np.where(busy, 70_000.0, 500.0)
    cluster.gauges["xid"][key] = np.zeros(len(cluster.times))
    for name in GPU_COUNTERS:
        cluster.rates[name][key] = np.zeros(len(cluster.times))


def _rail(cluster: Cluster, node: str, r: int, busy: Bools) -> None:
    key = (node, str(r))
    for name in RAIL_COUNTERS:
        cluster.rates[name][key] = np.zeros(len(cluster.times))
    cluster.rates["rdma_bytes_received"][key] = np.where(busy, 4e9 * np.exp(cluster.noise(0.05)), 1e4)
    cluster.rates["pfc_pause_received"][key] = np.where(busy, 60.0 * np.exp(cluster.noise(0.3)), 0.0)
    cluster.rates["pfc_pause_transmitted"][key] = np.where(busy, 60.0 * np.exp(cluster.noise(0.3)), 0.0)
