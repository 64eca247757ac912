"""What the exporters read: one stretch of simulated time as arrays, one per quantity, NaN where there is no sample."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from anomaly.clock import SECOND, Ms
from anomaly.records import Bools, Floats, Ints
from anomaly.source.simulated import host, physics
from anomaly.source.simulated.counters import Counters, few, seeded, step_of
from anomaly.source.simulated.jobs import Phase
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.setting import Setting

DCGM_REFRESH: Ms = 30 * SECOND
"""DCGM reads the boards this often, however often it is scraped; each host at its own moment."""

LOST_FIRST = ("fb_used", "pcie_replay", "remapped_rows", "row_remap_failure", "ecc_sbe", "ecc_dbe")
"""What vanishes at once when the driver has lost a GPU that the exporter still lists; all else but the XID freezes."""

_NVLINK = ("nvlink_crc_flit", "nvlink_crc_data", "nvlink_replay", "nvlink_recovery")
_STRAY = {"ecc_sbe": 1.2e-6, "pcie_replay": 1e-6, **dict.fromkeys(_NVLINK, 2e-7)}
"""Single harmless events per second and GPU."""
SENTINEL = 9223372036854775794.0
"""What DCGM says for an integer that it does not have."""


@dataclass
class State:
    """Everything that is carried from one stretch to the next."""

    thermal: physics.Thermal
    counters: Counters
    xid: Floats
    host: host.Gauges
    step: Floats
    saved: Floats
    """J+1: steps done, and at the newest checkpoint."""
    alive: Bools
    read: dict[str, Floats]
    """The newest readings of the boards, for the steps until the next refresh: N × G × few."""
    shown: dict[str, Floats]
    """What was last exported: N × G."""

    def copy(self) -> "State":
        """A twin that can move on by itself (arrays are replaced, never written to)."""
        own = {"thermal": replace(self.thermal), "host": replace(self.host), "counters": self.counters.copy()}
        return State(**{**vars(self), **own, "read": dict(self.read), "shown": dict(self.shown)})


@dataclass(frozen=True)
class Record:
    """One stretch. `held` says which job holds a node (`len(jobs)`: none), `dress` what its GPU labels wear."""

    ts: Ints
    held: Ints
    dress: Ints
    gpu: dict[str, Floats]
    """N × G × T"""
    nic: dict[str, Floats]
    """N × R × T"""
    node: dict[str, Floats]
    """N × T"""
    cpu: Floats
    """N × cores × modes × T"""
    requests: Floats
    """N × methods × buckets × T, cumulative over buckets as Prometheus has them."""
    step_seconds: Floats
    """N × G × T"""
    up: dict[str, Floats]
    """N × T, by scrape job."""


def start(cluster: Cluster, setting: Setting, rng: np.random.Generator, origin: Ms) -> State:
    """The state of a cluster that has been up for weeks."""
    n, g, jobs = len(cluster.nodes), cluster.gpus, cluster.jobs
    counters = Counters()
    boot = np.floor(origin / SECOND - rng.uniform(5, 60, n) * 86_400)
    gpu = (n, g)
    counters.now |= {
        "ecc_sbe": few(rng, gpu, 0.1),
        "ecc_dbe": np.zeros(gpu),
        "remapped_rows": few(rng, gpu, 0.03, 2),
        "row_remap_failure": np.zeros(gpu),
        "pcie_replay": few(rng, gpu, 0.2, 9),
        "thermal_violation": np.where(rng.random(gpu) < 0.1, seeded(rng, gpu, 1e7, 1e10), 0.0),
        "power_violation": seeded(rng, gpu, 1e10, 1e13),
        **{name: few(rng, gpu, 0.05) for name in _NVLINK},
    }
    host.start(cluster, counters, rng, origin / SECOND - boot)
    xid = np.zeros(gpu)
    for _, node, index, code in sorted(event for event in setting.xids if event[0] < setting.ts[0]):
        xid[node, index] = code
    done = np.array([max(-job.starts_after, 0) / SECOND / job.step_seconds for job in jobs] + [0.0])
    alive = setting.phase[:, 0] != Phase.DOWN
    return State(
        thermal=physics.at_rest(cluster, setting, rng),
        counters=counters,
        xid=xid,
        host=host.Gauges(boot, np.full(n, 0.4)),
        step=np.floor(done),
        saved=np.floor(done * 0.999),
        alive=alive,
        read={},
        shown={},
    )


def advance(cluster: Cluster, setting: Setting, state: State, rng: np.random.Generator, first_step: int) -> Record:
    """The next stretch; `state` moves on. `first_step` is the position of its first step since the origin."""
    dt = float(setting.ts[1] - setting.ts[0]) / SECOND
    course = physics.run(cluster, setting, state.thermal, rng, dt)
    back = [(node, at) for instant, node, _ in setting.boots if (at := step_of(setting.ts, instant)) is not None]
    stretch = host.Stretch(cluster, setting, course, state.counters, rng, dt, back)
    there, reloads = setting.up, back + stretch.events(setting.reloads)
    answers = there & setting.dcgm_up & ~host.marked(there, stretch.events(setting.exporter_restarts))
    scraped = there & ~host.marked(there, stretch.events(setting.timeouts))
    boards = _boards(cluster, setting, course, rng) | _board_counters(stretch, reloads)
    boards["xid"] = _xids(setting, state, reloads)
    at_work = there & _reporting(setting)
    ranks = _rank_offsets(cluster) * np.take_along_axis(course.step_seconds, setting.held, axis=0)[:, None]
    done = np.take_along_axis(_steps_done(setting, course, state, dt), setting.held, axis=0)
    progress = {"train_global_step": np.where(at_work, done, np.nan)}
    gpu = _exported(cluster, setting, state, boards, answers, first_step)
    for instant, node, index in setting.sentinels:
        if (at := step_of(setting.ts, instant)) is not None and not np.isnan(gpu["memory_temp"][node, index, at]):
            gpu["memory_temp"][node, index, at] = SENTINEL
    record = Record(
        ts=setting.ts,
        held=setting.held,
        dress=setting.dress,
        gpu=gpu,
        nic={name: np.where(scraped[:, None], array, np.nan) for name, array in host.ports(stretch).items()},
        node={name: np.where(scraped, array, np.nan) for name, array in host.series(stretch, state.host).items()}
        | progress,
        cpu=np.where(scraped[:, None, None], host.cpus(stretch), np.nan),
        requests=host.requests(stretch),
        step_seconds=np.where(at_work[:, None], np.round(ranks, 4), np.nan),
        up={
            "dcgm-exporter": answers.astype(np.float64),
            "node-exporter": scraped.astype(np.float64),
            "juicefs": (there & ~host.marked(there, stretch.events(setting.remounts))).astype(np.float64),
            "training": there.astype(np.float64),
        },
    )
    return _without(record, setting.away) if setting.away.any() else record


def _without(record: Record, away: Bools) -> Record:
    """The record with nothing at the steps `away`: Prometheus scraped nobody then."""

    def cut(values: Floats) -> Floats:
        return np.asarray(np.where(away, np.nan, values))

    return replace(
        record,
        gpu={name: cut(values) for name, values in record.gpu.items()},
        nic={name: cut(values) for name, values in record.nic.items()},
        node={name: cut(values) for name, values in record.node.items()},
        cpu=cut(record.cpu),
        requests=cut(record.requests),
        step_seconds=cut(record.step_seconds),
        up={name: cut(values) for name, values in record.up.items()},
    )


def _boards(cluster: Cluster, setting: Setting, course: physics.Course, rng: np.random.Generator) -> dict[str, Floats]:
    shape = course.core.shape
    phase = np.take_along_axis(setting.phase, setting.held, axis=0)[:, None]
    progress = np.take_along_axis(setting.progress, setting.held, axis=0)[:, None]
    memory = np.array([node.sku.memory_mib for node in cluster.nodes])[:, None, None]
    own = np.random.default_rng([cluster.seed, 8]).normal(0.0, 0.004, (*shape[:2], 1))
    filled = np.where(phase == Phase.DOWN, 0.007, 0.02 + (0.86 + own) * np.clip(progress * 2, 0, 1))
    filled = np.clip(np.where(setting.freed, 0.007, filled) + setting.memory_extra, 0.0, 0.995)
    tensor = 0.44 * course.busy * (1.0 + 0.01 * rng.standard_normal(shape))
    return {
        "gpu_temp": np.round(course.core + rng.normal(0.0, 0.25, shape)),
        "memory_temp": np.round(course.core + 7.0 + 4.0 * course.busy + rng.normal(0.0, 0.3, shape)),
        "power": np.round(course.power, 3),
        "sm_clock": course.clock,
        "gpu_util": physics.utilisation(course, setting, rng),
        "tensor": np.asarray(np.round(np.clip(tensor, 0.0, 1.0), 6)),
        "fb_used": np.asarray(np.round(memory * filled), np.float64),
    }


def _board_counters(stretch: host.Stretch, reloads: host.Resets) -> dict[str, Floats]:
    cluster, course, rng, dt = stretch.cluster, stretch.course, stretch.rng, stretch.dt
    shape = course.core.shape
    capped = np.random.default_rng([cluster.seed, 9]).uniform(0.0, 0.02, (*shape[:2], 1)) * np.clip(course.busy, 0, 1)
    throttled = np.clip(course.depth / 0.02, 0.0, 1.0)
    grown = {name: rng.poisson(rate * dt, shape).astype(np.float64) for name, rate in _STRAY.items()}
    grown |= dict.fromkeys(("ecc_dbe", "remapped_rows", "row_remap_failure"), np.zeros(shape))
    grown |= _struck(stretch, grown)
    # A few milliseconds of violation do not make a throttled share.
    grown["thermal_violation"] = np.floor(throttled * dt * 1e9)
    held = capped * (1.0 + 0.2 * rng.standard_normal(shape)).clip(0.0) + stretch.setting.power_held
    grown["power_violation"] = np.floor(np.minimum(held, 1.0) * dt * 1e9)
    kept = ("remapped_rows", "row_remap_failure")
    return {
        name: stretch.counters.grow(name, increments, () if name in kept else reloads)
        for name, increments in grown.items()
    }


def _struck(stretch: host.Stretch, grown: dict[str, Floats]) -> dict[str, Floats]:
    """The counters with what faults add to them; drawn apart, so that a fault changes nothing elsewhere."""
    setting, dt = stretch.setting, stretch.dt
    rng = np.random.default_rng([stretch.cluster.seed, 22, int(setting.ts[0] // SECOND) % 2**32])
    rates = {
        "ecc_sbe": setting.ecc_rate * stretch.course.busy,
        "pcie_replay": setting.pcie_rate,
        "nvlink_crc_flit": setting.nvlink_rate,
        "nvlink_replay": 0.2 * setting.nvlink_rate,
        "nvlink_recovery": 0.01 * setting.nvlink_rate,
    }
    more = {name: grown[name] + rng.poisson(rate * dt) for name, rate in rates.items() if rate.any()}
    for instant, node, gpu, name, count in setting.gpu_events:
        if (at := step_of(setting.ts, instant)) is not None:
            more.setdefault(name, grown[name].copy())
            more[name][node, gpu, at] += count
    return more


def _xids(setting: Setting, state: State, reloads: host.Resets) -> Floats:
    """The last code of each GPU: it stays until the driver is loaded anew."""
    codes = np.repeat(state.xid[:, :, None], len(setting.ts), axis=2)
    events = [(at, 1, n, g, code) for t, n, g, code in setting.xids if (at := step_of(setting.ts, t)) is not None]
    events += [(at, 0, n, -1, 0) for n, at in reloads]
    for at, _, n, g, code in sorted(events):
        codes[n, slice(None) if g < 0 else g, at:] = code
    state.xid = codes[:, :, -1].copy()
    return codes


def _exported(
    cluster: Cluster, setting: Setting, state: State, boards: dict[str, Floats], answers: Bools, first_step: int
) -> dict[str, Floats]:
    """Readings as the exporter shows them: as old as its last refresh, frozen or gone where the driver lost the GPU."""
    steps = len(setting.ts)
    hold = max(int(DCGM_REFRESH // (setting.ts[1] - setting.ts[0])), 1)
    moment = np.random.default_rng([cluster.seed, 10]).integers(0, hold, len(cluster.nodes))
    steps_since = (np.arange(steps) + first_step - moment[:, None]) % hold
    source = (np.arange(steps) - steps_since + hold - 1)[:, None]
    still = setting.frozen | setting.stale
    thawed = np.maximum.accumulate(np.where(still, -1, np.arange(steps)), axis=2)
    gone = setting.missing | ~answers[:, None]
    shown: dict[str, Floats] = {}
    for name, fresh in boards.items():
        older = state.read.get(name, np.repeat(fresh[:, :, :1], hold - 1, axis=2))
        everything = np.concatenate([older, fresh], axis=2)
        state.read[name] = everything[:, :, steps:].copy()
        values = np.take_along_axis(everything, np.broadcast_to(source, fresh.shape), axis=2)
        if name != "xid" and still.any():
            last = state.shown.get(name, values[:, :, 0])
            kept = np.take_along_axis(values, np.maximum(thawed, 0), axis=2)
            values = np.where(thawed < 0, last[:, :, None], kept)
        state.shown[name] = values[:, :, -1].copy()
        shown[name] = np.where(gone | setting.frozen if name in LOST_FIRST else gone, np.nan, values)
    return shown


def _reporting(setting: Setting) -> Bools:
    """N × T: a job holds the node and has finished its first step."""
    progress = np.take_along_axis(setting.progress, setting.held, axis=0)
    return np.asarray(progress > 0.4)


def _steps_done(setting: Setting, course: physics.Course, state: State, dt: float) -> Floats:
    """J+1 × T: whole steps done; a restarted job goes on from its newest checkpoint."""
    done = np.empty_like(course.step_seconds)
    for i in range(done.shape[1]):
        phase = setting.phase[:, i]
        alive = phase != Phase.DOWN
        state.step = np.where(alive & ~state.alive, state.saved, state.step)
        working = (phase == Phase.RUNNING) | (phase == Phase.STARTING)
        state.step = state.step + np.where(working, dt / course.step_seconds[:, i], 0.0)
        state.saved = np.where(phase == Phase.CHECKPOINT, np.floor(state.step), state.saved)
        state.alive = alive
        done[:, i] = np.floor(state.step)
    return done


@lru_cache(maxsize=8)
def _offsets(seed: int, nodes: int, gpus: int) -> Floats:
    return np.asarray(1.0 + 0.0006 * np.random.default_rng([seed, 11]).standard_normal((nodes, gpus, 1)))


def _rank_offsets(cluster: Cluster) -> Floats:
    """Ranks of one step agree to a fraction of a percent."""
    return _offsets(cluster.seed, len(cluster.nodes), cluster.gpus)
