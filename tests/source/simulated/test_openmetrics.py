"""The same cluster through a real Prometheus: back-filled from our files, it answers as the simulated source does."""

from pathlib import Path

import numpy as np
import pytest

from anomaly.clock import HOUR, MINUTE, parse_time
from anomaly.records import Query
from anomaly.source.simulated import Fault, Scenario, SimulatedSource, make_cluster, write_openmetrics
from tests.e2e.harness import backfill, get, prometheus

START = parse_time("2026-03-02T09:30:00Z")
END = START + HOUR
QUERIES = {
    "gpu_temp": '{__name__=~"DCGM_FI_DEV_GPU_TEMP|DCGM_FI_DEV_GPU_TEMP_CELSIUS"}',
    "xid": "DCGM_FI_DEV_XID_ERRORS",
    "thermal_violation": "DCGM_FI_DEV_THERMAL_VIOLATION",
    "up": "up",
    "rdma_bytes_received": "node_infiniband_port_data_received_bytes_total",
    "pfc_pause_transmitted": "node_ethtool_transmitted_prio3_pause",
    "iteration_seconds": "train_step_seconds",
    "node_names": "node_uname_info",
    "cpu_busy_ratio": '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[2m]))',
    "memory_available_ratio": "node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes",
    "load_per_core": "node_load1 / on (instance) group_left () count by (instance) "
    '(node_cpu_seconds_total{mode="idle"})',
    "storage_p99": "histogram_quantile(0.99, sum by (instance, vol_name, le) "
    "(rate(juicefs_object_request_durations_histogram_seconds_bucket[2m])))",
}

Points = dict[tuple[tuple[str, str], ...], dict[int, float]]


def scenario() -> Scenario:
    cluster = make_cluster(5, nodes=12, gpus=2, jobs=2, rails=2)
    first, second = cluster.jobs
    faults = (
        Fault("node_lost", (first.nodes[0],), START + 21 * MINUTE, START + 35 * MINUTE),
        Fault("gpu_lost", (second.nodes[1],), START + 25 * MINUTE, START + 40 * MINUTE, device="1"),
    )
    return Scenario(cluster, faults, START, END, seed=1)


def test_a_file_holds_one_block_of_prometheus(tmp_path: Path) -> None:
    paths = write_openmetrics(scenario(), tmp_path)
    assert [path.name for path in paths] == [f"simulated-{START // 1000}.om", f"simulated-{START // 1000 + 1800}.om"]
    for path, (low, high) in zip(paths, ((START, START + 30 * MINUTE), (START + 30 * MINUTE, END + 1)), strict=True):
        text = path.read_text()
        assert text.endswith("# EOF\n")
        times = {float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("up{")}
        assert low <= min(times) * 1000 and max(times) * 1000 < high
    again = [path.read_bytes() for path in write_openmetrics(scenario(), tmp_path / "again")]
    assert again == [path.read_bytes() for path in paths], "same seed, same bytes"


def from_prometheus(url: str, promql: str, start: int, end: int, step: int) -> Points:
    parameters = {"query": promql, "start": str(start / 1000), "end": str(end / 1000), "step": f"{step / 1000}"}
    answer = get(f"{url}/api/v1/query_range", parameters).json()
    assert answer["status"] == "success", answer
    return {
        tuple(sorted(series["metric"].items())): {round(t * 1000): float(v) for t, v in series["values"]}
        for series in answer["data"]["result"]
    }


def from_source(source: SimulatedSource, signal: str, promql: str, start: int, end: int, step: int) -> Points:
    pulled = source.pull(Query(signal, promql, start, end, step))
    bounds = np.concatenate([[0], np.cumsum(pulled.lengths)])
    return {
        tuple(sorted(labels.items())): dict(zip(pulled.ts[a:b].tolist(), pulled.values[a:b].tolist(), strict=True))
        for labels, a, b in zip(pulled.labels, bounds[:-1], bounds[1:], strict=True)
    }


@pytest.mark.e2e
def test_prometheus_answers_what_the_source_answers(tmp_path: Path) -> None:
    simulated = scenario()
    backfill(write_openmetrics(simulated, tmp_path / "om"), tmp_path / "data")
    source = SimulatedSource(simulated)
    with prometheus(tmp_path / "data") as url:
        for signal, promql in QUERIES.items():
            for start, step in ((START, 15_000), (START + 7 * MINUTE, 30_000), (START + 3000, 20_000)):
                theirs = from_prometheus(url, promql, start, END, step)
                ours = from_source(source, signal, promql, start, END, step)
                assert theirs, signal
                assert ours.keys() == theirs.keys(), signal
                for key, points in theirs.items():
                    assert sorted(set(ours[key]) ^ set(points)) == [], (signal, key, start, step, START)
                    assert ours[key] == pytest.approx(points, rel=1e-9, nan_ok=True), (signal, key, start, step)
