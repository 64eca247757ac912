"""A one-minute tick of a large cluster, as the service runs it: collect (without HTTP and parsing), score, commit."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from anomaly.clock import MINUTE, Ms
from anomaly.detect.habit import BUCKETS, Habit
from anomaly.jobs.carry import Live
from anomaly.jobs.collect import collect
from anomaly.jobs.parts import Parts, open_pipeline_store
from anomaly.jobs.score import score
from anomaly.pipeline import Spec
from anomaly.records import Pulled, Query
from anomaly.store.store import Store
from tests.bench.cluster import T0, BenchCluster, parts_of
from tests.bench.measure import Row, Spent, peak_gib, timed

MINUTES = 30
"""What lies in the store before: the ring of every signal."""
TICKS = 16
"""Three of them close a habit bucket."""

_LEVELS = {
    "sm_clock": 1755.0,
    "gpu_power": 520.0,
    "tensor_active": 0.45,
    "iteration_seconds": 8.0,
    "storage_p99": 0.03,
    "pfc_pause_received": 60.0,
}
"""What is usual of the signals that are held against their own past."""


@dataclass
class _Apart:
    """The cluster as a source whose own time is counted apart."""

    cluster: BenchCluster
    seconds: float = 0.0
    cpu: float = 0.0

    def pull(self, query: Query) -> Pulled:
        begun, cpu = time.perf_counter(), time.process_time()
        found = self.cluster.pull(query)
        self.seconds += time.perf_counter() - begun
        self.cpu += time.process_time() - cpu
        return found


def rows(nodes: int = 1000, profile: Callable[[Callable[[], object]], object] | None = None) -> list[Row]:
    """`profile` runs the measured ticks under a profiler instead of timing them alone."""
    with tempfile.TemporaryDirectory(prefix="anomaly-bench-") as folder:
        cluster = BenchCluster(nodes, bad_from=T0 + (MINUTES + 3) * MINUTE)
        source = _Apart(cluster)
        parts = replace(parts_of(cluster, Path(folder)), source=source)
        with open_pipeline_store(parts.pipeline) as store:
            live = warm(parts, store)
            if profile is not None:
                profile(lambda: _ticks(parts, store, live, source))
                return []
            return _figures(cluster, _ticks(parts, store, live, source))


def warm(parts: Parts, store: Store) -> Live:
    """Half an hour collected and one tick scored; then two hours of habits, as a service of that age has them."""
    now = T0 + MINUTES * MINUTE
    collect(parts, store, now, start=T0, end=now)
    live = Live()
    score(parts, store, live, (), now, start=now - 2 * MINUTE)
    assert live.context is not None and live.spec is not None
    habits = habits_of_two_hours(live.spec, live, now)
    live.context = replace(live.context, habits=habits)
    return live


def habits_of_two_hours(spec: Spec, live: Live, now: Ms) -> dict[str, Habit]:
    """Buckets for every row that learns one, near the values that the rings hold."""
    assert live.context is not None
    rng = np.random.default_rng(0)
    ends = now - now % spec.bucket - spec.bucket * np.arange(BUCKETS + 2, dtype=np.int64)[::-1]
    habits = {}
    for name, signal in spec.catalogue.signals.items():
        keys = live.directory.signals[name].rows.keys
        if signal.peers is not None and signal.peers.offset:
            noise = 0.3 * signal.peers.floor * rng.standard_normal((len(keys), len(ends)))
            habits[f"{name}:peers"] = Habit(keys, ends, noise)
        if signal.shift is not None:
            noise = np.log(_LEVELS[name]) + 0.3 * signal.shift.floor * rng.standard_normal((len(keys), len(ends)))
            habits[f"{name}:shift"] = Habit(keys, ends, noise)
    return habits


@dataclass
class _Took:
    collect: Spent
    score: Spent
    closing: Spent
    samples: int
    findings: int
    incidents: int


def _ticks(parts: Parts, store: Store, live: Live, source: _Apart) -> _Took:
    took = _Took(Spent(), Spent(), Spent(), 0, 0, 0)
    bucket = live.spec.bucket if live.spec else 1
    for minute in range(1, TICKS + 1):
        now = T0 + (MINUTES + minute) * MINUTE
        source.seconds = source.cpu = 0.0
        begun, cpu = time.perf_counter(), time.process_time()
        found = collect(parts, store, now + 30_000)
        took.collect.take(time.perf_counter() - begun - source.seconds, time.process_time() - cpu - source.cpu)
        with timed(took.closing if (store.scored_through() or 0) % bucket == bucket - MINUTE else took.score):
            run = score(parts, store, live, (), now + 30_000)
        assert run.ticks == 1
        took.samples, took.findings = found.inserted, run.findings
        took.incidents += len(run.changes)
    return took


def _figures(cluster: BenchCluster, took: _Took) -> list[Row]:
    size = f"{cluster.nodes} nodes × 8 GPUs, {cluster.signals} signals, {cluster.series:,} series"
    kept = f"{took.samples:,} samples a minute"
    return [
        Row("tick: score", took.score.seconds, "s", 5, note=f"{size}; {_cpu(took.score)}"),
        Row("tick: score, closing a habit bucket", took.closing.seconds, "s", 5, note=_cpu(took.closing)),
        Row("tick: identify and commit", took.collect.seconds, "s", note=f"{kept}; {_cpu(took.collect)}"),
        Row("tick: all but the pull, with a bucket closing", took.collect.seconds + took.closing.seconds, "s", 5),
        Row("tick: peak memory", peak_gib(), "GiB", 4, note=f"{took.findings} findings open, {took.incidents} changes"),
    ]


def _cpu(spent: Spent) -> str:
    return f"{spent.cpu:.2f} s of CPU; {np.median(spent.all):.2f} s at the median of {len(spent.all)}"
