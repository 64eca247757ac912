"""What a host's own exporters read: CPU, memory, NIC ports, storage requests."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms
from anomaly.records import Bools, Floats
from anomaly.source.simulated.counters import Counters, few, seeded, step_of
from anomaly.source.simulated.jobs import Phase
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.physics import Course
from anomaly.source.simulated.setting import Setting

Resets = Sequence[tuple[int, int]]
"""(node, step) at which the node's counters start from nothing."""

MODES: tuple[str, ...] = ("idle", "user", "system", "iowait")
METHODS: tuple[str, ...] = ("GET", "PUT")
BUCKETS: tuple[float, ...] = tuple(float(0.01 * 1.5**k) for k in range(25))
"""Upper bounds in seconds; +Inf comes on top."""

MEMORY_BYTES = 2.0 * 2**40
_RAIL_BYTES = 9.0e9
"""Mean bytes per second of a rail at full work (a 400 Gb/s port, a fifth of it)."""
_PAUSE_SENT, _PAUSE_RECEIVED, _MARKS = 3.0, 12.0, 8.0
"""Frames (packets) per second and port at full work: bursts of the all-reduce, on every node."""
_READS, _WRITES, _SAVES = 40.0, 0.5, 60.0
"""Requests per second and node: reads at full work, writes then, writes in a checkpoint."""
_MEDIAN, _SHAPE = {"GET": 0.020, "PUT": 0.030}, 3.4
"""Latencies are log-logistic: a median in seconds, and a tail with P99 at 3.9 medians."""


@dataclass(frozen=True)
class Stretch:
    """One stretch of time as the host's readers need it; `back` says where hosts come back from a boot."""

    cluster: Cluster
    setting: Setting
    course: Course
    counters: Counters
    rng: np.random.Generator
    dt: float
    """Seconds between steps."""
    back: Resets

    def phase(self) -> NDArray[np.int8]:
        """N × T: what the job on each node does."""
        return np.take_along_axis(self.setting.phase, self.setting.held, axis=0)

    def events(self, instants: Sequence[tuple[Ms, int]]) -> list[tuple[int, int]]:
        """(node, step) of those (time, node) that fall into this stretch."""
        return [(node, at) for t, node in instants if (at := step_of(self.setting.ts, t)) is not None]


@dataclass
class Gauges:
    """What a host carries besides counters."""

    boot: Floats
    load: Floats


def start(cluster: Cluster, counters: Counters, rng: np.random.Generator, uptime: Floats) -> None:
    """Counters of hosts that have been up for `uptime` seconds."""
    n = len(cluster.nodes)
    port = (n, cluster.rails)
    shares = np.array([0.80, 0.15, 0.04, 0.01])
    spread = uptime[:, None, None] * shares * (1.0 + 0.02 * rng.standard_normal((n, cluster.cores, 1)))
    counters.now |= {
        "cpu": np.round(spread, 2),
        "received": seeded(rng, port, 1e14, 6e14),
        "transmitted": seeded(rng, port, 1e14, 6e14),
        "symbol": few(rng, port, 0.06),
        "link_downed": few(rng, port, 0.3, 3),
        "recovery": few(rng, port, 0.05),
        "drops": few(rng, port, 0.05, 30),
        "receive_errors": few(rng, port, 0.03),
        "discards": few(rng, port, 0.05, 30),
        "pause_received": seeded(rng, port, 1e5, 1e7),
        "pause_sent": seeded(rng, port, 1e4, 1e6),
        "marks": seeded(rng, port, 1e5, 1e7),
        "requests": np.cumsum(seeded(rng, (n, len(METHODS), len(BUCKETS) + 1), 1e2, 1e6), axis=2),
        "oom": few(rng, (n,), 0.4, 3),
    }


def marked(there: Bools, events: Resets) -> Bools:
    """N × T: the steps of `events`."""
    found = np.zeros_like(there)
    for node, step in events:
        found[node, step] = True
    return found


def series(stretch: Stretch, state: Gauges) -> dict[str, Floats]:
    """Gauges and counters of the host as a whole (N × T); `state` moves on."""
    cluster, setting, rng, dt = stretch.cluster, stretch.setting, stretch.rng, stretch.dt
    there, phase = setting.up, stretch.phase()
    busy = _cpu_share(phase, setting)
    boot = np.repeat(state.boot[:, None], len(setting.ts), axis=1)
    for instant, node, booted in setting.boots:
        if (at := step_of(setting.ts, instant)) is not None:
            boot[node, at:] = booted // 1000
    state.boot = boot[:, -1].copy()
    load = np.empty_like(busy)
    keep = np.exp(-dt / 60.0)
    noise = 1.0 + 0.08 * rng.standard_normal(busy.shape)
    for i in range(load.shape[1]):
        state.load = keep * state.load + (1.0 - keep) * cluster.cores * busy[:, i] * 1.4 * noise[:, i]
        load[:, i] = state.load
    load = load + cluster.cores * setting.run_queue
    progress = np.take_along_axis(setting.progress, setting.held, axis=0)
    free = 0.94 - np.where(phase == Phase.DOWN, 0.0, 0.42 * np.clip(progress * 1.5, 0.0, 1.0))
    left = np.clip(free - setting.memory_used + 0.004 * rng.standard_normal(free.shape), 0.002, 1.0)
    available = np.round(MEMORY_BYTES * left / 1024) * 1024
    killed = np.zeros_like(busy)
    for node, at in stretch.events(setting.ooms):
        killed[node, at] += 1.0
    values = {
        "boot_time": boot,
        "load1": np.round(load, 2),
        "memory_available": available,
        "memory_total": np.full_like(busy, MEMORY_BYTES),
        "oom_kill": stretch.counters.grow("oom", killed, stretch.back),
        "uname_info": np.ones_like(busy),
    }
    return {name: np.where(there, array, np.nan) for name, array in values.items()}


