"""The receivers: what is a delivery, what is a refusal, what is only bad weather; a file that survives kill -9."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from anomaly.clock import MINUTE
from anomaly.deliver.entries import SinkRef, event_key, json_line, outbox_entries
from anomaly.deliver.policy import FeedPolicy
from anomaly.deliver.sinks import AlertmanagerSink, JsonLinesSink, WebhookSink, sink_name
from anomaly.errors import ConfigError, DeliveryError, DeliveryRejected, DeliveryUnavailable
from anomaly.incident_json import incident_from_json
from anomaly.records import OutboxEntry, Phase, Severity
from tests.deliver.parts import T0, Receiver, ended, free_port, hot_gpu, slow_leaf

AM = SinkRef("am", "alertmanager")
FILE = SinkRef("file", "jsonl")


def alert(**changes: Any) -> OutboxEntry:
    return outbox_entries(hot_gpu(**changes), [AM], T0, T0)[0]


def line(**changes: Any) -> OutboxEntry:
    return outbox_entries(hot_gpu(**changes), [FILE], T0, T0)[0]


# ── entries ───────────────────────────────────────────────────────────────────────────────────────────


def test_every_sink_gets_its_own_entries() -> None:
    sinks = [SinkRef("am-a", "alertmanager"), SinkRef("am-b", "alertmanager"), FILE, SinkRef("hook", "webhook")]
    entries = outbox_entries(hot_gpu(previous_severity=Severity.WARNING), sinks, T0, T0 + MINUTE)
    assert [entry.sink for entry in entries] == ["am-a", "am-a", "am-b", "am-b", "file", "hook"]
    assert [entry.resolved_at for entry in entries[:2]] == [None, T0 + MINUTE]
    assert {entry.key for entry in entries[:2]} == {entry.key for entry in entries[2:4]}


def test_a_note_goes_to_the_file_and_not_to_alertmanager() -> None:
    entries = outbox_entries(hot_gpu(severity=Severity.INFO), [AM, FILE], T0, T0)
    assert [entry.sink for entry in entries] == ["file"]
    assert outbox_entries(hot_gpu(phase=Phase.PENDING), [AM, FILE], T0, T0) == []


def test_the_same_change_replayed_has_the_same_key_and_another_change_another() -> None:
    first = line()
    assert line() == first
    assert line(cause="power").key != first.key
    assert event_key("x", "\ud800").isascii()
    assert incident_from_json(json.loads(json_line(hot_gpu()))) == hot_gpu()


def test_a_sink_s_name_holds_no_password() -> None:
    assert sink_name("alertmanager", "http://user:secret@am:9093/x") == "alertmanager:http://am:9093/x"
    hook = sink_name("webhook", "https://chat.example/services/T0/token?key=abc")
    assert hook.startswith("webhook:https://chat.example#")
    assert "token" not in hook
    assert hook != sink_name("webhook", "https://chat.example/services/T1/token?key=abc")
    assert SinkRef.of("jsonl", "var/incidents.jsonl").name == "jsonl:var/incidents.jsonl"


# ── HTTP ──────────────────────────────────────────────────────────────────────────────────────────────


def test_alerts_go_to_api_v2_under_the_path_prefix_as_a_json_array(session: requests.Session) -> None:
    with Receiver() as receiver:
        AlertmanagerSink(f"{receiver.url}/am/", session).send([alert(cluster="größe")], T0 + MINUTE)
    path, headers, body = receiver.requests[0]
    assert path == "/am/api/v2/alerts"
    assert headers["Content-Type"] == "application/json"
    (sent,) = json.loads(body)
    assert sent["labels"]["cluster"] == "größe"
    assert sent["endsAt"] == "2026-11-30T10:05:00Z"


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_any_2xx_is_a_delivery(session: requests.Session, status: int) -> None:
    with Receiver(lambda path, body: status) as receiver:
        AlertmanagerSink(receiver.url, session).send([alert()], T0)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_payload_is_refused_for_good(session: requests.Session, status: int) -> None:
    with Receiver(lambda path, body: status) as receiver, pytest.raises(DeliveryRejected, match=str(status)):
        AlertmanagerSink(receiver.url, session).send([alert()], T0)


@pytest.mark.parametrize("status", [401, 403, 404, 405, 429, 500, 502, 503])
def test_wrong_credentials_or_addresses_and_bad_weather_make_no_dead_letters(
    session: requests.Session, status: int
) -> None:
    with Receiver(lambda path, body: status) as receiver, pytest.raises(DeliveryUnavailable, match=str(status)):
        AlertmanagerSink(receiver.url, session).send([alert()], T0)


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_turns_the_post_into_a_get_is_no_delivery(session: requests.Session, status: int) -> None:
    with (
        Receiver() as login,
        Receiver(lambda path, body: (status, {"Location": f"{login.url}/login"})) as receiver,
        pytest.raises(DeliveryUnavailable, match="redirects to"),
    ):
        AlertmanagerSink(receiver.url, session).send([alert()], T0)


def test_a_redirect_that_keeps_the_post_is_followed(session: requests.Session) -> None:
    with Receiver() as moved, Receiver(lambda path, body: (307, {"Location": f"{moved.url}{path}"})) as receiver:
        AlertmanagerSink(receiver.url, session).send([alert()], T0)
    assert len(moved.requests) == 1


def test_silence_and_refusal_to_connect_are_unavailable_and_named_without_the_password(
    session: requests.Session,
) -> None:
    with Receiver(delay_seconds=0.5) as receiver, pytest.raises(DeliveryUnavailable, match="did not answer in time"):
        AlertmanagerSink(receiver.url, session, timeout=0.1).send([alert()], T0)
    with pytest.raises(DeliveryUnavailable, match=r"cannot be reached: .*refused") as caught:
        AlertmanagerSink(f"http://user:secret@127.0.0.1:{free_port()}", session).send([alert()], T0)
    assert "secret" not in str(caught.value)


def test_a_webhook_gets_each_incident_with_its_idempotency_key(session: requests.Session) -> None:
    entries = [line(), line(cause="power")]
    with Receiver() as receiver:
        WebhookSink(lambda: f"{receiver.url}/hook", session).send(entries, T0)
    assert [headers["Idempotency-Key"] for _, headers, _ in receiver.requests] == [entry.key for entry in entries]
    assert json.loads(receiver.requests[1][2])["cause"] == "power"


def test_a_webhook_s_token_shows_in_no_error(session: requests.Session) -> None:
    for status in (404, 400):
        with Receiver(lambda path, body, status=status: status) as receiver:  # type: ignore[misc]
            with pytest.raises(DeliveryError) as caught:
                WebhookSink(lambda: f"{receiver.url}/services/token", session).send([line()], T0)
            assert "token" not in str(caught.value)


# ── the file ──────────────────────────────────────────────────────────────────────────────────────────


def test_lines_are_appended_once_each(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "new" / "incidents.jsonl")
    sink.send([line(), line(cause="power")], T0)
    sink.send([line(cause="power"), line(cause="config")], T0)
    read = [json.loads(text) for text in sink.path.read_text().splitlines()]
    assert [incident["cause"] for incident in read] == ["thermal", "power", "config"]


def test_a_torn_last_line_is_written_again_whole(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    whole = f"{line().body}\n{line(cause='power').body}".encode()
    path.write_bytes(whole[:-20])
    JsonLinesSink(path).send([line(cause="power")], T0)
    assert path.read_bytes() == whole + b"\n"


def test_a_last_line_that_only_lacks_its_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    path.write_text(line().body, encoding="utf-8")
    JsonLinesSink(path).send([line(), line(cause="power")], T0)
    assert [json.loads(text)["cause"] for text in path.read_text().splitlines()] == ["thermal", "power"]


def test_a_foreign_endless_line_is_closed_rather_than_cut(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    path.write_bytes(b"x" * (1 << 21))
    JsonLinesSink(path).send([line()], T0)
    first, second = path.read_bytes().splitlines()
    assert len(first) == 1 << 21
    assert json.loads(second)["id"] == "3f9c2a7d10b4"


def test_duplicates_are_found_at_the_end_of_a_long_file(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "incidents.jsonl")
    sink.path.write_text("".join(f"{json.dumps({'n': i, 'pad': 'x' * 1000})}\n" for i in range(3000)))
    sink.send([line()], T0)
    sink.send([line()], T0)
    assert sink.path.read_text().count("3f9c2a7d10b4") == sink.path.read_text().splitlines()[-1].count("3f9c2a7d10b4")


def test_a_path_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(DeliveryUnavailable, match="cannot append to"):
        JsonLinesSink(tmp_path).send([line()], T0)


_APPENDER = """
import sys
from pathlib import Path
from anomaly.deliver.sinks import JsonLinesSink
from anomaly.records import OutboxEntry
sink, n = JsonLinesSink(Path(sys.argv[1])), 0
print("ready", flush=True)
while True:
    n += 1
    body = '{"n":%d,"pad":"%s"}' % (n, "x" * 20000)
    sink.send([OutboxEntry(n, "file", str(n), "i", body, 0, None)], 0)
