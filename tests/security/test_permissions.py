"""What a run leaves belongs to its user alone, whatever the umask and whoever made the directory."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.parts import SIMULATED, anomaly, write

UNTIL = ("--from", "2026-06-01T08:00:00Z", "--to", "2026-06-01T08:30:00Z")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(folder: Path) -> dict[str, str]:
    return {str(path): oct(mode(path)) for path in sorted(folder.rglob("*")) if mode(path) & 0o077}


def test_everything_below_the_state_directory_is_private(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        pipeline = write(tmp_path, SIMULATED.replace("incidents.jsonl", "var/incidents.jsonl"))
        assert anomaly("collect", pipeline, *UNTIL).exit_code == 0
        assert anomaly("score", pipeline, *UNTIL).exit_code == 0
        assert os.umask(0o000) == 0o000, "the umask is given back"
    finally:
        os.umask(before)
    assert Path("var/anomaly.duckdb").is_file() and any(Path("var/published").rglob("*.parquet"))
    assert mode(Path("var")) == 0o700
    assert open_to_others(Path("var")) == {}


KILLED = """
import os, signal, sys
from anomaly.cli.main import main
from anomaly.store.store import Store
commit = Store.commit_chunk
def and_die(store, chunk):
    commit(store, chunk)
    os.kill(os.getpid(), signal.SIGKILL)
Store.commit_chunk = and_die
os.umask(0)
main()
"""


def test_a_write_ahead_log_is_private_in_a_directory_that_was_there_before(tmp_path: Path) -> None:
    Path("var").mkdir(mode=0o755)
    pipeline = write(tmp_path, SIMULATED)
    words = [sys.executable, "-c", KILLED, "collect", str(pipeline), *UNTIL]
    assert subprocess.run(words, check=False, capture_output=True).returncode == -9
    assert Path("var/anomaly.duckdb.wal").is_file(), "nothing was left to look at"
    assert open_to_others(Path("var")) == {}
    assert mode(Path("var")) == 0o755, "a directory that somebody else made keeps its mode"


def test_a_file_that_was_asked_for_by_name_has_the_users_own_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        pipeline = write(tmp_path, SIMULATED)
        assert anomaly("backtest", pipeline, *UNTIL, "--incidents", "out.jsonl").exit_code == 0
    finally:
        os.umask(before)
    assert mode(Path("out.jsonl")) == 0o640


def test_starter_files_are_private_for_they_will_hold_credentials() -> None:
    anomaly("init", "mine")
    assert open_to_others(Path("mine")) == {}
