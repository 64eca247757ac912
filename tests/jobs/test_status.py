"""The service's HTTP door, and its metrics as Prometheus reads them."""

from collections.abc import Iterator

import pytest
import requests
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from anomaly.errors import ConfigError
from anomaly.jobs.metrics import Metrics
from anomaly.jobs.status import StatusServer

EXPECTED = {
    "anomaly_build",
    "anomaly_job_runs",
    "anomaly_job_duration_seconds",
    "anomaly_last_success_timestamp_seconds",
    "anomaly_findings_dropped",
    "anomaly_findings_open",
    "anomaly_incidents_open",
    "anomaly_outbox_pending",
    "anomaly_collected_samples",
    "anomaly_late_samples",
    "anomaly_signals_failed",
    "anomaly_scored_through_timestamp_seconds",
    "anomaly_alerts_sent",
    "anomaly_alerts_failed",
}


class Door:
    def __init__(self) -> None:
        self.reason: str | None = "nothing has been pulled yet"
        self.metrics = Metrics(("alertmanager", "jsonl", "alertmanager"))
        self.server = StatusServer("127.0.0.1", 0, lambda: self.reason, self.metrics.exposition)
        self.server.start()
        self.url = f"http://{self.server.address}"


@pytest.fixture
def door() -> Iterator[Door]:
    found = Door()
    yield found
    found.server.close()


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as found:
        found.trust_env = False
        yield found


def test_healthy_always_ready_when_it_is(door: Door, session: requests.Session) -> None:
    """As in NVIDIA/NVSentinel#1748."""
    assert session.get(f"{door.url}/-/healthy").status_code == 200
    answer = session.get(f"{door.url}/-/ready")
    assert answer.status_code == 503
    assert "nothing has been pulled yet" in answer.text
    door.reason = None
    assert session.get(f"{door.url}/-/ready").text == "ready\n"


def test_head_says_the_same_without_a_body(door: Door, session: requests.Session) -> None:
    for path in ("/-/healthy", "/-/ready", "/metrics", "/nothing"):
        full, head = session.get(door.url + path), session.head(door.url + path)
        assert head.status_code == full.status_code
        assert head.headers["Content-Type"] == full.headers["Content-Type"]
        assert head.text == ""


def test_nothing_else_is_there_and_nothing_is_written(door: Door, session: requests.Session) -> None:
    assert session.get(f"{door.url}/").status_code == 404
    refused = session.post(f"{door.url}/-/ready", data=b"x" * 1000)
    assert refused.status_code == 405
    assert refused.headers["Allow"] == "GET, HEAD"
    assert session.get(f"{door.url}/-/healthy?x=1").status_code == 200


@pytest.mark.parametrize(
    ("accept", "parse"),
    [("text/plain", parse_text), ("application/openmetrics-text; version=1.0.0", parse_openmetrics)],
)
def test_metrics_parse_and_name_no_node(door: Door, session: requests.Session, accept: str, parse: object) -> None:
    door.metrics.job_ended("data", "ok", 0.25, 1_796_000_000_000)
    door.metrics.dropped.labels("settle").inc(3)
    door.metrics.delivered("alertmanager", 2, 1)
    door.metrics.incidents({"critical": 1})
    door.metrics.outbox({"jsonl": 4, "unknown": 1})
    answer = session.get(f"{door.url}/metrics", headers={"Accept": accept})
    assert answer.status_code == 200
    families = {family.name.removesuffix("_total"): family for family in parse(answer.text)}  # type: ignore[operator]
    assert {name.removesuffix("_info") for name in families} - {"anomaly_build"} >= EXPECTED - {"anomaly_build"}
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert samples["anomaly_job_runs_total", (("job", "data"), ("outcome", "ok"))] == 1
    assert samples["anomaly_last_success_timestamp_seconds", (("job", "data"),)] == 1_796_000_000
    assert samples["anomaly_incidents_open", (("severity", "critical"),)] == 1
    assert samples["anomaly_incidents_open", (("severity", "warning"),)] == 0
    assert samples["anomaly_outbox_pending", (("sink_kind", "jsonl"),)] == 4
    assert samples["anomaly_alerts_failed_total", (("sink_kind", "alertmanager"),)] == 1
    assert any(name == "anomaly_build_info" for name, _ in samples)
    labels = {label for _, pairs in samples for label, _ in pairs}
    assert labels <= {"job", "outcome", "reason", "severity", "sink_kind", "version", "le"}


def test_a_taken_port_is_a_clear_error(door: Door) -> None:
    host, _, port = door.server.address.rpartition(":")
    with pytest.raises(ConfigError, match=rf"cannot listen on {host}:{port}: Address already in use.*web.listen"):
        StatusServer(host, int(port), lambda: None, door.metrics.exposition)


def test_two_services_in_one_process_share_nothing() -> None:
    first, second = Metrics(), Metrics()
    first.samples.inc(5)
    assert b"anomaly_collected_samples_total 0.0" in second.exposition("")[0]
