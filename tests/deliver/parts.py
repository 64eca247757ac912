"""What the delivery tests are made of: incidents, a loopback receiver that misbehaves on demand, real Alertmanagers."""

import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from anomaly.clock import MINUTE, parse_time
from anomaly.records import Entity, Evidence, Incident, Phase, Severity

T0 = parse_time("2026-11-30T10:00:00Z")


def hot_gpu(**changes: Any) -> Incident:
    """gpu-17 throttles and slows its job; a page since 10:05."""
    found: dict[str, Any] = {
        "id": "3f9c2a7d10b4",
        "cluster": "prod-a",
        "scope": "node",
        "entity": Entity("node", "gpu-17"),
        "nodes": ("gpu-17",),
        "victims": ("gpu-16", "gpu-18"),
        "jobs": ("llama-70b",),
        "cause": "thermal",
        "frozen_cause": "thermal",
        "severity": Severity.CRITICAL,
        "previous_severity": None,
        "phase": Phase.FIRING,
        "onset": T0,
        "uncertainty": 2 * MINUTE,
        "fired_at": T0 + 5 * MINUTE,
        "updated_at": T0 + 5 * MINUTE,
        "resolved_at": None,
        "impact_ratio": 0.18,
        "coverage": 0.97,
        "signals": ("gpu_temp", "sm_clock"),
        "evidence": (
            Evidence("gpu_temp", "gpu3", 91.0, 74.0, "celsius", "peers", 2.4, T0),
            Evidence("sm_clock", "gpu3", 1095.0, 1410.0, "megahertz", "peers", 1.9, T0 + MINUTE),
        ),
        "summary": "gpu-17: GPU overheating, clocks held down",
        "advice": "Drain it at the next job end.",
    }
    return Incident(**(found | changes))


def slow_port(**changes: Any) -> Incident:
    """gpu-05's first port discards packets; a ticket since 10:05."""
    found: dict[str, Any] = {
        "id": "bb02",
        "entity": Entity("node", "gpu-05"),
        "nodes": ("gpu-05",),
        "victims": (),
        "cause": "network",
        "frozen_cause": "network",
        "severity": Severity.WARNING,
        "impact_ratio": None,
        "signals": ("rdma_discards",),
        "evidence": (Evidence("rdma_discards", "rdma0", 412.0, 0.0, "per_second", "growth", 3.1, T0),),
        "summary": "gpu-05: network port degraded",
        "advice": "Compare the port with the host's other rails.",
    }
    return hot_gpu(**(found | changes))


def slow_leaf(**changes: Any) -> Incident:
    """leaf-2 is congested and four nodes behind it suffer; a ticket."""
    found: dict[str, Any] = {
        "id": "aa01",
        "scope": "group",
        "entity": Entity("leaf", "leaf-2"),
        "nodes": ("gpu-05", "gpu-06", "gpu-07", "gpu-08"),
        "victims": (),
        "cause": "network",
        "frozen_cause": "network",
        "severity": Severity.WARNING,
        "impact_ratio": None,
        "signals": ("pfc_pause_received",),
        "evidence": (Evidence("pfc_pause_received", "", 4210.0, 3.0, "per_second", "growth", 5.0, T0),),
        "summary": "leaf-2: congested",
        "advice": "Look at the switch itself.",
    }
    return hot_gpu(**(found | changes))


def ended(incident: Incident, at: int, phase: Phase = Phase.RESOLVED, absorbed_by: str | None = None) -> Incident:
    return replace(incident, phase=phase, resolved_at=at, updated_at=at, absorbed_by=absorbed_by)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Receiver:
    """A loopback HTTP server. `answer(path, body)` gives the status, or (status, headers); requests are kept."""

    answer: Callable[[str, bytes], Any] = lambda path, body: 200
    delay_seconds: float = 0.0
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def __enter__(self) -> "Receiver":
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                receiver.requests.append((self.path, dict(self.headers), body))
                time.sleep(receiver.delay_seconds)
                self._say(receiver.answer(self.path, body))

            def do_GET(self) -> None:
                self._say(200)

            def _say(self, answer: Any) -> None:
                status, headers = answer if isinstance(answer, tuple) else (answer, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def alerts(self) -> list[list[dict[str, Any]]]:
        """The arrays received, in order."""
        return [json.loads(body) for _, _, body in self.requests]


class Alertmanager:
    """A real one, on a free loopback port, without gossip; it can be stopped and started again."""

    def __init__(self, binary: Path, folder: Path, config: Path) -> None:
        self.binary, self.folder, self.config, self.port = binary, folder, config, free_port()
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Alertmanager":
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(self.binary),
                    f"--config.file={self.config}",
                    f"--storage.path={self.folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    "--cluster.listen-address=",
                ],
                stdout=log,
                stderr=log,
            )
        for _ in range(200):
            try:
                if requests.get(f"{self.url}/-/ready", timeout=1).status_code == 200:
                    return self
            except requests.ConnectionError:
                pass
            assert self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)
        raise AssertionError("Alertmanager did not become ready: " + (self.folder / "log").read_text())

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=10)
            self.process = None

    def alerts(self, **query: str) -> list[dict[str, Any]]:
        """What it holds as not resolved."""
        response = requests.get(f"{self.url}/api/v2/alerts", params=query, timeout=5)
        response.raise_for_status()
        found: list[dict[str, Any]] = response.json()
        return found

    def firing(self) -> list[tuple[str, str]]:
        """(node or group, severity) of every alert it holds."""
        return sorted(
            (labels.get("node") or labels["group"], labels["severity"])
            for labels in (alert["labels"] for alert in self.alerts())
        )
