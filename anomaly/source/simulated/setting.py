"""The circumstances of one stretch of simulated time: what the physics is given, healthy unless a fault edits it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import DAY, HOUR, MINUTE, SECOND, Ms
from anomaly.records import Bools, Floats, Ints
from anomaly.source.simulated.jobs import Phase, Stop, holders, phases
from anomaly.source.simulated.layout import Cluster

THROTTLE_AT = 87.0
"""°C at which the board begins to lower its clock."""
COOLING_K_PER_W = 0.066
"""Rise of the core over its surroundings per watt, when cooling is in order."""
POWER_EXPONENT = 2.5
"""Dynamic power goes with clock × voltage²; voltage follows the clock."""

QUIET_EVERY: Ms = 2 * HOUR
"""Harmless things (an exporter restart, cleared counters, a remount) happen once in each stretch of this length."""


@dataclass
class Setting:
    """Arrays over nodes N, GPUs G, rails R, jobs J + 1 (the last row: no job) and steps T. Faults edit them."""

    ts: Ints
    phase: NDArray[np.int8]
    """J+1 × T"""
    progress: Floats
    """J+1 × T: of the start, 0 … 1."""
    held: Ints
    """N × T: the job of each node."""
    ambient: Floats
    """N × G × T, °C: what the core would have without power: inlet, slot, the GPU's own offset."""
    drag: Floats
    """J+1 × T: extra step time as a share, from anything but slow clocks."""
    dip: Floats
    """J+1 × T: share of full activity that short waits leave."""
    cooling: Floats
    """N × G × T: thermal resistance relative to healthy."""
    depth_cap: Floats
    """N × G × T: the deepest cut of the clock by the thermal throttle."""
    clock_cap: Floats
    """N × G × T: the largest share of its clock that anything but heat leaves the GPU."""
    silicon: Floats
    """N × G × T: its clock at the usual power, relative to the SKU's."""
    watts_cap: Floats
    """N × G × T: the enforced power limit."""
    power_held: Floats
    """N × G × T: share of time held down for power, beyond the few per cent of everyday."""
    ecc_rate: Floats
    """N × G × T: corrected bits per second at full work."""
    pcie_rate: Floats
    nvlink_rate: Floats
    """N × G × T: replays, link errors per second."""
    memory_extra: Floats
    """N × G × T: share of the framebuffer beyond what the job needs."""
    idle: Bools
    """N × G × T: no kernel runs there, whatever the job does."""
    freed: Bools
    """N × G × T: its process is dead: memory free, clocks at rest."""
    rail_share: Floats
    """N × R × T: what the rail carries, relative to its share."""
    pause_sent: Floats
    pause_received: Floats
    marks: Floats
    """N × R × T: gains on background rates of PFC pause frames and congestion notifications."""
    symbol_rate: Floats
    receive_error_rate: Floats
    drop_rate: Floats
    discard_rate: Floats
    """N × R × T: events per second."""
    latency: Floats
    """N × T: gain on storage latency."""
    lag: Floats
    """N × T: extra step time as a share for which the host keeps its own GPUs waiting, and so everybody."""
    workload: Floats
    """N × T: the node's share of its job's work, relative to an equal one."""
    cpu_extra: Floats
    """N × T: share of CPU time used by others."""
    cpu_wait: Floats
    """N × T: share of CPU time spent waiting for I/O, beyond the usual."""
    run_queue: Floats
    """N × T: tasks per core beyond the usual."""
    memory_used: Floats
    """N × T: share of the host's memory used by others."""
    dress: Ints
    """N × T: which of `DRESSES` the GPU exporter's labels wear."""
    dcgm_up: Bools
    """N × T: the GPU exporter runs."""
    away: Bools
    """T: Prometheus scrapes nobody."""
    up: Bools
    """N × T: the host is there."""
    missing: Bools
    """N × G × T: no series at all for this GPU."""
    frozen: Bools
    """N × G × T: the driver has lost it, the exporter repeats what it last read."""
    stale: Bools
    """N × G × T: the exporter repeats what it last read, of every family."""
    xids: list[tuple[Ms, int, int, int]]
    """(time, node, GPU, code)"""
    reloads: list[tuple[Ms, int]]
    """(time, node): the GPU driver is loaded anew."""
    boots: list[tuple[Ms, int, Ms]]
    """(time back, node, boot time)"""
    exporter_restarts: list[tuple[Ms, int]]
    """(time, node): the GPU exporter misses a scrape."""
    remounts: list[tuple[Ms, int]]
    """(time, node): the storage client starts anew, its counters with it."""
    clears: list[tuple[Ms, int]]
    """(time, node): somebody clears the NIC counters."""
    ooms: list[tuple[Ms, int]]
    timeouts: list[tuple[Ms, int]]
    """(time, node): a scrape of the host's exporter takes too long."""
    sentinels: list[tuple[Ms, int, int]]
    """(time, node, GPU): DCGM has no memory temperature and says so with a number."""
    gpu_events: list[tuple[Ms, int, int, str, int]]
    port_events: list[tuple[Ms, int, int, str, int]]
    """(time, node, GPU or port, counter, by how much)"""


def ambient(cluster: Cluster, ts: Ints) -> Floats:
    """Inlet by rack with a day's wave of ± 1.5 °C, airflow by slot, and the GPU's own offset (± 4 °C in all)."""
    rng = np.random.default_rng([cluster.seed, 3])
    racks = sorted({node.rack for node in cluster.nodes})
    inlet = dict(zip(racks, rng.uniform(22.0, 25.0, len(racks)), strict=True))
    slot = np.where(np.arange(cluster.gpus) % 2, 1.2, -1.2)
    own = np.clip(rng.normal(0.0, 1.5, (len(cluster.nodes), cluster.gpus)), -2.8, 2.8)
    base = np.array([inlet[node.rack] for node in cluster.nodes])[:, None] + slot + own
    wave = 1.5 * np.sin(2 * np.pi * (ts % DAY - 9 * HOUR) / DAY)
    return np.asarray(base[:, :, None] + wave)


