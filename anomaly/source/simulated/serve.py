"""The exporters of a simulated cluster over HTTP, one path a target, so that a real Prometheus can scrape it.

Simulated time may run faster than real time (`scale` real seconds to a simulated one): a cluster scraped every second
at 1/15 is one scraped every fifteen seconds that lives through four minutes a minute.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from anomaly.clock import Clock, Ms
from anomaly.records import Floats
from anomaly.source.simulated.exposition import CPU, DRIVER, PORTS, REQUESTS, Exposition
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.scenario import Scenario

JOBS = {port: job for job, port in PORTS.items()}

_BOOT_TIME = "node_boot_time_seconds"
_XID = "DCGM_FI_DEV_XID_ERRORS"
_FROM_NOTHING = ("DCGM_FI_DEV_ECC_", "DCGM_FI_DEV_NVLINK_", "DCGM_FI_DEV_PCIE_REPLAY_", REQUESTS)
"""Counters that live in the exporter's process (or the driver's session): remapped rows do not, the kernel's do not."""
_VIOLATION = "_VIOLATION"

Target = tuple[str, int]
"""(node, port)"""


@dataclass(frozen=True, slots=True)
class _Line:
    """One series of a target: what stands before its value, and its values in a block."""

    name: str
    head: str
    gpu: int | None
    values: Floats


@dataclass(frozen=True, slots=True)
class _Block:
    lines: dict[Target, list[_Line]]
    up: dict[Target, Floats]


