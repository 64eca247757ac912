"""Real servers and real `anomaly` processes for tests: started on loopback, ended whatever happens.

Each helper is a context manager that ends what it started by its process id and process group, also when the test
fails or the test run itself is killed. Output is kept in files; its tail is added to the failure as a note.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests

from tests import needs

T = TypeVar("T")

START_SECONDS = 30.0
STOP_SECONDS = 20.0
TAIL_BYTES = 4_000

NO_RECEIVER = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"
"""An Alertmanager configuration that notifies nobody."""


@dataclass(frozen=True, slots=True)
class Running:
    """One process we started. Its output goes to the files `out` and `err`."""

    popen: subprocess.Popen[bytes]
    out: Path
    err: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def output(self) -> str:
        return self.out.read_text(errors="replace")

    def errors(self) -> str:
        return self.err.read_text(errors="replace")

    def wait(self, timeout: float) -> int:
        """The exit code (negative: the signal that ended it)."""
        return self.popen.wait(timeout)

    def terminate(self, timeout: float = STOP_SECONDS) -> int:
        """SIGTERM, as a service manager sends it; the exit code."""
        self.popen.terminate()
        return self.wait(timeout)

    def kill(self) -> int:
        """SIGKILL: no chance to tidy up; the exit code is -9."""
        self.popen.kill()
        return self.wait(STOP_SECONDS)

    def tail(self) -> str:
        return f"--- {self.out}\n{self.output()[-TAIL_BYTES:]}\n--- {self.err}\n{self.errors()[-TAIL_BYTES:]}"


@contextmanager
def running(
    argv: Sequence[str | Path], cwd: Path, *, name: str, env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """`argv` as a process in `cwd`, its output in new files `NAME-*.out` and `.err` there; gone afterwards.

    `env` is added to ours. Start it from the main thread: the process is killed when the thread that started it ends,
    so that nothing outlives a test run that is itself killed.
    """
    cwd.mkdir(parents=True, exist_ok=True)
    # util-linux's setpriv replaces itself by the command, so the process id stays the one we know.
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if which("setpriv") else []
    out_fd, out = tempfile.mkstemp(dir=cwd, prefix=f"{name}-", suffix=".out")
    err = Path(out).with_suffix(".err")
    with os.fdopen(out_fd, "wb") as out_file, err.open("wb") as err_file:
        popen = subprocess.Popen(
            [*guard, *map(str, argv)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
            start_new_session=True,
        )
    process = Running(popen, Path(out), err)
    try:
        yield process
    except BaseException as failure:
        failure.add_note(process.tail())
        raise
    finally:
        _end(popen)


def _end(popen: subprocess.Popen[bytes]) -> None:
    if popen.poll() is None:
        popen.terminate()
        with suppress(subprocess.TimeoutExpired):
            popen.wait(STOP_SECONDS)
    # The group is the process' own (new session): whatever it started goes with it.
    with suppress(ProcessLookupError):
        os.killpg(popen.pid, signal.SIGKILL)
    popen.wait()


@contextmanager
def anomaly_process(
    args: Sequence[str | Path], cwd: Path, *, env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """`anomaly ARGS` as a real process in `cwd`, with this interpreter."""
    with running([sys.executable, "-m", "anomaly.cli.main", *args], cwd, name="anomaly", env=env) as process:
        yield process


@contextmanager
def prometheus(data_dir: Path, *, config: str = "global: {}\n", flags: Iterable[str] = ()) -> Iterator[str]:
    """Prometheus on a free port over `data_dir`; its URL, once it is ready.

    `flags` (`--name=value`) replace ours of the same name. A series ends 30 s after its last sample (back-filled data
    has no stale markers), and old data is kept. `config` and output lie beside `data_dir`, so paths in it (file_sd) are
    relative to that folder. Back-filled data that reaches into the future makes this server drop what it scrapes: use
    one server for each.
    """
    binary, home = needs.binary("prometheus"), data_dir.parent
    file = _write(home / f"{data_dir.name}.yml", config)
    options = {
        "config.file": str(file),
        "storage.tsdb.path": str(data_dir),
        "storage.tsdb.retention.time": "10y",
        "query.lookback-delta": "30s",
        "web.listen-address": "127.0.0.1:0",
    }
    with _server(binary, home, "prometheus", options, flags) as url:
        yield url


@contextmanager
def alertmanager(home: Path, *, config: str = NO_RECEIVER, port: int = 0, flags: Iterable[str] = ()) -> Iterator[str]:
    """Alertmanager on `port` (0: a free one), its state and output in `home`; its URL, once it is ready.

    Alerts live in memory only, so a second one on the same `home` and port is a restart: the list is empty, the
    notification log is not.
    """
    binary = needs.binary("alertmanager")
    options = {
        "config.file": str(_write(home / "alertmanager.yml", config)),
        "storage.path": str(home / "alertmanager"),
        "cluster.listen-address": "",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    with _server(binary, home, "alertmanager", options, flags) as url:
        yield url


@contextmanager
def _server(binary: Path, home: Path, name: str, options: dict[str, str], flags: Iterable[str]) -> Iterator[str]:
    for flag in flags:
        option, _, value = flag.removeprefix("--").partition("=")
        options[option] = value
    # Switches have no value, except that an empty address is how Alertmanager is told not to gossip.
    given = (f"{flag}={value}" if value or flag.endswith("address") else flag for flag, value in options.items())
    argv: list[str | Path] = [binary, *(f"--{flag}" for flag in given)]
    external = urlsplit(options.get("web.external-url", "")).path
    prefix = options.get("web.route-prefix", external).rstrip("/")
    with running(argv, home, name=name) as process:
        # Both servers log the port they really got, as `Listening on`.
        said = re.compile(r'msg="Listening on".* address=127\.0\.0\.1:(\d+)')

        def port() -> re.Match[str] | None:
            assert process.alive, f"{name} ended with {process.wait(0)} before it listened"
            return said.search(process.errors())

        found = wait_until(port, START_SECONDS, f"{name} to listen")
        url = f"http://127.0.0.1:{found[1]}{prefix}"
        wait_until(lambda: get(f"{url}/-/ready").ok, START_SECONDS, f"{name} to be ready at {url}")
        yield url


def backfill(files: Iterable[Path], data_dir: Path) -> None:
    """OpenMetrics files → blocks in `data_dir`, for a Prometheus started afterwards.

    promtool goes through a whole file once for each two-hour block: give it files of a day or less.
    """
    promtool = needs.binary("promtool")
    data_dir.mkdir(parents=True, exist_ok=True)
    for file in files:
        done = subprocess.run(
            [promtool, "tsdb", "create-blocks-from", "openmetrics", file, data_dir],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"promtool refused {file}:\n{done.stdout}{done.stderr}"


def free_port() -> int:
    """A loopback port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(predicate: Callable[[], T | None], timeout: float, what: str, *, every: float = 0.05) -> T:
    """The first truthy value of `predicate`, asked every `every` seconds; a refused connection counts as "not yet".

    Raises AssertionError after `timeout` seconds, with `what` was awaited and what was seen last.
    """
    deadline = time.monotonic() + timeout
    seen: object = None
    while True:
        try:
            value = predicate()
        except requests.ConnectionError as refused:
            seen = refused
        else:
            if value:
                return value
            seen = value
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain for {what}; last seen: {seen!r}"
        time.sleep(every)


def get(url: str, params: Mapping[str, str] | None = None) -> requests.Response:
    """GET without proxies: everything here is on loopback."""
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, params=params, timeout=10)


def instant_query(prometheus_url: str, promql: str, at_seconds: float) -> list[dict[str, Any]]:
    """The result vector of an instant query, as Prometheus returns it."""
    answer = get(f"{prometheus_url}/api/v1/query", {"query": promql, "time": str(at_seconds)}).json()
    assert answer["status"] == "success", answer
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def firing_alerts(alertmanager_url: str) -> list[dict[str, Any]]:
    """What Alertmanager holds now: firing alerts only, resolved ones leave the list."""
    alerts: list[dict[str, Any]] = get(f"{alertmanager_url}/api/v2/alerts").json()
    return alerts


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
