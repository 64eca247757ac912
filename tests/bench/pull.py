"""One million samples out of a real Prometheus into the store, against the bare read and against the client library."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import requests

from anomaly.clock import Ms
from anomaly.config.session import session_for
from anomaly.records import Entity, Query, Samples
from anomaly.source.prometheus import PrometheusSource
from anomaly.store.samples import CollectedChunk, SignalChunk
from anomaly.store.store import Store, open_store
from tests.bench.measure import REPEATS, Row, Spent, timed
from tests.e2e import harness

START: Ms = 1_700_000_100_000
STEP: Ms = 15_000
METRIC = "DCGM_FI_DEV_POWER_USAGE"
GOES = 7
"""Short enough for many."""


def rows(series: int = 1000, points: int = 1000) -> list[Row]:
    end = START + (points - 1) * STEP
    with tempfile.TemporaryDirectory(prefix="anomaly-bench-") as folder, _served(Path(folder), series, points) as url:
        query = Query("gpu_power", METRIC, START, end, STEP)
        bare, ours, theirs = Spent(), Spent(), Spent()
        size = 0
        with session_for() as session:
            source = PrometheusSource(url, session)
            source.pull(query)  # everybody finds the server warm
            for number in range(GOES):  # in turn, so that all find the same machine
                with timed(bare):
                    size = _read(url, query)
                _commit(source, query, Path(folder), series * points, ours)
                if number < REPEATS:
                    with timed(theirs):
                        _frame(url, query, series * points)
    said = f"{series * points:,} samples, {size / 1e6:.0f} MB: {ours.seconds:.2f} s ÷ {bare.seconds:.2f} s"
    library = f"prometheus-api-client: {theirs.seconds:.2f} s"
    return [
        Row("pull, parse, commit ÷ bare HTTP read", ours.seconds / bare.seconds, "×", 2.5, note=said),
        Row("MetricRangeDataFrame ÷ ours", theirs.seconds / ours.seconds, "×", 8, "at least", library),
    ]


def _read(url: str, query: Query) -> int:
    """Reads the same bytes over HTTP and does nothing with them; how many they are."""
    form = {"query": query.promql, "start": query.start / 1000, "end": query.end / 1000, "step": query.step / 1000}
    with requests.Session() as session:
        session.trust_env = False
        headers = {"Accept-Encoding": "identity"}
        with session.post(f"{url}/api/v1/query_range", data=form, headers=headers, stream=True) as response:
            return len(response.raw.read(decode_content=True))


def _commit(source: PrometheusSource, query: Query, folder: Path, samples: int, spent: Spent) -> None:
    """Pulls into a new store."""
    with open_store(folder / "bench.duckdb") as store:
        with timed(spent):
            _pull_once(source, query, store)
        assert len(store.read(query.signal, query.start, query.end)) == samples
    (folder / "bench.duckdb").unlink()


def _pull_once(source: PrometheusSource, query: Query, store: Store) -> None:
    pulled = source.pull(query)
    known = store.register(
        [(query.signal, Entity("node", labels["Hostname"]), labels["gpu"], "", labels) for labels in pulled.labels]
    )
    samples = Samples(np.repeat(known, pulled.lengths), pulled.ts, pulled.values)
    chunk = SignalChunk(query.signal, query.start, query.end, samples)
    store.commit_chunk(CollectedChunk(query.start, query.end, (chunk,)))


def _frame(url: str, query: Query, samples: int) -> None:
    from prometheus_api_client import MetricRangeDataFrame, PrometheusConnect

    connect = PrometheusConnect(url=url)
    start, end = (datetime.fromtimestamp(at / 1000, UTC) for at in (query.start, query.end))
    found = connect.custom_query_range(query.promql, start, end, f"{query.step // 1000}")
    assert len(MetricRangeDataFrame(found)) == samples


@contextmanager
def _served(folder: Path, series: int, points: int) -> Iterator[str]:
    """A Prometheus with `series` of `points` power readings, back-filled."""
    rng = np.random.default_rng(1)
    file = folder / "written.om"
    stamps = [f"{(START + k * STEP) // 1000}\n" for k in range(points)]
    with file.open("w") as out:
        out.write(f"# TYPE {METRIC} gauge\n")
        for one in range(series):
            values = 500 + one % 7 + np.cumsum(rng.normal(0, 1, points))
            node, gpu = divmod(one, 8)
            head = f'{METRIC}{{Hostname="gpu-{node}",gpu="{gpu}",instance="gpu-{node}:9400",job="dcgm-exporter"}} '
            out.writelines(f"{head}{value:.3f} {stamp}" for value, stamp in zip(values, stamps, strict=True))
        out.write("# EOF\n")
    harness.backfill([file], folder / "data")
    file.unlink()
    with harness.prometheus(folder / "data", flags=["--query.max-samples=100000000"]) as url:
        yield url