"""


def test_after_kill_9_every_line_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    for _ in range(3):
        path.unlink(missing_ok=True)
        child = subprocess.Popen([sys.executable, "-c", _APPENDER, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        with child.stdout:
            child.stdout.readline()
            time.sleep(0.05)
            os.kill(child.pid, signal.SIGKILL)
            child.wait(timeout=10)
        JsonLinesSink(path).send([line()], T0)
        numbers = [json.loads(text).get("n") for text in path.read_text().splitlines()]
        assert numbers == [*range(1, len(numbers)), None]


# ── timing ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lease_shorter_than_four_resends_is_refused() -> None:
    with pytest.raises(ConfigError, match="shorter than four resends"):
        FeedPolicy(resend=MINUTE, lease=4 * MINUTE - 1)
    for bad in ({"backoff_start": 0}, {"skew_margin": -1}, {"batch": 0}):
        with pytest.raises(ConfigError):
            FeedPolicy(**bad)


@pytest.mark.parametrize("factor", [0.00001, 0.01, 1.0, 3.3])
def test_scaled_time_keeps_the_lease_law(factor: float) -> None:
    policy = FeedPolicy().scaled(factor)
    assert policy.lease >= 4 * policy.resend > 0


def test_back_off_doubles_up_to_its_cap_and_jitter_only_shortens_it() -> None:
    policy = FeedPolicy()
    assert [policy.wait(n, 0.0) for n in (1, 2, 3, 4, 5, 99)] == [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]
    assert policy.wait(1, 1.0) == 2_500


def test_an_ended_group_resolves(session: requests.Session) -> None:
    (entry,) = outbox_entries(ended(slow_leaf(), T0 + 9 * MINUTE), [AM], T0 + 6 * MINUTE, T0 + 10 * MINUTE)
    with Receiver() as receiver:
        AlertmanagerSink(receiver.url, session).send([entry], T0 + 10 * MINUTE)
    assert receiver.alerts()[0][0]["endsAt"] == "2026-11-30T10:08:30Z"
