"""The main job, end to end, nothing mocked: 32 nodes × 8 GPUs in a real Prometheus, pages in a real Alertmanager."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anomaly.clock import HOUR, MINUTE, SECOND, Ms, align_down, format_time, system_clock
from anomaly.source.simulated import Fault, Scenario, make_cluster, topology_csv, truth, write_openmetrics
from tests.e2e import harness

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SEED = 20_261_130
SET_UP: Ms = 120 * SECOND
"""What writing, back-filling and starting take here; the faults that are active now must outlast it."""


@dataclass(frozen=True)
class Stage:
    """A back-filled Prometheus: two hours of history up to `now`, and what happens after it."""

    url: str
    directory: Path
    now: Ms
    end: Ms
    scenario: Scenario


def faults_of(cluster: Any, now: Ms) -> tuple[Fault, ...]:
    """One culprit a job, onsets at least twelve minutes apart: three that are over, two that end soon after `now`."""
    first, second, third, fourth = cluster.jobs[:4]
    storage = "train-data"
    users = tuple(node for node in cluster.members("storage", storage))
    soon = now + SET_UP + 90 * SECOND
    return (
        Fault("nic_degradation", (first.nodes[2],), now - 76 * MINUTE, now - 61 * MINUTE, 0.25),
        Fault("gpu_lost", (second.nodes[1],), now - 60 * MINUTE, now - 47 * MINUTE, 0.25),
        Fault("node_lost", (third.nodes[3],), now - 44 * MINUTE, now - 33 * MINUTE, 0.25),
        Fault("thermal_throttle", (fourth.nodes[0],), now - 24 * MINUTE, soon, 0.25),
        Fault("storage_latency", users, now - 11 * MINUTE, soon, 0.25, group=storage),
    )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("main-line")
    now = align_down(system_clock(), 15 * SECOND)
    cluster = make_cluster(SEED, nodes=32, gpus=8, jobs=4)
    assert len(cluster.jobs) >= 4
    assert all(len(job.nodes) >= 6 for job in cluster.jobs)
    start, end = now - 2 * HOUR, now + 25 * MINUTE
    scenario = Scenario(cluster, faults_of(cluster, now), start, end, seed=SEED)
    (directory / "topology.csv").write_text(topology_csv(cluster))
    (directory / "truth.json").write_text(json.dumps(truth(scenario)))
    files = write_openmetrics(scenario, directory / "openmetrics")
    harness.backfill(files, directory / "data")
    for file in files:
        file.unlink()
    with harness.prometheus(directory / "data") as url:
        yield Stage(url, directory, now, end, scenario)


def pipeline(stage: Stage, name: str, more: str = "") -> Path:
    path = stage.directory / f"{name}.yaml"
    path.write_text(
        f"""cluster: e2e
packs: [dcgm, node, rdma, storage, training]
prometheus: {{url: "{stage.url}", step: 15s}}
signals:
  iteration_seconds:
    {{query: 'max by (job_name, node) (train_step_seconds)', unit: seconds, bad: high, layer: training}}
topology: {{file: topology.csv}}
store: {{path: {stage.directory}/{name}/anomaly.duckdb}}
web: {{listen: "127.0.0.1:0"}}
{more}"""
    )
    return path


def alerts_by_entity(url: str) -> dict[str, list[dict[str, Any]]]:
    """What Alertmanager holds, by node or group."""
    out: dict[str, list[dict[str, Any]]] = {}
    for alert in harness.firing_alerts(url):
        labels = alert["labels"]
        out.setdefault(labels.get("node") or labels["group"], []).append(alert)
    return out


def test_run_pages_once_per_active_fault_and_resolves(stage: Stage, tmp_path: Path) -> None:
    active = [fault for fault in stage.scenario.faults if fault.end > stage.now]
    wanted = {fault.group or fault.nodes[0] for fault in active}
    with harness.alertmanager(tmp_path) as manager:
        path = pipeline(stage, "run", f'alertmanagers: [{{url: "{manager}"}}]\n')
        with harness.anomaly_process(["run", str(path)], stage.directory) as service:
            harness.wait_until(
                lambda: wanted <= set(alerts_by_entity(manager)), 150, f"one alert each for {sorted(wanted)}", every=0.5
            )
            late = max(fault.end for fault in active) - system_clock()
            assert 0 < late < 3 * MINUTE, f"the faults end {late / 1000:.0f} s after the alerts: set-up time is off"
            while system_clock() < max(fault.end for fault in active):
                found = alerts_by_entity(manager)
                assert set(found) == wanted, f"{format_time(system_clock())}: {found}"
                assert all(len(alerts) == 1 for alerts in found.values()), found
                time.sleep(2)
            limit = (min(stage.end, max(fault.end for fault in active) + 12 * MINUTE) - system_clock()) / 1000

            def nothing_left() -> bool:
                found = alerts_by_entity(manager)
                assert set(found) <= wanted, found
                return not found

            harness.wait_until(nothing_left, limit, "every alert resolved", every=2)
            assert service.alive, service.errors()
            service.terminate()
            assert service.wait(10) == 0, service.errors()


def test_backtest_finds_every_fault_and_blames_nobody_else(stage: Stage, tmp_path: Path) -> None:
    path = pipeline(stage, "backtest")
    incidents = tmp_path / "incidents.jsonl"
    args = ["backtest", str(path), "--from", format_time(stage.now - 2 * HOUR), "--to", format_time(stage.end)]
    args += ["--truth", str(stage.directory / "truth.json"), "--incidents", str(incidents), "--format", "json"]
    with harness.anomaly_process(args, stage.directory) as process:
        assert process.wait(240) == 0, process.errors()
        told = json.loads(process.output())
    report = told.get("truth", told)
    lines = [json.loads(line) for line in incidents.read_text().splitlines()]
    blamed = {line["node"] or line["group"] for line in lines if line["severity"] != "info"}
    assert blamed == {fault.group or fault.nodes[0] for fault in stage.scenario.faults}, report
    assert report["recall"] == 1.0, report
    assert report["precision"] == 1.0, report
    assert report["victims_blamed"] == 0, report
