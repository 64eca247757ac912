"""The stage of a drill: a small cluster, one fault or one kind of noise in it, everything drawn from name and seed."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from anomaly.clock import MINUTE, SECOND, Ms, parse_time
from anomaly.source.simulated import FAULT_TYPES, NOISE_TYPES, Cluster, Fault, Noise, Scenario, make_cluster
from anomaly.source.simulated.faults import KINDS, Kind
from anomaly.source.simulated.layout import SKUS, Job
from anomaly.source.simulated.place import EFFECTS, device_of, struck

DRILLS: tuple[str, ...] = (*FAULT_TYPES, *NOISE_TYPES)
"""Every drill by name: faults, which must be found, then noise, which must not alert."""

START: Ms = parse_time("2026-06-01T08:00:00Z")
NODES, GPUS, JOBS = 16, 4, 2
AFTER: Ms = 12 * MINUTE
"""What is seen of the time after a fault."""
NOISE_LASTS: Ms = 75 * MINUTE

CHURN: Ms = 20 * MINUTE
"""When the first job ends, where a drill needs that; another takes its nodes ten minutes later."""
_SUCCESSOR: Ms = CHURN + 10 * MINUTE
_AT_A_JOBS_START = ("wrong_power_cap", "clock_lock")
_BETWEEN_JOBS = ("driver_mismatch",)
_AFTER_A_JOB = ("memory_held",)


@dataclass(frozen=True)
class Stage:
    """A drill ready to run. Exactly one of `fault` and `noise` is there."""

    name: str
    seed: int
    scenario: Scenario
    fault: Fault | None = None
    noise: Noise | None = None


def stage(name: str, seed: int, effect: float | None = None) -> Stage:
    """The drill `name`: place, onset, ramp, effect and duration are drawn from the seed.

    `effect` is a share of the job's step time; it is drawn from 5, 10, 20 and 40 % where it is None, and ignored by
    faults that slow nothing. Raises KeyError for an unknown name.
    """
    if name not in DRILLS:
        raise KeyError(name)
    rng = np.random.default_rng([seed, 50, zlib.crc32(name.encode())])
    cluster_seed = int(rng.integers(2**31))
    if name in KINDS:
        return _fault(name, seed, effect, rng, cluster_seed)
    return _noise(name, seed, rng, cluster_seed)


def _fault(name: str, seed: int, effect: float | None, rng: np.random.Generator, cluster_seed: int) -> Stage:
    kind = KINDS[name]
    cluster = _cluster(cluster_seed, churns=name in (*_AT_A_JOBS_START, *_BETWEEN_JOBS, *_AFTER_A_JOB))
    if name in _AFTER_A_JOB:
        cluster = replace(cluster, jobs=cluster.jobs[:JOBS])
    onset = START + int(rng.integers(26 * MINUTE // SECOND, 34 * MINUTE // SECOND)) * SECOND
    lasts = int(rng.integers(kind.lasts[0] // SECOND, kind.lasts[1] // SECOND + 1)) * SECOND
    drawn = float(rng.choice(EFFECTS))
    nodes, group = _placed(cluster, name, kind, rng)
    if name in _AT_A_JOBS_START:
        onset, lasts = START + _SUCCESSOR, 25 * MINUTE
    elif name in _BETWEEN_JOBS:
        onset, lasts = START + _SUCCESSOR - 5 * MINUTE, 30 * MINUTE
    elif name in _AFTER_A_JOB:
        onset, lasts = START + CHURN, 30 * MINUTE
    wanted = drawn if effect is None else effect
    fault = Fault(
        name, nodes, onset, onset + lasts, wanted if kind.slows else 0.25, device_of(cluster, kind, rng), group
    )
    return Stage(name, seed, Scenario(cluster, (fault,), START, fault.end + AFTER, seed=seed), fault=fault)


def _placed(cluster: Cluster, name: str, kind: Kind, rng: np.random.Generator) -> tuple[tuple[str, ...], str | None]:
    if name in (*_AT_A_JOBS_START, *_BETWEEN_JOBS, *_AFTER_A_JOB):
        return (str(rng.choice(cluster.jobs[0].nodes)),), None
    while True:
        nodes, group = struck(cluster, kind, rng)
        busy = {node for job in cluster.jobs for node in job.nodes} & set(nodes)
        if kind.scope != "group" or (len(busy) >= 3 and not _another(cluster, kind.group_kind, nodes)):
            return nodes, group


def _another(cluster: Cluster, kind: str | None, nodes: tuple[str, ...]) -> bool:
    """Whether these nodes are also just those of a group of another kind: nobody could tell which is at fault."""
    first = cluster.nodes[cluster.index[nodes[0]]]
    return any(cluster.members(other, getattr(first, other)) == nodes for other in {"rack", "leaf", "pdu"} - {kind})


def _cluster(seed: int, *, churns: bool = False) -> Cluster:
    return make_cluster(seed, NODES, GPUS, JOBS, rails=GPUS, idle=1, churn_after=CHURN if churns else None)


Scene = tuple[Cluster, tuple[str, ...], Ms, Ms]
"""The cluster, whom the noise touches, from when until when (minutes)."""


def _noise(name: str, seed: int, rng: np.random.Generator, cluster_seed: int) -> Stage:
    cluster = _cluster(cluster_seed, churns=name in ("job_start_and_end", "driver_rollout"))
    made, nodes, first, last = _SCENES.get(name, _everywhere)(cluster, rng)
    noise = Noise(name, nodes, START + first * MINUTE, START + last * MINUTE, seed)
    return Stage(name, seed, Scenario(made, (), START, START + NOISE_LASTS, seed=seed, noise=(noise,)), noise=noise)


def _everywhere(cluster: Cluster, rng: np.random.Generator) -> Scene:
    return cluster, tuple(node.name for node in cluster.nodes), 22, 70


def _first_job(cluster: Cluster, rng: np.random.Generator) -> Scene:
    """Its end and its successor's start."""
    return cluster, cluster.jobs[0].nodes, CHURN // MINUTE, _SUCCESSOR // MINUTE + 6


