"""What goes wrong outside, as a user sees it: real processes; the whole text of each error is held in a golden file."""

import contextlib
import os
import re
import resource
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.parts import FROM_PROMETHEUS, ON_THE_WAY, SIMULATED, golden, write
from tests.cli.test_errors import EMPTY, HTML, held
from tests.config.test_bad_files import BAD
from tests.config.test_http import self_signed, server_context
from tests.source.loopback import Reply, backend

HALF_AN_HOUR = ("--from", "2026-06-01T08:00:00Z", "--to", "2026-06-01T08:30:00Z")
PROGRAM = "from anomaly.cli.main import main; main()"


# Root without the right to write everywhere, as any other user is.
ORDINARY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


def failed(folder: Path, *words: str | Path, limit_bytes: int | None = None) -> tuple[int, str]:
    """Exit code and the one paragraph of a command that fails, in a process of its own."""

    def limited() -> None:
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    done = subprocess.run(
        [*ORDINARY, sys.executable, "-c", PROGRAM, *map(str, words)],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "ANOMALY_DEBUG"},
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == ""
    assert "Traceback" not in done.stderr, done.stderr
    said = [line for line in done.stderr.splitlines() if not ON_THE_WAY.match(line)]
    assert said and said[0].startswith("anomaly: "), done.stderr
    return done.returncode, "\n".join(said) + "\n"


def as_recorded(name: str, code: int, said: str, *gone: tuple[str, str]) -> None:
    for what, instead in (*gone, ("127.0.0.1:9/", "127.0.0.1:PORT/")):
        said = said.replace(what, instead)
    said = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", said)
    said = re.sub(r"process \d+( \([^)]*\))?", "process PID", said)
    golden(f"errors/{name}.txt", f"exit code {code}\n{said}")
    assert "; " in said or "\ncorrect the file and try again" in said, "there is no next step"


REPLIES = {
    "wrong-url": Reply(404, b"404 page not found\n", {"Content-Type": "text/plain"}),
    "401": Reply(401, b"Unauthorized\n", {"Content-Type": "text/plain"}),
    "403": Reply(403, b'{"status":"error","errorType":"forbidden","error":"tenant may not query"}'),
    "html": HTML,
    "truncated-body": Reply(cut=60),
    "truncated-json": Reply(body=Reply().body[:60]),
    "self-signed": Reply(),
    "empty-prometheus": EMPTY,
}


@contextlib.contextmanager
def prometheus(name: str, folder: Path) -> Iterator[str]:
    if name == "refused":
        yield "http://127.0.0.1:9"
        return
    tls: ssl.SSLContext | None = server_context(*self_signed(folder)) if name == "self-signed" else None
    with backend(REPLIES[name], tls=tls) as server:
        yield server.url


@pytest.mark.parametrize("name", ["refused", *REPLIES])
def test_upstream(name: str, tmp_path: Path) -> None:
    with prometheus(name, tmp_path) as url:
        code, said = failed(tmp_path, "collect", write(tmp_path, FROM_PROMETHEUS.replace("URL", url)))
    assert code == 4
    as_recorded(name, code, said)


def collected(folder: Path) -> Path:
    pipeline = write(folder, SIMULATED)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "collect", str(pipeline), *HALF_AN_HOUR], cwd=folder, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return pipeline


def a_file_where_a_directory_is_expected(folder: Path) -> None:
    (folder / "var").write_text("")


def a_directory_where_the_file_is_expected(folder: Path) -> None:
    (folder / "var/anomaly.duckdb").mkdir(parents=True)


def a_directory_that_may_not_be_written(folder: Path) -> None:
    (folder / "var").mkdir(mode=0o555)


def a_database_that_may_not_be_read(folder: Path) -> None:
    collected(folder)
    (folder / "var/anomaly.duckdb").chmod(0)