@dataclass
class Exporters:
    """What each target says at a real instant. Simulated time stands at the scenario's start when `begin` comes, which
    may be put off until then; before it nobody answers.

    The switches (`hide`, `stop`, `driver`) change what is exported and leave what is simulated alone; they may be
    turned from any thread. After the scenario's end nobody answers.
    """

    scenario: Scenario
    clock: Clock
    begin: Ms
    scale: Fraction = Fraction(1)
    driver: str = DRIVER
    """The driver's version, a label of every GPU series."""
    _hidden: set[tuple[str, int]] = field(default_factory=set, repr=False)
    _stopped: set[Target] = field(default_factory=set, repr=False)
    _bases: dict[Target, dict[str, float]] = field(default_factory=dict, repr=False)
    _blocks: dict[int, _Block] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def prepare(self) -> None:
        """Simulate the whole scenario now, so that no scrape waits for it."""
        for k in range(self.scenario.simulation.block_at(self.scenario.end) + 1):
            self._block(k)

    def simulated(self, real: Ms) -> Ms:
        """The simulated instant of a real one."""
        return self.scenario.start + (real - self.begin) * self.scale.denominator // self.scale.numerator

    def real(self, simulated: Ms) -> Ms:
        """The real instant of a simulated one."""
        return self.begin + (simulated - self.scenario.start) * self.scale.numerator // self.scale.denominator

    def hide(self, node: str, gpu: int) -> None:
        """The GPU's series are exported no more, as if it had fallen off the bus without a word."""
        self._hidden = self._hidden | {(node, gpu)}

    def show(self, node: str, gpu: int) -> None:
        """The GPU is exported again."""
        self._hidden = self._hidden - {(node, gpu)}

    def stop(self, node: str, *jobs: str) -> None:
        """The node's exporters of these scrape jobs answer nobody."""
        self._stopped = self._stopped | {(node, PORTS[job]) for job in jobs}

    def start(self, node: str, *jobs: str) -> None:
        """Stopped exporters answer again, with the counters of their own process at nothing and no XID."""
        for target in ((node, PORTS[job]) for job in jobs):
            found = self._now(target)
            if found is not None:
                lines, _, step = found
                self._bases[target] = {
                    line.head: float(line.values[step])
                    for line in lines
                    if line.name.startswith((*_FROM_NOTHING, _XID)) or line.name.endswith(_VIOLATION)
                }
            self._stopped = self._stopped - {target}

    def text(self, node: str, port: int) -> bytes | None:
        """The body of a target's `/metrics`; None where nobody answers. Raises KeyError for an unknown target."""
        target = (node, port)
        found = self._now(target)
        if found is None or target in self._stopped:
            return None
        lines, up, step = found
        if not up[step] > 0:
            return None
        bases, hidden = self._bases.get(target, {}), self._hidden
        out = []
        for line in lines:
            value = float(line.values[step])
            if np.isnan(value) or (line.gpu is not None and (node, line.gpu) in hidden):
                continue
            out.append(f"{line.head} {self._told(line, value, bases.get(line.head))!r}\n")
        text = "".join(out)
        if self.driver != DRIVER:
            text = text.replace(f'DCGM_FI_DRIVER_VERSION="{DRIVER}"', f'DCGM_FI_DRIVER_VERSION="{self.driver}"')
        return text.encode()

    def _told(self, line: _Line, value: float, base: float | None) -> float:
        if line.name == CPU:
            return value * float(self.scale)  # PromQL rates it in real seconds
        if line.name == _BOOT_TIME:
            return self.real(int(value * 1000)) / 1000
        if base is None:
            return value
        if line.name == _XID:
            return 0.0 if value == base else value
        return value - base if value >= base else value

    def _now(self, target: Target) -> tuple[list[_Line], Floats, int] | None:
        simulation = self.scenario.simulation
        instant = self.simulated(self.clock())
        if not self.scenario.start <= instant <= self.scenario.end:
            return None
        block = self._block(simulation.block_at(instant))
        step = (instant - simulation.origin) // simulation.scrape_ms % simulation.steps
        return block.lines[target], block.up[target], step

    def _block(self, k: int) -> _Block:
        with self._lock:
            if k not in self._blocks:
                self._blocks[k] = self._made(k)
            return self._blocks[k]

    def _made(self, k: int) -> _Block:
        exposition, record = Exposition(self.scenario.cluster), self.scenario.simulation.block(k)
        lines: dict[Target, list[_Line]] = {
            (node.name, port): [] for node in self.scenario.cluster.nodes for port in JOBS
        }
        up: dict[Target, Floats] = {}
        for name in exposition.names:
            for key, values in zip(*exposition.rows(name, record), strict=True):
                labels = dict(key)
                node, _, port = labels.pop("instance").rpartition(":")
                del labels["job"]  # both are the scraper's to give
                if name == "up":
                    up[node, int(port)] = values
                    continue
                told = ",".join(f'{label}="{value}"' for label, value in labels.items())
                gpu = int(labels["gpu"]) if "gpu" in labels else None
                lines[node, int(port)].append(_Line(name, f"{name}{{{told}}}", gpu, values))
        return _Block(lines, up)


def file_sd(cluster: Cluster, address: str) -> str:
    """Every target of the cluster below `address` (host:port), as a file for Prometheus' `file_sd_configs`.

    `instance` and `job` are those that real exporters of these nodes would get.
    """
    return json.dumps(
        [
            {
                "targets": [address],
                "labels": {
                    "__metrics_path__": f"/{node.name}/{port}/metrics",
                    "instance": f"{node.name}:{port}",
                    "job": job,
                },
            }
            for node in cluster.nodes
            for job, port in PORTS.items()
        ],
        indent=1,
    )


@contextmanager
def serving(exporters: Exporters, port: int = 0) -> Iterator[str]:
    """All targets on one loopback port (0: a free one); its address as host:port.

    A target that answers nobody hangs up without a word, which Prometheus takes as it takes a refused connection.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            status, body = 200, None
            try:
                _, node, port, path = self.path.split("/")
                if path != "metrics":
                    raise ValueError(path)
                body = exporters.text(node, int(port))
            except (KeyError, ValueError):
                status, body = 404, b"no such target\n"
            if body is None:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            return None

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, *args: Any) -> None:
            return None  # a scraper that lost patience has hung up

    server = Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="exporters")
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
