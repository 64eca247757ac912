"""When each job starts, trains, checkpoints, hangs and is down: functions of time and seed, without state."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import MINUTE, SECOND, Ms
from anomaly.records import Floats, Ints
from anomaly.source.simulated.layout import Cluster, Job


class Phase(IntEnum):
    """What the processes of a job do."""

    DOWN = 0
    STARTING = 1
    RUNNING = 2
    CHECKPOINT = 3
    HUNG = 4
    EVALUATION = 5


START_TAKES: Ms = 150 * SECOND
"""From the first process to full speed."""

RESTARTS_AFTER: Ms = 90 * SECOND
"""From a fault's end to the restart of the job it stopped."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Something that stops every job on `nodes`: they hang at `onset`, are aborted at `aborted`, may go on at `end`."""

    nodes: tuple[str, ...]
    onset: Ms
    aborted: Ms
    end: Ms


@dataclass(frozen=True, slots=True)
class Life:
    """One run of a job's processes, from `start` to `end` (exclusive); they hang from `hung`, if at all."""

    start: Ms
    end: Ms
    hung: Ms | None


_FOREVER: Ms = 2**62


def lives(job: Job, stops: Sequence[Stop], origin: Ms) -> list[Life]:
    """The runs of a job, in order, as its schedule and what stops it have it."""
    start = origin + job.starts_after
    last = _FOREVER if job.ends_after is None else origin + job.ends_after
    found: list[Life] = []
    for stop in sorted(stops, key=lambda stop: stop.onset):
        if not set(stop.nodes) & set(job.nodes) or stop.onset >= last or stop.end + RESTARTS_AFTER <= start:
            continue
        if start < stop.onset:
            found.append(Life(start, min(stop.aborted, last), stop.onset))
        start = stop.end + RESTARTS_AFTER
    if start < last:
        found.append(Life(start, last, None))
    return found


def checkpoints(cluster: Cluster, j: int, origin: Ms, start: Ms, end: Ms) -> Iterator[tuple[Ms, Ms]]:
    """The checkpoints of job `j` due in [start, end), as (start, end), whether or not it runs then."""
    job = cluster.jobs[j]
    first = (start - origin - job.checkpoint_phase) // job.checkpoint_every - 1
    last = (end - origin - job.checkpoint_phase) // job.checkpoint_every + 1
    for k in range(first, last + 1):
        rng = np.random.default_rng([cluster.seed, 2, j, k + 2**32])
        begin = origin + job.checkpoint_phase + k * job.checkpoint_every + int(rng.integers(-45, 46)) * SECOND
        finish = begin + int(rng.integers(30, 61)) * SECOND
        if begin < end and finish > start:
            yield begin, finish


def evaluations(cluster: Cluster, j: int, origin: Ms, start: Ms, end: Ms) -> Iterator[tuple[Ms, Ms]]:
    """The evaluations of job `j` due in [start, end), as (start, end), whether or not it runs then."""
    job = cluster.jobs[j]
    if not job.evaluate_every:
        return
    first = (start - origin - job.evaluate_phase) // job.evaluate_every - 1
    last = (end - origin - job.evaluate_phase) // job.evaluate_every + 1
    for k in range(first, last + 1):
        rng = np.random.default_rng([cluster.seed, 13, j, k + 2**32])
        begin = origin + job.evaluate_phase + k * job.evaluate_every
        finish = begin + int(rng.integers(100, 181)) * SECOND
        if begin < end and finish > start:
            yield begin, finish


def phases(cluster: Cluster, stops: Sequence[Stop], origin: Ms, ts: Ints) -> tuple[NDArray[np.int8], Floats]:
    """Phase and progress of the start (0 … 1) of each job at `ts`; the last row stands for "no job" and is DOWN."""
    phase = np.zeros((len(cluster.jobs) + 1, len(ts)), np.int8)
    progress = np.zeros(phase.shape)
    lo, hi = int(ts[0]), int(ts[-1])
    for j, job in enumerate(cluster.jobs):
        for life in lives(job, stops, origin):
            if life.end <= lo or life.start > hi:
                continue
            alive = (ts >= life.start) & (ts < life.end)
            age = np.clip((ts - life.start) / START_TAKES, 0.0, 1.0)
            progress[j, alive] = age[alive]
            phase[j, alive] = np.where(age[alive] < 1.0, Phase.STARTING, Phase.RUNNING)
            for begin, finish in evaluations(cluster, j, origin, lo, hi + MINUTE):
                testing = alive & (ts >= begin) & (ts < finish) & (phase[j] == Phase.RUNNING)
                phase[j, testing] = Phase.EVALUATION
            for begin, finish in checkpoints(cluster, j, origin, lo, hi + MINUTE):
                saving = alive & (ts >= begin) & (ts < finish) & (phase[j] == Phase.RUNNING)
                phase[j, saving] = Phase.CHECKPOINT
            if life.hung is not None:
                phase[j, alive & (ts >= life.hung)] = Phase.HUNG
    return phase, progress


def holders(cluster: Cluster, phase: NDArray[np.int8]) -> Ints:
    """Which job holds each node at each step, as a position in `cluster.jobs`; `len(jobs)` for none."""
    none = len(cluster.jobs)
    held = np.full((len(cluster.nodes), phase.shape[1]), none, np.int64)
    for j, job in enumerate(cluster.jobs):
        rows = [cluster.index[name] for name in job.nodes]
        held[rows] = np.where(phase[j] != Phase.DOWN, j, held[rows])
    return held
