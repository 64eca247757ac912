"""Scoring in bulk: from DuckDB to findings, all detectors on, in stretches as after a downtime or in a backtest."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from anomaly.clock import MINUTE
from anomaly.jobs.carry import Live
from anomaly.jobs.collect import collect
from anomaly.jobs.parts import open_pipeline_store
from anomaly.jobs.score import score
from tests.bench.cluster import T0, BenchCluster, parts_of
from tests.bench.measure import REPEATS, Row, Spent, peak_gib, timed

CLUSTER_HOUR = 72e6
"""Samples of a 10,000-GPU cluster's hour: thirty signals at 15 s."""


def measure(
    nodes: int, minutes: int, repeats: int = REPEATS, profile: Callable[[Callable[[], object]], object] | None = None
) -> tuple[int, int, Spent, float]:
    """(series, samples, what the best run took, peak GiB): every repeat scores the same stored samples anew."""
    spent = Spent()
    samples = 0
    end = T0 + minutes * MINUTE
    cluster = BenchCluster(nodes, bad_from=T0 + minutes * MINUTE // 2)
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="anomaly-bench-") as folder:
            parts = parts_of(cluster, Path(folder))
            with open_pipeline_store(parts.pipeline) as store:
                samples = collect(parts, store, end, start=T0, end=end).inserted
                live = Live()
                # The directory of series is made once a start, not once a run.
                score(parts, store, live, (), end, start=T0, end=T0 + MINUTE)

                def work() -> None:
                    score(parts, store, live, (), end, start=T0, end=end)  # noqa: B023

                with timed(spent):
                    work() if profile is None else profile(work)
    return cluster.series, samples * (minutes - 1) // minutes, spent, peak_gib()


def rows(nodes: int = 1000, minutes: int = 31) -> list[Row]:
    series, samples, spent, peak = measure(nodes, minutes)
    rate = samples / spent.seconds / 1e6
    said = f"{samples:,} samples of {series:,} series in {spent.seconds:.2f} s, {spent.cpu:.2f} s of CPU"
    return [
        Row("score in bulk", rate, "M samples/s", 5, "at least", said),
        Row("score in bulk: 72 M samples", CLUSTER_HOUR / rate / 1e6, "s", 15, note="extrapolated from the row above"),
        Row("score in bulk: peak memory", peak, "GiB", 4, note="with the samples' generation"),
    ]
