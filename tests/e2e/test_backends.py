"""The same history in Prometheus and in VictoriaMetrics gives the same incidents."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from anomaly.clock import MINUTE, SECOND, Ms, align_down, format_time, system_clock
from anomaly.source.simulated import Fault, Scenario, make_cluster, topology_csv, truth, write_openmetrics
from tests import needs
from tests.e2e import harness

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SEED = 20_261_201
LASTS: Ms = 75 * MINUTE


@dataclass(frozen=True)
class Stage:
    """One stretch of history in two databases."""

    folder: Path
    start: Ms
    end: Ms
    scenario: Scenario
    prometheus: str
    victoria: str


@contextmanager
def victoria_metrics(home: Path) -> Iterator[str]:
    """VictoriaMetrics on a free port with an empty database in `home`; its URL, once it answers."""
    port = harness.free_port()
    argv: list[str | Path] = [
        needs.binary("victoria_metrics"),
        f"-storageDataPath={home / 'victoria'}",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=1y",
        "-memory.allowedBytes=256MB",
    ]
    with harness.running(argv, home, name="victoria-metrics"):
        url = f"http://127.0.0.1:{port}"
        harness.wait_until(lambda: harness.get(f"{url}/health").ok, harness.START_SECONDS, "VictoriaMetrics to answer")
        yield url


def import_openmetrics(files: list[Path], url: str) -> None:
    """OpenMetrics files → VictoriaMetrics. Its own text format has timestamps in milliseconds, and no comments' end."""
    with requests.Session() as session:
        session.trust_env = False
        for file in files:
            done = session.post(f"{url}/api/v1/import/prometheus", data=_in_milliseconds(file), timeout=120)
            assert done.status_code == 204, done.text
        session.get(f"{url}/internal/force_flush", timeout=30).raise_for_status()


def _in_milliseconds(file: Path) -> Iterator[bytes]:
    batch: list[str] = []
    with file.open() as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            sample, _, stamp = line.rpartition(" ")
            batch.append(f"{sample} {round(float(stamp) * 1000)}\n")
            if len(batch) == 20_000:
                yield "".join(batch).encode()
                batch.clear()
    yield "".join(batch).encode()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("backends")
    end = align_down(system_clock() - MINUTE, 30 * SECOND)
    start = end - LASTS
    cluster = make_cluster(SEED, nodes=12, gpus=4, jobs=2, rails=4)
    first, second = cluster.jobs[:2]
    faults = (
        Fault("gpu_lost", (first.nodes[1],), start + 24 * MINUTE, start + 38 * MINUTE, 0.25),
        Fault("thermal_throttle", (second.nodes[3],), start + 30 * MINUTE, start + 48 * MINUTE, 0.25),
        Fault("nic_degradation", (first.nodes[4],), start + 54 * MINUTE, start + 70 * MINUTE, 0.3),
    )
    scenario = Scenario(cluster, faults, start, end, seed=SEED)
    (folder / "topology.csv").write_text(topology_csv(cluster))
    (folder / "truth.json").write_text(json.dumps(truth(scenario)))
    files = write_openmetrics(scenario, folder / "openmetrics")
    harness.backfill(files, folder / "data")
    with victoria_metrics(folder) as victoria:
        import_openmetrics(files, victoria)
        with harness.prometheus(folder / "data") as url:
            yield Stage(folder, start, end, scenario, url, victoria)


def backtest(stage: Stage, name: str, url: str, params: str = "{}") -> dict[str, dict[str, Any]]:
    """Entity → the last line of its incident, with when it fired; as `anomaly backtest` reports them from `url`."""
    path = stage.folder / f"{name}.yaml"
    path.write_text(
        f"""cluster: backends
packs: [dcgm, node, rdma, storage, training]
prometheus: {{url: "{url}", step: 15s, params: {params}}}
signals:
  iteration_seconds: {{query: 'max by (job_name, node) (train_step_seconds)', unit: seconds, bad: high}}
topology: {{file: topology.csv}}
store: {{path: {stage.folder}/{name}/anomaly.duckdb}}
"""
    )
    file = stage.folder / f"{name}.jsonl"
    args = ["backtest", str(path), "--from", format_time(stage.start), "--to", format_time(stage.end)]
    args += ["--truth", str(stage.folder / "truth.json"), "--incidents", str(file), "--format", "json"]
    with harness.anomaly_process(args, stage.folder) as process:
        assert process.wait(120) == 0, process.errors()
        report = json.loads(process.output())["truth"]
        assert "warning" not in process.errors(), process.errors()
    assert (report["recall"], report["precision"], report["victims_blamed"]) == (1.0, 1.0, 0), report
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    found = {line["node"] or line["group"]: line for line in lines if line["severity"] != "info"}
    assert len(found) == len({line["id"] for line in lines if line["severity"] != "info"}), "one incident an entity"
    return found


def test_victoria_metrics_gives_the_incidents_of_prometheus(stage: Stage) -> None:
    """The very same lines: ids, onsets, times, severities, causes, evidence."""
    ours = backtest(stage, "prometheus", stage.prometheus)
    theirs = backtest(stage, "victoria", f"{stage.victoria}/prometheus", '{nocache: "1"}')
    assert set(ours) == {fault.nodes[0] for fault in stage.scenario.faults}
    assert theirs == ours
