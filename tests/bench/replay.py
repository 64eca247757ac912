"""A backtest of the simulated cluster: 32 nodes × 8 GPUs at 15 s with a fault every twenty minutes, pull excluded."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from anomaly.backtest import replay
from anomaly.clock import HOUR, MINUTE, Ms
from anomaly.config.pipeline import Pipeline
from anomaly.jobs.collect import collect, warm_up
from anomaly.jobs.parts import Parts, open_pipeline_store, topology_of_csv
from anomaly.signals.catalogue import load_catalogue
from anomaly.source.simulated import Scenario, SimulatedSource, make_cluster, place_faults, topology_csv
from tests.bench.cluster import PACKS, T0
from tests.bench.measure import REPEATS, Row, Spent, timed


def rows(
    nodes: int = 32,
    hours: int = 2,
    repeats: int = REPEATS,
    profile: Callable[[Callable[[], object]], object] | None = None,
) -> list[Row]:
    """As `anomaly backtest` does it: two hours of context are scored before the range that counts."""
    spent, found = Spent(), None
    with tempfile.TemporaryDirectory(prefix="anomaly-bench-") as folder:
        parts, start, end = _parts(Path(folder), nodes, hours)
        before = start - warm_up(parts.pipeline)
        for _ in range(repeats):
            parts.pipeline.store.path.unlink(missing_ok=True)
            with open_pipeline_store(parts.pipeline) as store:
                collected = collect(parts, store, end, start=before, end=end)
                with timed(spent):
                    if profile is None:
                        found = replay(parts, store, start, end, collected)
                    else:
                        profile(lambda: replay(parts, store, start, end, collected))  # noqa: B023
    scored = (end - before) / 1000
    lines = f", {len(found.lines)} lines" if found else ""
    said = f"{collected.inserted:,} samples, {scored / 3600:.0f} h in {spent.seconds:.1f} s, {spent.cpu:.1f} s of CPU"
    what = f"backtest, {nodes} nodes × 8 GPUs at 15 s"
    return [Row(what, scored / spent.seconds, "× real time", 200, "at least", said + lines)]


def _parts(folder: Path, nodes: int, hours: int) -> tuple[Parts, Ms, Ms]:
    cluster = make_cluster(7, nodes, 8, 4)
    pipeline = Pipeline.model_validate(
        {
            "cluster": "bench",
            "packs": list(PACKS),
            "simulate": {"seed": 7, "nodes": nodes},
            "store": {"path": str(folder / "anomaly.duckdb")},
        }
    )
    start = T0 + warm_up(pipeline)
    end = start + hours * HOUR
    faults = place_faults(cluster, 7, 3 * hours, start + 10 * MINUTE, end)
    source = SimulatedSource(Scenario(cluster, faults, T0, end, seed=7))
    return Parts(pipeline, load_catalogue(PACKS), topology_of_csv(topology_csv(cluster)), source), start, end