def _checkpoint(cluster: Cluster, rng: np.random.Generator) -> Scene:
    jobs = tuple(replace(job, checkpoint_every=8 * MINUTE) for job in cluster.jobs)
    return _everywhere(replace(cluster, jobs=jobs), rng)


def _evaluation(cluster: Cluster, rng: np.random.Generator) -> Scene:
    jobs = tuple(replace(job, evaluate_every=15 * MINUTE, evaluate_phase=4 * MINUTE) for job in cluster.jobs)
    return _everywhere(replace(cluster, jobs=jobs), rng)


def _maintenance(cluster: Cluster, rng: np.random.Generator) -> Scene:
    first = replace(cluster.jobs[0], ends_after=25 * MINUTE)
    return replace(cluster, jobs=(first, *cluster.jobs[1:])), first.nodes, 30, 42


def _mixed_skus(cluster: Cluster, rng: np.random.Generator) -> Scene:
    nodes = tuple(replace(node, sku=SKUS[n % len(SKUS)]) for n, node in enumerate(cluster.nodes))
    return _everywhere(replace(cluster, nodes=nodes), rng)


def _slow_gpu(cluster: Cluster, rng: np.random.Generator) -> Scene:
    return cluster, (str(rng.choice(cluster.jobs[0].nodes)),), 0, 75


def _two_node_job(cluster: Cluster, rng: np.random.Generator) -> Scene:
    job = cluster.jobs[0]
    pair = Job(f"{job.name}-pair", job.nodes[:2], job.starts_after, None, 1.3 * job.step_seconds,
               job.checkpoint_every, job.checkpoint_phase + 7 * MINUTE)  # fmt: skip
    rest = replace(job, nodes=job.nodes[2:])
    return replace(cluster, jobs=(rest, *cluster.jobs[1:], pair)), pair.nodes, 0, 75


def _pipeline_stage(cluster: Cluster, rng: np.random.Generator) -> Scene:
    return cluster, cluster.jobs[0].nodes[::3], 0, 75


def _prometheus_away(cluster: Cluster, rng: np.random.Generator) -> Scene:
    first = int(rng.integers(30, 45))
    return cluster, tuple(node.name for node in cluster.nodes), first, first + 2


_SCENES: Mapping[str, Callable[[Cluster, np.random.Generator], Scene]] = {
    "job_start_and_end": _first_job,
    "driver_rollout": _first_job,
    "checkpoint": _checkpoint,
    "evaluation": _evaluation,
    "maintenance": _maintenance,
    "mixed_skus": _mixed_skus,
    "slow_gpu": _slow_gpu,
    "two_node_job": _two_node_job,
    "pipeline_stage": _pipeline_stage,
    "prometheus_away": _prometheus_away,
}
