"""A row of the benchmark, and how its figures are taken: several repeats, the best of each side."""

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Literal, TypeVar

import numpy as np

T = TypeVar("T")

REPEATS = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One figure against its target. `sense` says on which side of the target it is met; None: no target."""

    what: str
    figure: float
    unit: str
    target: float | None = None
    sense: Literal["at most", "at least"] = "at most"
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.figure <= self.target if self.sense == "at most" else self.figure >= self.target

    @property
    def wanted(self) -> str:
        if self.target is None:
            return ""
        return f"{'≤' if self.sense == 'at most' else '≥'} {self.target:g} {self.unit}".rstrip()

    @property
    def verdict(self) -> str:
        return {None: "", True: "ok", False: "NOT MET"}[self.met]


@dataclass(slots=True)
class Spent:
    """Seconds of the best of several goes, by the clock and of processor time (all threads). On a machine that others
    use too, the second is what the work costs and the first what they left of it."""

    seconds: float = float("inf")
    cpu: float = float("inf")
    all: list[float] = field(default_factory=list)

    def take(self, seconds: float, cpu: float) -> None:
        self.all.append(seconds)
        self.seconds, self.cpu = min(self.seconds, seconds), min(self.cpu, cpu)


@contextmanager
def timed(spent: Spent) -> Iterator[None]:
    """Adds one go to `spent`."""
    begun, cpu = time.perf_counter(), time.process_time()
    yield
    spent.take(time.perf_counter() - begun, time.process_time() - cpu)


def best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of the fastest of `repeats` runs."""
    spent = Spent()
    for _ in range(repeats):
        with timed(spent):
            work()
    return spent.seconds


def alone(work: Callable[..., T], *args: object) -> T:
    """What `work` returns in a new process of its own, whose peak memory is nobody else's. It ends when we do."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
        return pool.submit(work, *args).result()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: also when we are killed


def peak_gib() -> float:
    """The most memory this process has held at once (each row runs in a process of its own)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def load() -> float:
    """The machine's one-minute load: beyond its number of cores, others are at work and figures are too slow."""
    return os.getloadavg()[0]


def exponent(sizes: Iterable[float], figures: Iterable[float]) -> float:
    """Slope of log(figure) over log(size), by least squares."""
    return float(np.polyfit(np.log(list(sizes)), np.log(list(figures)), 1)[0])
