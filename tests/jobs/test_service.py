"""The service as a real process: on a simulated cluster with a fault that is there now, a loopback Alertmanager."""

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from anomaly.clock import HOUR, MINUTE, Ms, format_time, system_clock
from anomaly.errors import ConfigError, StoreError
from anomaly.jobs.service import run_service
from anomaly.source.simulated import Fault, LiveSimulatedSource
from anomaly.store.published import manifest, read_incidents, read_table
from anomaly.store.store import open_store
from tests.deliver.parts import Receiver
from tests.e2e.harness import Running, anomaly_process, get, wait_until
from tests.jobs.parts import pipeline_in

pytestmark = pytest.mark.slow

SEED, NODES = 7, 12


def origin_and_fault() -> tuple[Ms, Fault]:
    """Where the simulation has to begin for its first fault to have begun five minutes ago."""
    live = LiveSimulatedSource(SEED, NODES, ["gpu_lost"], 0)
    fault = live.faults_until(2 * HOUR)[0]
    now = system_clock() // MINUTE * MINUTE
    return now - 5 * MINUTE - fault.onset, fault


def write_pipeline(folder: Path, origin: Ms, receiver: str, **more: str) -> Path:
    lines = {
        "cluster": "small",
        "packs": "[dcgm, node]",
        "simulate": f'{{seed: {SEED}, nodes: {NODES}, faults: [gpu_lost], start: "{format_time(origin)}"}}',
        "store": "{path: var/anomaly.duckdb}",
        "alertmanagers": f'[{{url: "{receiver}"}}]',
        "web": '{listen: "127.0.0.1:0"}',
        "schedule": "{collect: 5s, score: 15s, deliver: 2s, publish: 5s, prune: 5s}",
        "context": "30m",
    } | more
    path = folder / "pipeline.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return path


def logged(process: Running, event: str, **fields: str) -> list[str]:
    """The lines of that event that carry these fields."""
    words = [f"event={event}", *(f"{key}={value}" for key, value in fields.items())]
    return [line for line in process.errors().splitlines() if all(word in line.split() for word in words)]


def address(process: Running) -> str:
    line = wait_until(lambda: logged(process, "service_started"), 30, "the service to start")[0]
    found = re.search(r"listen=(\S+)", line)
    assert found is not None
    return f"http://{found[1]}"