@pytest.mark.parametrize(
    ("name", "prepare"),
    [
        ("unwritable-store", a_directory_that_may_not_be_written),
        ("unreadable-store", a_database_that_may_not_be_read),
        ("file-in-the-way", a_file_where_a_directory_is_expected),
        ("directory-in-the-way", a_directory_where_the_file_is_expected),
    ],
)
def test_a_store_that_cannot_be_used(name: str, prepare: Callable[[Path], None], tmp_path: Path) -> None:
    prepare(tmp_path)
    code, said = failed(tmp_path, "collect", write(tmp_path, SIMULATED), *HALF_AN_HOUR)
    assert code == 1
    as_recorded(name, code, said.replace(f"{tmp_path}/", ""))


def test_published_files_that_cannot_be_written(tmp_path: Path) -> None:
    pipeline = collected(tmp_path)
    (tmp_path / "var/published").mkdir(mode=0o555)
    code, said = failed(tmp_path, "score", pipeline, *HALF_AN_HOUR)
    assert code == 1
    as_recorded("unwritable-published", code, re.sub(r"/\.\S+\.aside", "/FILE", said))


def test_starter_files_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o555)
    code, said = failed(tmp_path, "init", "mine")
    assert code == 1
    as_recorded("unwritable-directory", code, said)


@pytest.mark.parametrize("how", ["missing", "unreadable", "directory", "mistaken"])
def test_a_pipeline_file_that_cannot_be_used(how: str, tmp_path: Path) -> None:
    pipeline = tmp_path / "pipeline.yaml"
    if how == "directory":
        pipeline.mkdir()
    elif how != "missing":
        write(tmp_path, (BAD / "many-mistakes.yaml").read_text(encoding="utf-8"))
    if how == "unreadable":
        pipeline.chmod(0)
    code, said = failed(tmp_path, "run", "pipeline.yaml")
    assert code == 3
    as_recorded(f"pipeline-{how}", code, said)


def test_a_full_disk(tmp_path: Path) -> None:
    """Files that may not grow fail as a full disk does: in the middle of a write."""
    code, said = failed(tmp_path, "collect", write(tmp_path, SIMULATED), *HALF_AN_HOUR, limit_bytes=50_000)
    assert code == 1
    said = re.sub(r"cannot be written: .*; free", "cannot be written: REASON; free", said, flags=re.DOTALL)
    as_recorded("full-disk", code, said)


def test_a_locked_store(tmp_path: Path) -> None:
    pipeline = collected(tmp_path)
    with held(tmp_path / "var/anomaly.duckdb") as pid:
        code, said = failed(tmp_path, "score", pipeline)
    assert (code, f"process {pid}" in said) == (1, True)
    as_recorded("locked-store", code, said)


def test_a_foreign_file(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "var/anomaly.duckdb").write_bytes(b"this is a diary, not a database\n" * 500)
    code, said = failed(tmp_path, "collect", write(tmp_path, SIMULATED), *HALF_AN_HOUR)
    assert code == 1
    said = re.sub(r"damaged \(.*\)", "damaged (REASON)", said, flags=re.DOTALL)
    as_recorded("foreign-file", code, said)


@pytest.mark.slow
def test_a_truncated_database_and_the_way_back(tmp_path: Path) -> None:
    """As the error says: move it aside, start again; the same comes from Prometheus again."""
    pipeline = collected(tmp_path)
    run = [sys.executable, "-c", PROGRAM]
    assert subprocess.run([*run, "score", pipeline, *HALF_AN_HOUR], cwd=tmp_path, capture_output=True).returncode == 0
    listed = [*run, "incidents", "--format", "json"]
    before = subprocess.run(listed, cwd=tmp_path, capture_output=True, text=True).stdout

    database = tmp_path / "var/anomaly.duckdb"
    whole = database.read_bytes()
    database.write_bytes(whole[: len(whole) // 3])
    code, said = failed(tmp_path, "score", pipeline, *HALF_AN_HOUR)
    assert code == 1
    said = re.sub(r"damaged \(.*\)", "damaged (REASON)", said, flags=re.DOTALL)
    as_recorded("truncated-database", code, said)

    database.rename(tmp_path / "aside.duckdb")
    for command in ("collect", "score"):
        done = subprocess.run([*run, command, pipeline, *HALF_AN_HOUR], cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, done.stderr
    assert subprocess.run(listed, cwd=tmp_path, capture_output=True, text=True).stdout == before