def healthy(cluster: Cluster, stops: Sequence[Stop], origin: Ms, ts: Ints) -> Setting:
    """The circumstances at `ts` (evenly spaced) with nothing wrong but what stops jobs, with everyday trifles."""
    nodes, jobs, steps = len(cluster.nodes), len(cluster.jobs) + 1, len(ts)
    by_gpu, by_rail = (nodes, cluster.gpus, steps), (nodes, cluster.rails, steps)
    phase, progress = phases(cluster, stops, origin, ts)
    # About two stray events in 20,000 port-minutes, whatever the size of the cluster.
    stray = 1e-6
    setting = Setting(
        ts=ts,
        phase=phase,
        progress=progress,
        held=holders(cluster, phase),
        ambient=ambient(cluster, ts),
        drag=np.zeros((jobs, steps)),
        dip=np.ones((jobs, steps)),
        cooling=np.ones(by_gpu),
        depth_cap=np.full(by_gpu, 0.4),
        clock_cap=np.ones(by_gpu),
        silicon=np.ones(by_gpu),
        watts_cap=np.full(by_gpu, np.inf),
        power_held=np.zeros(by_gpu),
        ecc_rate=np.zeros(by_gpu),
        pcie_rate=np.zeros(by_gpu),
        nvlink_rate=np.zeros(by_gpu),
        memory_extra=np.zeros(by_gpu),
        idle=np.zeros(by_gpu, bool),
        freed=np.zeros(by_gpu, bool),
        rail_share=np.ones(by_rail),
        pause_sent=np.ones(by_rail),
        pause_received=np.ones(by_rail),
        marks=np.ones(by_rail),
        symbol_rate=np.full(by_rail, stray),
        receive_error_rate=np.full(by_rail, stray / 4),
        drop_rate=np.full(by_rail, stray),
        discard_rate=np.full(by_rail, stray),
        latency=np.ones((nodes, steps)),
        lag=np.zeros((nodes, steps)),
        workload=np.ones((nodes, steps)),
        cpu_extra=np.zeros((nodes, steps)),
        cpu_wait=np.zeros((nodes, steps)),
        run_queue=np.zeros((nodes, steps)),
        memory_used=np.zeros((nodes, steps)),
        dress=np.zeros((nodes, steps), np.int64),
        dcgm_up=np.ones((nodes, steps), bool),
        away=np.zeros(steps, bool),
        up=np.ones((nodes, steps), bool),
        missing=np.zeros(by_gpu, bool),
        frozen=np.zeros(by_gpu, bool),
        stale=np.zeros(by_gpu, bool),
        xids=[],
        reloads=[],
        boots=[],
        exporter_restarts=[],
        remounts=[],
        clears=[],
        ooms=[],
        timeouts=[],
        sentinels=[],
        gpu_events=[],
        port_events=[],
    )
    _trifles(setting, cluster, origin)
    return setting


def quiet_events(cluster: Cluster, origin: Ms, stretch: int) -> dict[str, tuple[Ms, int]]:
    """The harmless events of one stretch of `QUIET_EVERY`: name → (time, node)."""
    rng = np.random.default_rng([cluster.seed, 4, stretch])
    begin = origin + stretch * QUIET_EVERY
    names = ("exporter_restart", "remount", "clear", "oom", "timeout", "sentinel")
    return {
        name: (
            begin + int(rng.integers(5 * MINUTE, QUIET_EVERY, endpoint=False)),
            int(rng.integers(len(cluster.nodes))),
        )
        for name in names
    }


def sticky_xids(cluster: Cluster, origin: Ms) -> list[tuple[Ms, int, int, int]]:
    """Application XIDs (13, 31) left behind by every other job's first attempt: (time, node, GPU, code)."""
    rng = np.random.default_rng([cluster.seed, 5])
    found = []
    for j, job in enumerate(cluster.jobs):
        node = cluster.index[job.nodes[int(rng.integers(len(job.nodes)))]]
        gpu, code = int(rng.integers(cluster.gpus)), int(rng.choice([13, 31]))
        if j % 2 == 0 or job.starts_after > 0:
            found.append((origin + job.starts_after + 40 * SECOND, node, gpu, code))
    return found


def _trifles(setting: Setting, cluster: Cluster, origin: Ms) -> None:
    lo, hi = int(setting.ts[0]), int(setting.ts[-1])
    for stretch in range(max((lo - origin) // QUIET_EVERY - 1, 0), (hi - origin) // QUIET_EVERY + 1):
        events = quiet_events(cluster, origin, stretch)
        setting.exporter_restarts.append(events["exporter_restart"])
        setting.remounts.append(events["remount"])
        setting.clears.append(events["clear"])
        setting.ooms.append(events["oom"])
        setting.timeouts.append(events["timeout"])
        instant, node = events["sentinel"]
        setting.sentinels.append((instant, node, instant // SECOND % cluster.gpus))
    setting.xids.extend(sticky_xids(cluster, origin))


def activity(setting: Setting) -> Floats:
    """J+1 × T: the share of full work each job does: a third and more while it starts, nearly none in a checkpoint.

    An evaluation computes forward only, in smaller batches.
    """
    by_phase = np.array([0.0, 0.0, 1.0, 0.03, 0.0, 0.6])
    full = by_phase[setting.phase]
    starting = setting.phase == Phase.STARTING
    return np.asarray(np.where(starting, np.clip(setting.progress - 0.3, 0.0, 0.65), full) * setting.dip)
