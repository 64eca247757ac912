"""`anomaly doctor`: one answer a question, a next step a problem; on real databases and loopback servers."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anomaly.clock import DAY, Ms, system_clock
from anomaly.jobs.status import StatusServer
from anomaly.store import TickRecord, drop, open_store
from anomaly.store.connect import open_session
from tests.cli.parts import anomaly, widest, write
from tests.source.loopback import Asked, Reply, backend
from tests.store.parts import entry

PIPELINE = """\
cluster: small
prometheus: {url: "PROMETHEUS", timeout: 5s}
packs: [node]
alertmanagers: [{url: "ALERTMANAGER"}]
store: {path: var/anomaly.duckdb}
web: {listen: "127.0.0.1:PORT"}
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """What a healthy service that has just stopped leaves behind."""
    return state_in(tmp_path / "var", system_clock())


def state_in(folder: Path, scored: Ms) -> Path:
    with open_store(folder / "anomaly.duckdb") as store:
        store.commit_tick(TickRecord(scored - scored % 60_000, ""))
        store.publish(folder / "published")
    return folder


def backends(asked: Asked) -> Reply:
    """A Prometheus and an Alertmanager at one address."""
    if asked.path.startswith("/api/v2/status"):
        return Reply(body=b'{"versionInfo": {"version": "0.25.0"}}')
    if "buildinfo" in asked.path:
        return Reply(body=b'{"status": "success", "data": {"version": "2.42.0"}}')
    now = time.time()
    return Reply(body=b'{"status":"success","data":{"resultType":"scalar","result":[%.3f,"%.3f"]}}' % (now, now))


def checked(*words: str | Path) -> dict[str, tuple[str, str, str]]:
    """Question → (verdict, what was said, next step)."""
    result = anomaly("doctor", *words, "--format", "json")
    body = json.loads(result.stdout)
    found = {each["check"]: (each["verdict"], each["said"], each["next_step"] or "") for each in body}
    assert len(found) == len(body)
    problems = [name for name, (verdict, _, _) in found.items() if verdict == "problem"]
    assert result.exit_code == (1 if problems else 0)
    assert all(step for verdict, _, step in found.values() if verdict == "problem")
    return found


def test_a_healthy_state_directory(state: Path) -> None:
    result = anomaly("doctor")
    assert result.exit_code == 0, result.stdout
    assert "nothing is wrong" in result.stderr
    assert widest(result.stdout) <= 100
    assert {line.split()[0] for line in result.stdout.splitlines()} == {"ok", "skipped"}


def test_a_healthy_pipeline_with_its_service(state: Path, tmp_path: Path) -> None:
    server = StatusServer("127.0.0.1", 0, lambda: None, lambda accept: (b"", "text/plain"))
    server.start()
    try:
        with backend(by=backends) as both:
            port = server.address.rpartition(":")[2]
            found = checked(pipeline(tmp_path, both.url, port))
    finally:
        server.close()
    assert {verdict for verdict, _, _ in found.values()} == {"ok"}
    assert "version 2.42.0" in found["Prometheus"][1]
    assert "version 0.25.0" in found["Alertmanager"][1]
    assert found["clock"][1] == "agrees with Prometheus'"
    assert found["service"][1].startswith("ready at http://127.0.0.1:")


def pipeline(folder: Path, url: str, port: str = "9") -> Path:
    text = PIPELINE.replace("PROMETHEUS", url).replace("ALERTMANAGER", url).replace("PORT", port)
    return write(folder, text)


def test_nobody_answers(state: Path, tmp_path: Path) -> None:
    found = checked(pipeline(tmp_path, "http://127.0.0.1:9"))
    assert found["Prometheus"][0] == found["Alertmanager"][0] == "problem"
    assert "cannot be reached (connection refused)" in found["Prometheus"][1]
    assert found["service"][0] == "skipped", "without a service nothing is wrong with the database"
    assert found["clock"][0] == "skipped"


def test_answers_of_somebody_else(state: Path, tmp_path: Path) -> None:
    with backend(Reply(200, b"<html>a portal</html>")) as portal:
        found = checked(pipeline(tmp_path, portal.url))
    assert found["Prometheus"][0] == found["Alertmanager"][0] == "problem"
    assert "does not answer as an Alertmanager does" in found["Alertmanager"][1]


def test_a_service_that_is_not_ready_says_why(state: Path, tmp_path: Path) -> None:
    server = StatusServer("127.0.0.1", 0, lambda: "nothing has been pulled yet", lambda accept: (b"", ""))
    server.start()
    try:
        with backend(by=backends) as both:
            found = checked(pipeline(tmp_path, both.url, server.address.rpartition(":")[2]))
    finally:
        server.close()
    verdict, said, _ = found["service"]
    assert (verdict, "503: not ready: nothing has been pulled yet" in said) == ("problem", True)


