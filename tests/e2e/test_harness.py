"""The harness itself: what it starts answers, and nothing of it survives."""

import sys
import time
from pathlib import Path

import pytest
import requests

from tests.e2e import harness

HALF_PAST = 1_700_001_000

THREE_SAMPLES = f"""\
# TYPE room_celsius gauge
room_celsius{{room="a"}} 20 {HALF_PAST}
room_celsius{{room="a"}} 21 {HALF_PAST + 15}
room_celsius{{room="a"}} 22 {HALF_PAST + 30}
# EOF
"""


def gone(pid: int) -> bool:
    """Ended; whether anybody collected its exit code does not matter (in a container an orphan's may stay for ever)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_backfilled_samples_come_back_and_the_series_ends_thirty_seconds_later(tmp_path: Path) -> None:
    file = tmp_path / "three.om"
    file.write_text(THREE_SAMPLES)
    harness.backfill([file], tmp_path / "data")
    with harness.prometheus(tmp_path / "data") as url:
        [series] = harness.instant_query(url, "room_celsius[1m]", HALF_PAST + 30)
        assert series["values"] == [[HALF_PAST, "20"], [HALF_PAST + 15, "21"], [HALF_PAST + 30, "22"]]
        assert harness.instant_query(url, "room_celsius", HALF_PAST + 58)
        assert not harness.instant_query(url, "room_celsius", HALF_PAST + 62)
    with pytest.raises(requests.ConnectionError):
        harness.get(url)


def test_a_refused_backfill_says_why(tmp_path: Path) -> None:
    file = tmp_path / "cut.om"
    file.write_text(THREE_SAMPLES.removesuffix("# EOF\n"))
    with pytest.raises(AssertionError, match=r"promtool refused .*cut\.om"):
        harness.backfill([file], tmp_path / "data")


def test_prometheus_serves_under_a_path_prefix(tmp_path: Path) -> None:
    with harness.prometheus(tmp_path / "data", flags=["--web.route-prefix=/prom"]) as url:
        assert url.endswith("/prom")
        assert harness.instant_query(url, "vector(1)", HALF_PAST)


def test_a_failing_test_ends_prometheus_and_shows_its_log(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as failure, harness.prometheus(tmp_path / "data") as url:
        _ = 1 / 0
    assert any("Listening on" in note for note in failure.value.__notes__)
    with pytest.raises(requests.ConnectionError):
        harness.get(url)


def test_a_server_that_cannot_start_fails_with_its_own_words(tmp_path: Path) -> None:
    started = harness.prometheus(tmp_path / "data", config="nonsense: {}\n")
    with pytest.raises(AssertionError, match="prometheus ended") as failure, started:
        pass
    assert any("nonsense" in note for note in failure.value.__notes__)


def test_alertmanager_takes_an_alert_and_is_empty_after_a_restart(tmp_path: Path) -> None:
    port = harness.free_port()
    with harness.alertmanager(tmp_path, port=port) as url:
        posted = requests.post(f"{url}/api/v2/alerts", json=[{"labels": {"alertname": "A"}}], timeout=5)
        assert posted.ok
        assert [alert["labels"] for alert in harness.firing_alerts(url)] == [{"alertname": "A"}]
    with harness.alertmanager(tmp_path, port=port) as again:
        assert again == url
        assert harness.firing_alerts(again) == []


def test_a_process_and_what_it_started_are_gone(tmp_path: Path) -> None:
    """Also after a SIGKILL, which gives the parent no chance to end its own."""
    script = "import subprocess, time\nprint(subprocess.Popen(['sleep', '600']).pid, flush=True)\ntime.sleep(600)\n"
    with harness.running([sys.executable, "-c", script], tmp_path, name="parent") as process:
        child = int(harness.wait_until(process.output, 10, "the child's process id"))
        assert not gone(child)
        assert process.kill() == -9
    assert gone(process.pid)
    harness.wait_until(lambda: gone(child), 5, "the child to be gone")


def test_nothing_outlives_a_test_run_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tests.e2e import harness\n"
        "with harness.running(['sleep', '600'], Path(sys.argv[1]), name='orphan') as process:\n"
        "    print(process.pid, flush=True); time.sleep(600)\n"
    )
    root = Path(__file__).parents[2]
    argv = [sys.executable, "-c", script, str(tmp_path)]
    with harness.running(argv, tmp_path, name="run", env={"PYTHONPATH": str(root)}) as run:
        orphan = int(harness.wait_until(run.output, 10, "the orphan's process id"))
        run.kill()
        harness.wait_until(lambda: gone(orphan), 5, "the orphan to be gone")


def test_waiting_returns_what_was_found_or_says_what_was_awaited() -> None:
    assert harness.wait_until(lambda: "found", 1, "something") == "found"
    started = time.monotonic()
    with pytest.raises(AssertionError, match=r"waited 0\.2 s in vain for snow; last seen: 0"):
        harness.wait_until(lambda: 0, 0.2, "snow")
    assert time.monotonic() - started < 2