def metrics(url: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = get(f"{url}/metrics").text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@dataclass
class Started:
    process: Running
    receiver: Receiver
    folder: Path
    fault: Fault
    url: str

    def alerts(self) -> list[dict[str, Any]]:
        return [alert for batch in self.receiver.alerts() for alert in batch]


@contextmanager
def started(folder: Path) -> Iterator[Started]:
    origin, fault = origin_and_fault()
    with (
        Receiver() as receiver,
        anomaly_process(["run", write_pipeline(folder, origin, receiver.url)], folder) as process,
    ):
        yield Started(process, receiver, folder, fault, address(process))


def test_from_start_to_sigterm(tmp_path: Path) -> None:
    with started(tmp_path) as service:
        url, process = service.url, service.process
        assert get(f"{url}/-/healthy").status_code == 200
        wait_until(lambda: get(f"{url}/-/ready").status_code == 200, 60, "/-/ready to say 200")

        # First start: history is replayed; what is still open is delivered as decided now, its onset from history.
        wait_until(service.alerts, 30, "the alert")
        alert = service.alerts()[0]
        assert alert["labels"]["node"] == service.fault.nodes[0]
        assert alert["labels"]["cause"] == "gpu_lost"
        assert alert["annotations"]["onset"] < alert["startsAt"]
        assert {entry["labels"]["node"] for entry in service.alerts()} == {service.fault.nodes[0]}

        # A second service on the same state is refused, and told by whom.
        other = write_pipeline(tmp_path, 0, service.receiver.url).rename(tmp_path / "other.yaml")
        with anomaly_process(["run", other], tmp_path) as second:
            assert second.wait(30) != 0
            assert f"process {process.pid}" in second.errors()
            assert "Traceback" not in second.errors()

        seen = metrics(url)
        assert seen["anomaly_incidents_open", (("severity", "critical"),)] == 1
        assert seen["anomaly_outbox_pending", (("sink_kind", "alertmanager"),)] == 0
        assert seen["anomaly_alerts_sent_total", (("sink_kind", "alertmanager"),)] >= 1
        assert seen["anomaly_collected_samples_total", ()] > 10_000
        assert seen["anomaly_signals_failed", ()] == 0
        assert seen["anomaly_findings_open", ()] >= 1
        assert seen["anomaly_job_runs_total", (("job", "data"), ("outcome", "ok"))] >= 1
        scored = seen["anomaly_scored_through_timestamp_seconds", ()]
        assert time.time() - scored < 60

        # Readers need no lock.
        published = tmp_path / "var" / "published"
        assert manifest(published)["scored_through"] is not None
        assert [incident.entity.name for incident in read_incidents(published)] == [service.fault.nodes[0]]

        begun = time.monotonic()
        process.popen.terminate()
        assert process.wait(15) == 0
        assert time.monotonic() - begun < 10
        assert logged(process, "service_stopped", code="0")
        assert "Traceback" not in process.errors()
        assert len(logged(process, "service_started")) == 1

    runs = read_rows(tmp_path)
    assert {job for job, _ in runs} >= {"data", "deliver"}
    assert {outcome for _, outcome in runs} <= {"ok"}


def read_rows(folder: Path) -> list[tuple[str, str]]:
    with open_store(folder / "var" / "anomaly.duckdb") as store:
        store.publish(folder / "var" / "published")
    found = read_table(folder / "var" / "published", "job_runs")
    return [(row["job"], row["outcome"]) for row in found.to_pylist()]


def test_a_kill_and_a_restart_go_on_where_it_was(tmp_path: Path) -> None:
    """The alert is renewed by the next life, and is no second alert."""
    with started(tmp_path) as first:
        wait_until(first.alerts, 60, "the alert")
        assert first.process.kill() == -9
        before = first.alerts()
        restarted = anomaly_process(["run", tmp_path / "pipeline.yaml"], tmp_path)
        with restarted as second:
            wait_until(lambda: get(f"{address(second)}/-/ready").status_code == 200, 60, "/-/ready to say 200")
            wait_until(lambda: logged(second, "job_done", job="data"), 30, "a run")
            assert second.terminate(15) == 0
        after = first.alerts()
    assert {json.dumps(alert["labels"]) for alert in after} == {json.dumps(alert["labels"]) for alert in before}


@pytest.fixture
def silent() -> Iterator[str]:
    """Something that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_prometheus_that_hangs_holds_up_neither_readiness_nor_the_end(tmp_path: Path, silent: str) -> None:
    more = {"simulate": "", "prometheus": f'{{url: "{silent}", timeout: 60s}}'}
    with Receiver() as receiver:
        text = write_pipeline(tmp_path, 0, receiver.url, **more).read_text()
        (tmp_path / "pipeline.yaml").write_text(re.sub(r"simulate: \n", "", text))
        with anomaly_process(["run", tmp_path / "pipeline.yaml"], tmp_path) as process:
            url = address(process)
            delivered = ("anomaly_job_runs_total", (("job", "deliver"), ("outcome", "ok")))
            wait_until(lambda: metrics(url).get(delivered), 15, "deliveries beside the pull that hangs")
            answer = get(f"{url}/-/ready")
            assert answer.status_code == 503
            assert "nothing has been pulled yet" in answer.text
            assert get(f"{url}/-/healthy").status_code == 200
            wait_until(lambda: logged(process, "job_skipped", job="data"), 15, "the overrun to be said")
            begun = time.monotonic()
            process.popen.terminate()
            assert process.wait(15) == 0, process.errors()
            assert time.monotonic() - begun < 10
            assert logged(process, "work_abandoned")


def test_a_prometheus_that_is_away_is_said_once(tmp_path: Path) -> None:
    """Connection refused, run after run: one line with the next try; then it comes back, which is said as well."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with Receiver() as receiver:
        path = write_pipeline(tmp_path, 0, receiver.url)
        text = re.sub(r"simulate: .*\n", f'prometheus: {{url: "http://127.0.0.1:{port}"}}\n', path.read_text())
        path.write_text(text.replace("collect: 5s", "collect: 1s"))
        with anomaly_process(["run", path], tmp_path) as process:
            url = address(process)
            failed = ("anomaly_job_runs_total", (("job", "data"), ("outcome", "failed")))
            wait_until(lambda: metrics(url).get(failed, 0) >= 2, 60, "two failed runs")
            (line,) = logged(process, "job_failed", job="data")
            assert "SourceUnavailable" in line and "next_try=" in line and f"127.0.0.1:{port}" in line
            assert process.terminate(15) == 0


def test_an_address_that_is_taken_is_a_clear_error_and_frees_the_store(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        pipeline = pipeline_in(tmp_path, web={"listen": f"127.0.0.1:{taken.getsockname()[1]}"})
        with pytest.raises(ConfigError, match=r"web\.listen.*Address already in use"):
            run_service(pipeline, system_clock)
    open_store(pipeline.store.path).close()


def test_somebody_elses_file_is_refused(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    pipeline.store.path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="not an anomaly database"):
        run_service(pipeline, system_clock)
