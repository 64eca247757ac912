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
from tests.bench.measure import REPEATS, Row, Spent, best, timed
from tests.e2e import harness

START: Ms = 1_700_000_100_000
STEP: Ms = 15_000
METRIC = "DCGM_FI_DEV_POWER_USAGE"


def rows(series: int = 1000, points: int = 1000) -> list[Row]:
    end = START + (points - 1) * STEP
    with tempfile.TemporaryDirectory(prefix="anomaly-bench-") as folder, _served(Path(folder), series, points) as url:
        query = Query("gpu_power", METRIC, START, end, STEP)
        with session_for() as session:
            source = PrometheusSource(url, session)
            source.pull(query)  # everybody finds the server warm
            bare, size = _bare(url, query)
            ours = _ours(source, query, Path(folder), series * points)
        theirs = _theirs(url, query, series * points)
    said = f"{series * points:,} samples, {size / 1e6:.0f} MB: {ours:.2f} s ÷ {bare:.2f} s"
    return [
        Row("pull, parse, commit ÷ bare HTTP read", ours / bare, "×", 2.5, note=said),
        Row("MetricRangeDataFrame ÷ ours", theirs / ours, "×", 8, "at least", f"prometheus-api-client: {theirs:.2f} s"),
    ]


def _bare(url: str, query: Query) -> tuple[float, int]:
    """Seconds to read the same bytes over HTTP and do nothing with them, and how many they are."""
    size = 0
    form = {"query": query.promql, "start": query.start / 1000, "end": query.end / 1000, "step": query.step / 1000}
    with requests.Session() as session:
        session.trust_env = False

        def read() -> None:
            nonlocal size
            headers = {"Accept-Encoding": "identity"}
            with session.post(f"{url}/api/v1/query_range", data=form, headers=headers, stream=True) as response:
                size = len(response.raw.read(decode_content=True))

        return best(read), size


def _ours(source: PrometheusSource, query: Query, folder: Path, samples: int) -> float:
    spent = Spent()
    for _ in range(REPEATS):
        with open_store(folder / "bench.duckdb") as store:
            ids: dict[str, int] = {}
            with timed(spent):
                _pull_once(source, query, store, ids)
            assert len(store.read(query.signal, query.start, query.end)) == samples
        (folder / "bench.duckdb").unlink()
    return spent.seconds


def _pull_once(source: PrometheusSource, query: Query, store: Store, ids: dict[str, int]) -> None:
    pulled = source.pull(query)
    known = store.register(
        [(query.signal, Entity("node", labels["Hostname"]), labels["gpu"], "", labels) for labels in pulled.labels]
    )
    samples = Samples(np.repeat(known, pulled.lengths), pulled.ts, pulled.values)
    chunk = SignalChunk(query.signal, query.start, query.end, samples)
    store.commit_chunk(CollectedChunk(query.start, query.end, (chunk,)))


def _theirs(url: str, query: Query, samples: int) -> float:
    from prometheus_api_client import MetricRangeDataFrame, PrometheusConnect

    connect = PrometheusConnect(url=url)
    start, end = (datetime.fromtimestamp(at / 1000, UTC) for at in (query.start, query.end))

    def pull() -> None:
        found = connect.custom_query_range(query.promql, start, end, f"{query.step // 1000}")
        assert len(MetricRangeDataFrame(found)) == samples

    return best(pull)


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
