"""A living cluster: exporters scraped every second by a real Prometheus, simulated time running fifteen times faster.

What happens to it is what happens to clusters: an exporter restarts, a GPU vanishes without a word, a new driver gives
every GPU series new labels, a node dies. Two of these are faults.
"""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from anomaly.clock import HOUR, MINUTE, SECOND, Ms, parse_time, system_clock
from anomaly.source.simulated import Cluster, Fault, Scenario, make_cluster, topology_csv
from anomaly.source.simulated.serve import Exporters, file_sd, serving
from anomaly.store.published import read_table
from tests import needs
from tests.e2e import harness

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SCALE = Fraction(1, 15)
START: Ms = parse_time("2026-11-30T08:00:00Z")
DIES, BACK = START + 15 * MINUTE, START + 22 * MINUTE
"""In simulated time; in real time 60 and 88 seconds after the beginning, whatever the test is doing then."""
LASTS = 90 * MINUTE
NEW_DRIVER = "570.133.20"

SCRAPING = """\
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: simulated
  file_sd_configs: [{files: [targets.json]}]
- job_name: node-exporter
  static_configs: [{targets: ["127.0.0.1:%d"]}]
"""


@dataclass(frozen=True)
class Stage:
    """Everything that runs, and where it says what."""

    exporters: Exporters
    cluster: Cluster
    prometheus: str
    manager: str
    status: str
    folder: Path

    def metric(self, name: str) -> float:
        """A value of the service's own /metrics; 0 before it is there."""
        text = harness.get(f"{self.status}/metrics").text
        found = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(found[0]) if found else 0.0

    def scored(self, real: Ms, limit: float = 45) -> None:
        """Wait until the service has judged the real instant."""
        name = "anomaly_scored_through_timestamp_seconds"
        harness.wait_until(lambda: self.metric(name) * 1000 >= real, limit, f"scores up to {real}", every=0.25)

    def alerts(self) -> set[tuple[str, str]]:
        """(node or group, cause) of what Alertmanager holds."""
        found = [alert["labels"] for alert in harness.firing_alerts(self.manager)]
        return {(labels.get("node") or labels["group"], labels["cause"]) for labels in found}

    def ask(self, promql: str, at: Ms | None = None) -> dict[str, float]:
        """Instance → value, now or then."""
        result = harness.instant_query(self.prometheus, promql, (at or system_clock()) / 1000)
        return {series["metric"].get("instance", ""): float(series["value"][1]) for series in result}

    def lines(self) -> list[dict[str, Any]]:
        """Every line of every incident so far."""
        path = self.folder / "incidents.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def node_exporter(home: Path, port: int) -> Iterator[None]:
    """The real thing, about this very machine."""
    argv: list[str | Path] = [needs.binary("node_exporter"), f"--web.listen-address=127.0.0.1:{port}"]
    with harness.running(argv, home, name="node-exporter"):
        url = f"http://127.0.0.1:{port}/metrics"
        harness.wait_until(lambda: "node_uname_info" in harness.get(url).text, 20, "node_exporter to answer")
        yield


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    cluster = make_cluster(11, nodes=12, gpus=4, jobs=2, rails=2)
    dead = cluster.jobs[1].nodes[2]
    scenario = Scenario(cluster, [Fault("node_lost", (dead,), DIES, BACK)], START, START + LASTS, 5_000, 11)
    exporters = Exporters(scenario, system_clock, system_clock() + HOUR, SCALE)
    exporters.prepare()
    (tmp_path / "topology.csv").write_text(topology_csv(cluster))
    real_port, status_port = harness.free_port(), harness.free_port()
    with ExitStack() as running:
        running.enter_context(node_exporter(tmp_path, real_port))
        address = running.enter_context(serving(exporters))
        (tmp_path / "targets.json").write_text(file_sd(cluster, address))
        # Prometheus' own five minutes of lookback: only stale markers can end a series in time.
        flags = ["--query.lookback-delta=5m"]
        url = running.enter_context(harness.prometheus(tmp_path / "data", config=SCRAPING % real_port, flags=flags))
        manager = running.enter_context(harness.alertmanager(tmp_path / "alertmanager"))
        pipeline = tmp_path / "live.yaml"
        pipeline.write_text(
            f"""cluster: live
packs: [dcgm, node, rdma, storage, training]
time_scale: "1/15"
prometheus: {{url: "{url}", step: 15s}}
signals:
  iteration_seconds: {{query: 'max by (job_name, node) (train_step_seconds)', unit: seconds, bad: high}}
topology: {{file: topology.csv}}
alertmanagers: [{{url: "{manager}", resend: 1m, lease: 15m}}]
jsonl: {{path: {tmp_path}/incidents.jsonl}}
store: {{path: {tmp_path}/var/anomaly.duckdb}}
web: {{listen: "127.0.0.1:{status_port}"}}
"""
        )
        service = running.enter_context(harness.anomaly_process(["run", str(pipeline)], tmp_path))
        told = Stage(exporters, cluster, url, manager, f"http://127.0.0.1:{status_port}", tmp_path)
        told.scored(1)
        exporters.begin = system_clock()
        yield told
        assert service.alive, service.errors()
        service.terminate()
        assert service.wait(10) == 0, service.errors()


