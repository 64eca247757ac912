"""Clocks, power and temperature of synchronous jobs: the closed loop that makes one slow GPU everyone's problem.

Per step of the grid: a GPU above its limit lowers its clock; the job waits for its slowest GPU; who waits does less
per second and draws less; what is drawn heats, with the inertia of a heat sink. Arrays are node × GPU × step.
"""

from dataclasses import dataclass, field

import numpy as np

from anomaly.records import Floats, Ints
from anomaly.source.simulated.jobs import Phase
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.setting import COOLING_K_PER_W, POWER_EXPONENT, THROTTLE_AT, Setting, activity

TAU_SECONDS = 150.0
"""Thermal inertia of GPU and heat sink."""
_DOWN = int(Phase.DOWN)
_NO_STEP = (Phase.CHECKPOINT, Phase.HUNG, Phase.EVALUATION)
"""Phases in which no training step is finished."""
_CLOCK_STEP = 15.0
"""MHz: clocks move in steps of this size."""
_IDLE_MHZ = 345.0
_SPIN = np.array([0.0, 0.10, 0.30, 0.12, 0.28, 0.16])
"""Share of dynamic power drawn without useful work, by phase: ranks that wait spin in the collective's kernel."""
_UNSPUN = 0.3
"""Of that, what is left where the host keeps the GPU waiting between kernels."""
_DEEPEN, _RECOVER = 0.04, 0.02
"""Throttle depth gained per °C above the limit, and lost well below it, in 15 s."""


@dataclass
class Thermal:
    """What the loop carries from stretch to stretch."""

    core: Floats
    depth: Floats
    wander: Floats
    """J+1: slow, shared ups and downs of each job's load."""
    step_seconds: Floats
    """J+1: the newest finished step."""


@dataclass(frozen=True)
class Course:
    """What the loop gives: one array per quantity."""

    core: Floats
    power: Floats
    clock: Floats
    depth: Floats
    busy: Floats
    """Share of the full rate of useful work in wall time; above 1 where a slower clock is busy for longer."""
    work: Floats
    """J+1 × T: the job's rate of work relative to full speed."""
    step_seconds: Floats
    """J+1 × T"""
    work_at: Floats = field(repr=False)
    """N × T: `work` of the job that holds the node."""


def at_rest(cluster: Cluster, setting: Setting, rng: np.random.Generator) -> Thermal:
    """A cluster that has been doing for hours what `setting` begins with."""
    held = setting.held[:, 0]
    full = np.append(np.array([job.step_seconds for job in cluster.jobs]), 1.0)
    running = (setting.phase[:, 0] != Phase.DOWN)[held]
    idle, peak = _watts(cluster)
    power = np.where(running[:, None], peak * 0.97, idle)
    core = setting.ambient[:, :, 0] + COOLING_K_PER_W * power + rng.normal(0.0, 0.3, power.shape[:1])[:, None]
    return Thermal(core, np.zeros_like(core), np.zeros(len(full)), full)