def cpus(stretch: Stretch) -> Floats:
    """CPU seconds, node × core × mode × step; over the modes they add up to the time that went by."""
    setting, phase = stretch.setting, stretch.phase()
    shape = (len(phase), stretch.cluster.cores, len(setting.ts))
    busy = _cpu_share(phase, setting)[:, None] * (1.0 + 0.12 * stretch.rng.standard_normal(shape))
    busy = np.clip(busy, 0.002, 0.98)
    waits = (np.where(phase == Phase.CHECKPOINT, 0.06, 0.004) + setting.cpu_wait)[:, None] * np.ones_like(busy)
    waits = np.minimum(waits, 1.0 - busy)
    shares = np.stack([1.0 - busy - waits, 0.78 * busy, 0.22 * busy, waits], axis=2)
    seconds = np.round(stretch.counters.grow("cpu", shares * stretch.dt, stretch.back), 2)
    return np.asarray(np.where(setting.up[:, None, None], seconds, np.nan))


def ports(stretch: Stretch) -> dict[str, Floats]:
    """RDMA port counters, node × rail × step."""
    setting, course, rng, dt = stretch.setting, stretch.course, stretch.rng, stretch.dt
    shape = setting.rail_share.shape
    work = course.work_at[:, None]
    share = setting.rail_share / setting.rail_share.mean(axis=1, keepdims=True)
    # Forward only: next to nothing to reduce.
    exchanged = np.where(stretch.phase() == Phase.EVALUATION, 0.15, 1.0)[:, None]
    carried = _RAIL_BYTES * dt * work * share * exchanged
    # One burst factor for all nodes of a job: the all-reduce hits everybody at once; then a node's own share of it.
    jobs, steps = setting.drag.shape
    burst = np.take_along_axis(rng.gamma(2.5, 1 / 2.5, (jobs, steps)), setting.held, axis=0)[:, None]
    burst = burst * rng.gamma(8.0, 1 / 8.0, (shape[0], 1, steps)) * work * exchanged * dt
    increments = {
        "received": np.floor(carried * (1.0 + 0.02 * rng.standard_normal(shape)) / 4) * 4,
        "transmitted": np.floor(carried * (1.0 + 0.02 * rng.standard_normal(shape)) / 4) * 4,
        "symbol": rng.poisson(setting.symbol_rate * dt),
        "link_downed": np.zeros(shape),
        "recovery": rng.poisson(setting.symbol_rate * dt * 0.01),
        "drops": rng.poisson(setting.drop_rate * dt),
        "receive_errors": rng.poisson(setting.receive_error_rate * dt),
        "discards": rng.poisson(setting.discard_rate * dt),
        "pause_received": rng.poisson(_PAUSE_RECEIVED * burst * setting.pause_received),
        "pause_sent": rng.poisson(_PAUSE_SENT * burst * setting.pause_sent),
        "marks": rng.poisson(_MARKS * burst * setting.marks),
    }
    for instant, node, port, name, count in setting.port_events:
        if (at := step_of(setting.ts, instant)) is not None:
            increments[name] = increments[name].astype(np.float64)
            increments[name][node, port, at] += count
    resets = [*stretch.back, *stretch.events(setting.clears)]
    there = setting.up[:, None]
    return {
        name: np.where(there, stretch.counters.grow(name, grown.astype(np.float64), resets), np.nan)
        for name, grown in increments.items()
    }


def requests(stretch: Stretch) -> Floats:
    """Histogram of storage requests: node × method × bucket × step, each bucket holding all below it."""
    cluster, setting, course, rng = stretch.cluster, stretch.setting, stretch.course, stretch.rng
    systems = sorted({node.storage for node in cluster.nodes})
    common = np.exp(0.05 * rng.standard_normal((len(systems), len(setting.ts))))
    slow = setting.latency * common[[systems.index(node.storage) for node in cluster.nodes]]
    saving = stretch.phase() == Phase.CHECKPOINT
    rates = {"GET": _READS * course.work_at, "PUT": np.where(saving, _SAVES, _WRITES * course.work_at)}
    bounds = np.array(BUCKETS)[:, None]
    grown = []
    for method in METHODS:
        median = (_MEDIAN[method] * slow)[:, None]
        below = 1.0 / (1.0 + (bounds / median) ** -_SHAPE)
        share = np.diff(below, axis=1, prepend=0.0, append=1.0)
        grown.append(rng.poisson(rates[method][:, None] * stretch.dt * share))
    counts = np.cumsum(np.stack(grown, axis=1), axis=2).astype(np.float64)
    values = stretch.counters.grow("requests", counts, [*stretch.back, *stretch.events(setting.remounts)])
    return np.asarray(np.where(setting.up[:, None, None], values, np.nan))


def _cpu_share(phase: NDArray[np.int8], setting: Setting) -> Floats:
    """Share of CPU time used, by phase: data loading while training, spinning proxies in a hang; and by others."""
    own = np.array([0.02, 0.15, 0.24, 0.20, 0.17, 0.22])[phase]
    return np.asarray(np.clip(own + setting.cpu_extra, 0.01, 0.98))