def test_two_faults_among_everyday_events(stage: Stage) -> None:
    exporters, cluster = stage.exporters, stage.cluster
    first, second = cluster.jobs
    robbed, restarted, dead = first.nodes[1], first.nodes[4], second.nodes[2]
    gpu_lost, node_lost = (robbed, "gpu_lost"), (dead, "node_lost")

    stage.scored(exporters.begin + 12 * SECOND)
    assert stage.alerts() == set()
    harness.wait_until(lambda: set(stage.ask("up").values()) == {1.0}, 5, "every target to answer")

    # An exporter restarts: two scrapes find nobody, then its counters begin anew.
    counted = f'sum by (instance) (DCGM_FI_DEV_POWER_VIOLATION{{Hostname="{restarted}"}})'
    before = stage.ask(counted)[f"{restarted}:9400"]
    exporters.stop(restarted, "dcgm-exporter")
    time.sleep(2)
    assert stage.ask("up == 0")[f"{restarted}:9400"] == 0.0
    exporters.start(restarted, "dcgm-exporter")
    harness.wait_until(lambda: stage.ask(counted), 5, "the restarted exporter's series")
    assert stage.ask(counted)[f"{restarted}:9400"] < before / 2

    # A GPU vanishes without a word: its series are gone at the next scrape, its exporter is well.
    its_series = f'count by (instance) ({{Hostname="{robbed}",gpu="2"}})'
    assert stage.ask(its_series)
    exporters.hide(robbed, 2)
    gone_at = system_clock()
    harness.wait_until(lambda: not stage.ask(its_series), 2.5, "stale markers")
    assert stage.ask(f'up{{instance="{robbed}:9400"}}') == {f"{robbed}:9400": 1.0}
    harness.wait_until(lambda: gpu_lost in stage.alerts(), 30, "the lost GPU", every=0.25)
    assert stage.alerts() <= {gpu_lost, node_lost}

    # A driver roll-out: every GPU series ends, another with the same UUID begins.
    exporters.driver = NEW_DRIVER
    time.sleep(2)
    rolled_out = system_clock()
    everywhere = stage.ask("count(DCGM_FI_DEV_GPU_TEMP)", rolled_out)
    new = f'count(DCGM_FI_DEV_GPU_TEMP{{DCGM_FI_DRIVER_VERSION="{NEW_DRIVER}"}})'
    assert stage.ask(new, rolled_out) == everywhere
    assert everywhere[""] >= 40, "all GPUs but the one, less those of the node if it is dead by now"

    # A node dies.
    died, back = exporters.real(DIES), exporters.real(BACK)
    assert rolled_out < back, "the set-up took too long for the node's death to be watched"
    harness.wait_until(lambda: node_lost in stage.alerts(), 60, "the dead node", every=0.25)
    assert stage.alerts() == {gpu_lost, node_lost}
    down = stage.ask(f'up{{instance=~"{dead}:.*"}}', died + 4 * SECOND)
    assert len(down) == 4
    assert set(down.values()) == {0.0}

    # Both come back.
    exporters.show(robbed, 2)
    shown = system_clock()
    stage.scored(shown)
    harness.wait_until(lambda: gpu_lost not in stage.alerts(), 30, "the GPU's incident to end", every=0.25)
    harness.wait_until(lambda: not stage.alerts(), 60, "every alert resolved", every=0.25)
    stage.scored(max(shown, back) + 12 * SECOND)
    assert stage.alerts() == set()

    loud = [line for line in stage.lines() if line["severity"] != "info"]
    ids = {line["id"]: (line["node"] or line["group"], line["cause"]) for line in loud}
    assert sorted(ids.values()) == sorted([gpu_lost, node_lost]), loud
    onsets = {ids[line["id"]]: parse_time(line["onset"]) for line in loud}
    assert abs(onsets[gpu_lost] - gone_at) <= 3 * SECOND
    assert abs(onsets[node_lost] - died) <= 3 * SECOND
    last = {line["id"]: line for line in loud}
    assert all(line["resolved_at"] for line in last.values())
    assert {line["severity"] for line in last.values()} == {"critical"}
    assert all(f"since {line['onset']}" in line["summary"] for line in last.values()), "words are in real time, too"
    _identity_and_coverage(stage, last)


def _identity_and_coverage(stage: Stage, incidents: dict[str, Any]) -> None:
    """What the store knows in the end: every GPU once, whatever its labels were, and this machine as a node."""
    host = socket.gethostname()
    folder = stage.folder / "var"
    covered = read_table(folder / "published", "coverage")
    assert covered is not None
    rows = [row for row in covered.to_pylist() if row["name"] == host and row["layer"] == "all"]
    assert rows
    assert rows[-1]["verdict"] == "healthy"
    assert rows[-1]["ratio"] > 0.9
    assert host not in {line["node"] for line in incidents.values()}
    series = read_table(folder / "published", "series")
    assert series is not None
    known = series.to_pylist()
    temperatures = [row for row in known if row["signal"] == "gpu_temp"]
    identities = {(row["name"], row["device"]) for row in temperatures}
    assert len(identities) == 48
    assert len(temperatures) > 90, "two label sets of each GPU: the old driver's and the new one's"
    of_host = {row["signal"] for row in known if row["name"] == host}
    assert {"up", "node_names", "boot_time", "cpu_busy_ratio", "memory_available_ratio", "load_per_core"} <= of_host
    assert not any(row["name"] == "127.0.0.1" for row in known), "an address is translated where the host says its name"
