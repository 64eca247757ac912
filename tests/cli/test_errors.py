"""Every failure is one paragraph with the next step, the documented exit code, and never a traceback."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from anomaly.cli import failures
from anomaly.errors import SourceUnavailable
from tests.cli.parts import FROM_PROMETHEUS, SIMULATED, anomaly, paragraph, write
from tests.config.test_bad_files import FILES as BAD_FILES
from tests.source.loopback import Reply, backend

HTML = Reply(body=b"<!DOCTYPE html><html><title>Sign in</title></html>", headers={"Content-Type": "text/html"})
EMPTY = Reply(body=b'{"status":"success","data":{"resultType":"matrix","result":[]}}')
HALF_AN_HOUR = ("--from", "2026-06-01T08:00:00Z", "--to", "2026-06-01T08:30:00Z")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@contextmanager
def held(database: Path) -> Iterator[int]:
    """Another process has the database open."""
    script = "import sys, duckdb; held = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout and other.stdout.readline() == "open\n"
        yield other.pid
    finally:
        other.communicate("")


# ── usage: 2 ──


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    result = anomaly("colect")
    assert (result.exit_code, paragraph(result)) == (
        2,
        "anomaly: there is no command 'colect'; did you mean 'collect'?",
    )
    assert paragraph(anomaly("zzz")).startswith("anomaly: there is no command 'zzz'; there are init, check, run")


def test_an_unknown_option_is_answered_with_the_nearest() -> None:
    result = anomaly("backtest", "--truht", "t.json")
    assert (result.exit_code, paragraph(result)) == (2, "anomaly: no such option '--truht'; did you mean '--truth'?")


def test_a_missing_argument_names_the_help_page() -> None:
    result = anomaly("collect")
    assert (result.exit_code, paragraph(result)) == (
        2,
        "anomaly: missing argument 'PIPELINE'; `anomaly collect --help` tells more",
    )


@pytest.mark.parametrize("command", ["collect", "score", "backtest"])
def test_an_empty_range_is_refused_before_anything_is_done(command: str, tmp_path: Path) -> None:
    pipeline = write(tmp_path, SIMULATED)
    result = anomaly(command, pipeline, "--from", "2026-06-01T08:00:00Z", "--to", "2026-06-01T08:00:00Z")
    assert result.exit_code == 2
    assert paragraph(result).endswith("is empty; give a --to later than --from")
    assert not Path("var").exists()


def test_a_range_shorter_than_a_step_is_empty_too(tmp_path: Path) -> None:
    pipeline = write(tmp_path, SIMULATED)
    result = anomaly("backtest", pipeline, "--from", "2026-06-01T08:00:01Z", "--to", "2026-06-01T08:00:02Z")
    assert (result.exit_code, "holds no step" in paragraph(result)) == (2, True)


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("1780300800000", "1780304400000", "'1780300800000' is no time in Unix seconds; milliseconds have"),
        ("0", "1780300800", "the range from 1970-01-01T00:00:00Z to 2026-06-01T08:00:00Z is longer than ten years"),
        ("9999-12-31T23:59:59-12:00", "2026-06-01", "--from"),
    ],
)
def test_a_range_that_nobody_can_mean_is_refused(start: str, end: str, said: str, tmp_path: Path) -> None:
    result = anomaly("backtest", write(tmp_path, SIMULATED), "--from", start, "--to", end)
    assert (result.exit_code, said in paragraph(result)) == (2, True), result.stderr


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    result = anomaly("collect", write(tmp_path, SIMULATED), "--from", "yesterday")
    assert result.exit_code == 2
    assert "'yesterday' is not a time; write one like" in paragraph(result)


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    pipeline = write(tmp_path, SIMULATED)
    result = anomaly("backtest", pipeline, *HALF_AN_HOUR, "--incidents", tmp_path / "absent" / "out.jsonl")
    assert (result.exit_code, "cannot be written; give a file in a directory" in paragraph(result)) == (2, True)


def test_scoring_before_collecting_says_what_comes_first(tmp_path: Path) -> None:
    for more in ([], ["--dry-run"]):
        result = anomaly("score", write(tmp_path, SIMULATED), *more)
        assert result.exit_code == 2
        assert paragraph(result).endswith("run `anomaly collect` on it first")


# ── configuration: 3 ──


@pytest.mark.parametrize("command", ["check", "collect", "score", "run"])
def test_a_missing_pipeline_file(command: str) -> None:
    result = anomaly(command, "absent.yaml")
    assert (result.exit_code, paragraph(result)) == (
        3,
        "anomaly: absent.yaml: cannot be read: No such file or directory; give the path of a readable YAML file",
    )


def test_a_bad_pipeline_file_names_every_mistake_with_its_line(tmp_path: Path) -> None:
    pipeline = write(tmp_path, "cluster: c\npacks: [nodes]\nprometheus: {url: 'http://127.0.0.1:9', stepp: 15s}\n")
    result = anomaly("check", pipeline)
    assert result.exit_code == 3
    said = paragraph(result)
    assert f"{pipeline}:2: packs[0]: no signal pack has this name; did you mean node?" in said
    assert f"{pipeline}:3: prometheus.stepp: unknown key; did you mean step?" in said


@pytest.mark.parametrize("path", BAD_FILES, ids=lambda path: path.stem)
def test_every_bad_file_comes_out_in_its_own_words(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    result = anomaly("check", path.name)
    assert result.exit_code == 3
    assert f"{paragraph(result)}\n" == f"anomaly: {path.with_suffix('.txt').read_text(encoding='utf-8')}"


def test_yaml_that_is_none(tmp_path: Path) -> None:
    result = anomaly("collect", write(tmp_path, "cluster: [c\npacks"))
    assert (result.exit_code, "correct the file and try again" in paragraph(result)) == (3, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "cannot be read: No such file or directory"), ("{", "is not JSON"), ('{"faults": 1}', "must be a list")],
)
def test_a_truth_that_cannot_be_used_is_refused_before_the_work(text: str | None, said: str, tmp_path: Path) -> None:
    pipeline = write(tmp_path, SIMULATED)
    truth = tmp_path / "truth.json" if text is None else write(tmp_path, text, "truth.json")
    result = anomaly("backtest", pipeline, *HALF_AN_HOUR, "--truth", truth)
    assert (result.exit_code, said in paragraph(result)) == (3, True)


# ── upstream: 4 ──


def served(tmp_path: Path, reply: Reply, *words: str) -> tuple[int, str]:
    with backend(reply) as prometheus:
        pipeline = write(tmp_path, FROM_PROMETHEUS.replace("URL", prometheus.url))
        result = anomaly(words[0], pipeline, *words[1:])
        return result.exit_code, paragraph(result).replace(prometheus.url, "URL")


COMMANDS = [("collect",), ("backtest", *HALF_AN_HOUR), ("check", "--against")]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_page_instead_of_an_answer(words: tuple[str, ...], tmp_path: Path) -> None:
    code, said = served(tmp_path, HTML, *words)
    assert code == 4
    assert "is not JSON of the Prometheus API" in said and "; check that the URL is that of Prometheus itself" in said


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_an_address_that_is_another_service(words: tuple[str, ...], tmp_path: Path) -> None:
    code, said = served(tmp_path, Reply(404, b"404 page not found\n"), *words)
    assert code == 4
    assert "answered 404: 404 page not found; check the URL's path" in said


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_credentials_that_are_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    code, said = served(tmp_path, Reply(401, b"Unauthorized\n"), *words)
    assert (code, "check http_config: basic_auth or authorization" in said) == (4, True)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_an_empty_prometheus(words: tuple[str, ...], tmp_path: Path) -> None:
    code, said = served(tmp_path, EMPTY, *words)
    assert code == 4
    assert said.startswith("anomaly: URL answers, but holds none of the 1 signals of this pipeline")
    assert "check the URL, the range and `packs`" in said


def test_nobody_listens(tmp_path: Path) -> None:
    pipeline = write(tmp_path, FROM_PROMETHEUS.replace("URL", "http://127.0.0.1:9"))
    result = anomaly("collect", pipeline)
    assert result.exit_code == 4
    assert paragraph(result).endswith(
        "cannot be reached (connection refused); check that it runs and that the URL is right"
    )


# ── failed: 1 ──


@pytest.mark.parametrize("command", ["collect", "score", "run"])
def test_a_locked_store_names_the_process_that_holds_it(command: str, tmp_path: Path) -> None:
    pipeline = write(tmp_path, SIMULATED)
    assert anomaly("collect", pipeline, *HALF_AN_HOUR).exit_code == 0
    with held(Path("var/anomaly.duckdb")) as pid:
        result = anomaly(command, pipeline)
    assert result.exit_code == 1
    assert f"is in use by process {pid}" in paragraph(result)


def test_nothing_published_says_how_to_get_there() -> None:
    result = anomaly("incidents", "--state", "somewhere")
    assert (result.exit_code, paragraph(result)) == (
        1,
        "anomaly: nothing is published under somewhere/published; start the service (`anomaly run`) "
        "or name its state directory with --state",
    )


def test_a_foreign_database_file(tmp_path: Path) -> None:
    Path("var").mkdir()
    Path("var/anomaly.duckdb").write_bytes(bytes(range(256)) * 80)
    result = anomaly("collect", write(tmp_path, SIMULATED), *HALF_AN_HOUR)
    assert result.exit_code == 1
    assert paragraph(result).endswith("move it aside and start again: samples are pulled from Prometheus again")


# ── the seam itself ──


def fail(error: BaseException) -> Callable[[], Any]:
    def call() -> Any:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (SourceUnavailable("no answer", "wait"), 4, "anomaly: no answer; wait\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 1, "/x: no space left on device; make room"),
        (MemoryError(), 1, "not enough memory"),
        (ZeroDivisionError("division\nby zero"), 1, "ZeroDivisionError (division by zero): this is a bug"),
        (click.FileError("f", "odd"), 1, "anomaly: Could not open file 'f': odd"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
    ],
)
def test_whatever_is_raised_becomes_a_paragraph_and_a_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failures.exit_code_of(fail(error), lambda: False) == code
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown


def test_a_bug_shows_its_traceback_to_who_asks_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    failures.exit_code_of(fail(ZeroDivisionError()), lambda: True)
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("how", [{"ANOMALY_DEBUG": "1"}, {}])
def test_debugging_is_asked_for_by_option_or_environment(how: dict[str, str]) -> None:
    words = ["collect", "absent.yaml"] if how else ["--debug", "collect", "absent.yaml"]
    assert "Traceback" in anomaly(*words, env=how).stderr
    assert "Traceback" not in anomaly("collect", "absent.yaml").stderr


@pytest.mark.parametrize(("returned", "code"), [(0, 0), (3, 3), (None, 0), (True, 0)])
def test_a_number_that_a_command_returns_is_its_exit_code(returned: object, code: int) -> None:
    assert failures.exit_code_of(lambda: returned, lambda: False) == code


def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path: Path) -> None:
    script = "from anomaly.cli.main import main; main(['check', 'pipeline.yaml'])"
    write(tmp_path, SIMULATED)
    read, written = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=written, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(written)
    assert done.returncode == 0
    assert "Broken pipe" not in done.stderr and "Traceback" not in done.stderr


def test_ctrl_c_ends_quietly_with_130(tmp_path: Path) -> None:
    write(tmp_path, SIMULATED.replace("nodes: 8", "nodes: 400"))
    script = "from anomaly.cli.main import main; main()"
    words = ["backtest", "pipeline.yaml", "--from", "2026-06-01T12:00:00Z", "--to", "2026-06-02T12:00:00Z"]
    child = subprocess.Popen([sys.executable, "-c", script, *words], stderr=subprocess.PIPE, text=True)
    time.sleep(2.5)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert (child.returncode, "Traceback" in said) == (130, False)