def test_a_clock_that_is_off(state: Path, tmp_path: Path) -> None:
    def late(asked: Asked) -> Reply:
        if "query" not in asked.path:
            return backends(asked)
        then = time.time() - 3700
        return Reply(body=b'{"status":"success","data":{"resultType":"scalar","result":[%.3f,"%.3f"]}}' % (then, then))

    with backend(by=late) as both:
        verdict, said, _ = checked(pipeline(tmp_path, both.url))["clock"]
    assert (verdict, said.startswith("1h1m apart from Prometheus'")) == ("problem", True)


def test_a_pipeline_file_with_mistakes_does_not_end_the_examination(state: Path, tmp_path: Path) -> None:
    found = checked(write(tmp_path, "cluster: small\npacks: [nodes]\nprometheus: {url: x}\n"))
    assert found["pipeline file"][0] == "problem" and "packs" in found["pipeline file"][1]
    assert found["state directory"][0] == "ok"


# ── the state directory ──


def test_a_state_directory_that_is_not_there(tmp_path: Path) -> None:
    found = checked("--state", tmp_path / "nowhere")
    assert {name for name, (verdict, _, _) in found.items() if verdict == "problem"} == {
        "state directory",
        "database",
        "published data",
    }


def test_what_others_may_read_or_write(state: Path) -> None:
    state.chmod(0o777)
    (state / "anomaly.duckdb").chmod(0o644)
    found = checked("--state", state)
    assert found["state directory"][2] == f"chmod 700 {state}"
    assert found["permissions"][2] == f"chmod 600 {state / 'anomaly.duckdb'}"


def test_published_data_that_is_old(tmp_path: Path) -> None:
    found = checked("--state", state_in(tmp_path / "var", system_clock() - DAY))
    assert (found["published data"][0], "1d ago" in found["published data"][1]) == ("problem", True)


def test_published_data_from_the_future(tmp_path: Path) -> None:
    found = checked("--state", state_in(tmp_path / "var", system_clock() + DAY))
    assert (found["clock"][0], "set this machine's clock" in found["clock"][2]) == ("problem", True)


def test_notes_that_nobody_takes_in_and_notes_that_nobody_can_read(state: Path) -> None:
    left = drop(state / "inbox", "mark", {}, 1)
    assert checked("--state", state)["inbox"][0] == "ok"
    os.utime(left, (time.time() - 3600,) * 2)
    assert "nobody takes them in" in checked("--state", state)["inbox"][2]
    left.rename(left.with_name(left.name + ".bad"))
    assert checked("--state", state)["inbox"][0] == "problem"


def test_what_a_receiver_refused_for_good(state: Path) -> None:
    with open_store(state / "anomaly.duckdb") as store:
        store.enqueue([entry("alertmanager:x"), entry("alertmanager:x", "k2")])
        store.mark_failed([1], 5, None, "answered 400: bad label")
    verdict, said, _ = checked("--state", state)["outbox"]
    assert (verdict, said) == (
        "problem",
        "alertmanager:x: 1 refused for good, the last with: answered 400: bad label",
    )


def test_what_waits_to_be_sent(state: Path) -> None:
    with open_store(state / "anomaly.duckdb") as store:
        store.enqueue([entry("am")])
    assert checked("--state", state)["outbox"][:2] == ("ok", "1 entries wait to be sent, am: 1")


def test_a_file_that_is_no_database(state: Path) -> None:
    (state / "anomaly.duckdb").write_bytes(b"not a database" * 1000)
    verdict, said, step = checked("--state", state)["database"]
    assert (verdict, "not an anomaly database" in said, "move it aside" in step) == ("problem", True, True)


def test_a_database_of_a_newer_program(state: Path) -> None:
    session = open_session(state / "anomaly.duckdb")
    session.run("INSERT INTO schema_version VALUES (99)")
    session.close()
    assert "schema version 99" in checked("--state", state)["database"][1]


@pytest.fixture
def owner(state: Path) -> Iterator[int]:
    """Another process that has the database open; its id."""
    script = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, state / "anomaly.duckdb"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"open\n"
        yield process.pid
        process.kill()


def test_a_database_in_use_is_fine_and_its_owner_is_named(state: Path, owner: int) -> None:
    found = checked("--state", state)
    assert found["database"][0] == "ok"
    assert f"process {owner}" in found["database"][1]
    assert found["outbox"][0] == "skipped"


def test_a_database_in_use_by_somebody_who_does_not_answer(state: Path, owner: int, tmp_path: Path) -> None:
    with backend(by=backends) as both:
        verdict, said, _ = checked(pipeline(tmp_path, both.url))["service"]
    assert (verdict, said.startswith("somebody has the database, but")) == ("problem", True)