def run(cluster: Cluster, setting: Setting, state: Thermal, rng: np.random.Generator, dt: float) -> Course:
    """The course of one stretch of steps, `dt` seconds apart; `state` moves on to its end."""
    nodes, steps = setting.held.shape
    shape = (nodes, cluster.gpus, steps)
    none = len(cluster.jobs)
    core, power, clock, depth, busy = (np.empty(shape) for _ in range(5))
    work, step_seconds = np.empty((none + 1, steps)), np.empty((none + 1, steps))
    noise_power = 1.0 + 0.012 * rng.standard_normal(shape)
    noise_busy = 1.0 + 0.008 * rng.standard_normal(shape)
    jitter = 4.0 * rng.standard_normal(shape)
    noise_job = rng.standard_normal((none + 1, steps))
    noise_step = 1.0 + 0.004 * rng.standard_normal((none + 1, steps))

    idle, peak = _watts(cluster)
    boost = _boost(cluster)
    nominal = np.append(np.array([job.step_seconds for job in cluster.jobs]), 1.0)
    full = activity(setting)
    blend = 1.0 - np.exp(-dt / TAU_SECONDS)
    scale = dt / 15.0
    keep = 0.97**scale
    quick = _speed_cap(setting, idle[:, :, None], peak[:, :, None])
    lagging = np.where(setting.lag > 0.0, _UNSPUN, 1.0)
    fresh_phase = ~np.isin(setting.phase, _NO_STEP)
    at_rest_too = setting.idle | setting.freed
    for i in range(steps):
        held, phase = setting.held[:, i], setting.phase[:, i]
        above = state.core - THROTTLE_AT
        change = np.where(above > 0.0, _DEEPEN * above, np.where(above < -3.0, -_RECOVER, 0.0)) * scale
        state.depth = np.clip(state.depth + change, 0.0, setting.depth_cap[:, :, i])
        drive = np.minimum(1.0 - state.depth, quick[:, :, i])
        speed = drive * setting.silicon[:, :, i]
        stretch = np.ones(none + 1)
        np.maximum.at(stretch, held, (1.0 / speed).max(axis=1) + setting.lag[:, i])
        stretch[none] = 1.0
        stretch = stretch + setting.drag[:, i]
        state.wander = keep * state.wander + np.sqrt(1.0 - keep**2) * noise_job[:, i]
        work[:, i] = full[:, i] / stretch * (1.0 + 0.006 * state.wander)
        fresh = fresh_phase[:, i]
        late = 1.0 + 2.0 * (1.0 - setting.progress[:, i])
        newest = nominal * stretch * late * noise_step[:, i] * (1.0 - 0.006 * state.wander)
        state.step_seconds = np.where(fresh, newest, state.step_seconds)
        step_seconds[:, i] = state.step_seconds

        rate = work[held, i][:, None]
        # The same cycles of work take longer at a lower clock: the slow one is busy while the others wait.
        resting = at_rest_too[:, :, i]
        busy[:, :, i] = np.where(resting, 0.0, rate * setting.workload[:, i][:, None] / speed * noise_busy[:, :, i])
        spin = np.where(resting, 0.0, (_SPIN[phase[held]] * lagging[:, i])[:, None])
        share = (spin + (1.0 - spin) * busy[:, :, i]) * drive**POWER_EXPONENT
        here = setting.up[:, i][:, None]
        drawn = (idle + (peak - idle) * share) * noise_power[:, :, i]
        ceiling = setting.watts_cap[:, :, i] * (1.0 + 0.1 * (noise_power[:, :, i] - 1.0))
        power[:, :, i] = np.where(here, np.minimum(drawn, ceiling), 0.0)
        target = setting.ambient[:, :, i] + COOLING_K_PER_W * setting.cooling[:, :, i] * power[:, :, i]
        state.core = state.core + (target - state.core) * blend
        core[:, :, i], depth[:, :, i] = state.core, state.depth
        alive = (phase[held] != _DOWN)[:, None] & ~setting.freed[:, :, i]
        ticks = np.round((boost * speed + jitter[:, :, i]) / _CLOCK_STEP) * _CLOCK_STEP
        clock[:, :, i] = np.where(alive, ticks, _IDLE_MHZ)
    work_at = np.take_along_axis(work, setting.held, axis=0)
    return Course(core, power, clock, depth, busy, work, step_seconds, work_at)


def utilisation(course: Course, setting: Setting, rng: np.random.Generator) -> Floats:
    """Percent of time a kernel ran: near 100 whenever ranks spin, so it hardly shows who waits and who works."""
    held: Ints = setting.held
    phase = np.take_along_axis(setting.phase, held, axis=0)
    floor = np.array([0.0, 25.0, 97.0, 12.0, 100.0, 40.0])[phase]
    full = np.array([0.0, 85.0, 99.0, 100.0, 100.0, 100.0])[phase]
    waits = np.take_along_axis(setting.dip, held, axis=0)
    mean = np.clip(floor + (full - floor) * course.work_at, 0.0, 100.0) * (0.25 + 0.75 * waits) / (1.0 + setting.lag)
    spread = np.array([0.0, 8.0, 1.0, 8.0, 0.0, 5.0])[phase]
    noise = np.abs(rng.standard_normal(course.core.shape))
    seen = np.clip(np.round(mean[:, None] - spread[:, None] * noise + 0.8 * (spread[:, None] > 0)), 0, 100)
    return np.asarray(np.where(setting.idle | setting.freed, 0.0, seen))


def _speed_cap(setting: Setting, idle: Floats, peak: Floats) -> Floats:
    """The largest share of its clock that brakes, locks and the power limit leave each GPU at full work."""
    if np.isinf(setting.watts_cap).all():
        return setting.clock_cap
    left = np.clip((setting.watts_cap - idle) / (peak - idle), 0.05, 1.0) ** (1.0 / POWER_EXPONENT)
    return np.minimum(setting.clock_cap, left)


def _watts(cluster: Cluster) -> tuple[Floats, Floats]:
    """Idle and peak watts per node and GPU; boards of one SKU draw 2 % more or less at the same work."""
    rng = np.random.default_rng([cluster.seed, 6])
    own = np.clip(rng.normal(1.0, 0.01, (len(cluster.nodes), cluster.gpus)), 0.98, 1.02)
    idle = np.array([node.sku.idle_watts for node in cluster.nodes])[:, None] * own
    peak = np.array([node.sku.peak_watts for node in cluster.nodes])[:, None] * own
    return idle, peak


def _boost(cluster: Cluster) -> Floats:
    """Clock under load per node and GPU: the SKU's, within half a percent."""
    rng = np.random.default_rng([cluster.seed, 7])
    own = np.clip(rng.normal(1.0, 0.002, (len(cluster.nodes), cluster.gpus)), 0.995, 1.005)
    return np.asarray(np.array([node.sku.clock_mhz for node in cluster.nodes])[:, None] * own)
