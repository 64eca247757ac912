"""Hangs: a job all of whose GPUs spin in a collective at a fraction of their usual power, doing no work.

In a collective hang utilisation stays at 100 % (the kernel waits), tensor activity falls to zero and power to about
half on every rank alike; the rank that hangs by itself idles while all others spin (MegaScale, C4; NCCL's watchdog).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anomaly.records import Bools, Floats

SHARE = 0.9
"""Share of a job's working GPUs that must spin: a few may have vanished, or be the cause."""

AT_WORK = 0.75
"""Share of all GPUs of the job that must be at work at all; otherwise it has ended, or has not begun."""

LEAST_GPUS = 4


@dataclass(frozen=True, slots=True)
class Hanging:
    """`job[j, t]` for each code of a job, and `rank[i, t]` for each device: 1, 0 or NaN for no verdict."""

    job: Floats
    rank: Floats


def hanging(spins: Bools, works: Bools, there: Bools, job: NDArray[np.integer[Any]], jobs: int) -> Hanging:
    """Which jobs hang, and which device of a hanging job idles alone.

    Devices × steps: `spins` at work at a fraction of its usual power and activity, `works` at high utilisation, `there`
    reports at all; `job` is the code of each device's job, negative for none.
    """
    present, working, spinning = (_per_job(flags & (job >= 0), job, jobs) for flags in (there, works, spins))
    at_work = (working >= LEAST_GPUS) & (working >= AT_WORK * present)
    hangs = at_work & (spinning >= SHARE * working)
    # A job that has ended hangs no more; where nobody reports at all, nothing is known.
    anybody: Bools = np.any(there, axis=0, keepdims=True)
    of_job = np.where(anybody, hangs.astype(float), np.nan)
    idle = there & ~works & (job >= 0)
    few = _per_job(idle, job, jobs) <= np.maximum(1.0, (1.0 - SHARE) * present)
    alone = np.take_along_axis(np.where(hangs & few, 1.0, 0.0), np.maximum(job, 0), axis=0) == 1.0
    return Hanging(of_job, np.where(there, (idle & alone).astype(float), np.nan))


def _per_job(flags: Bools, job: NDArray[np.integer[Any]], jobs: int) -> Floats:
    out = np.zeros((jobs, flags.shape[1]))
    for column in range(flags.shape[1]):
        use = flags[:, column]
        out[:, column] = np.bincount(job[use, column], minlength=jobs)
    return out
