"""A large cluster in no time: plausible values of every signal of the packs, from one seed, as a source.

Labels are those of the real exporters. Values are a level per series, noise, and counters that grow; a few nodes run
hot or lose packets so that detectors and rules have something to say. Unlike the simulated cluster of the package it
has no physics and keeps nothing in memory: any range of any signal is computed when it is asked for.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from anomaly.clock import Ms
from anomaly.config.pipeline import Pipeline
from anomaly.jobs.parts import Parts
from anomaly.records import Floats, Ints, Labels, Pulled, Query, Topology
from anomaly.signals.catalogue import load_catalogue

T0: Ms = 1_800_000_000_000 - 1_800_000_000_000 % 3_600_000
STEP: Ms = 15_000
PACKS = ("dcgm", "node", "rdma", "storage", "training")
GPUS = RAILS = 8
JOB_NODES = 40

# signal: (level, spread between series, noise, growth a second for counters)
_GPU: Mapping[str, tuple[float, float, float, float]] = {
    "gpu_temp": (62.0, 3.0, 0.6, 0.0),
    "memory_temp": (70.0, 3.0, 0.6, 0.0),
    "gpu_power": (520.0, 8.0, 6.0, 0.0),
    "sm_clock": (1755.0, 3.0, 3.0, 0.0),
    "gpu_util": (97.0, 0.5, 0.8, 0.0),
    "tensor_active": (0.45, 0.005, 0.01, 0.0),
    "framebuffer_used": (70_000.0, 200.0, 5.0, 0.0),
    "xid": (0.0, 0.0, 0.0, 0.0),
    "ecc_correctable": (3.0, 2.0, 0.0, 0.0),
    "ecc_uncorrectable": (0.0, 0.0, 0.0, 0.0),
    "remapped_rows_uncorrectable": (0.0, 0.0, 0.0, 0.0),
    "row_remap_failure": (0.0, 0.0, 0.0, 0.0),
    "nvlink_errors": (0.0, 0.0, 0.0, 0.0),
    "pcie_replay": (12.0, 4.0, 0.0, 0.0),
    "thermal_violation": (0.0, 0.0, 0.0, 0.0),
    "power_violation": (1e9, 1e8, 0.0, 2e7),
}
_NIC: Mapping[str, tuple[float, float, float, float]] = {
    "rdma_bytes_received": (1e12, 1e10, 0.0, 2e10),
    "rdma_bytes_transmitted": (1e12, 1e10, 0.0, 2e10),
    "symbol_errors": (0.0, 0.0, 0.0, 0.0),
    "link_error_recovery": (0.0, 0.0, 0.0, 0.0),
    "port_receive_errors": (0.0, 0.0, 0.0, 0.0),
    "link_downed": (1.0, 0.0, 0.0, 0.0),
    "rdma_discards": (0.0, 0.0, 0.0, 0.0),
    "buffer_drops": (0.0, 0.0, 0.0, 0.0),
    "pfc_pause_transmitted": (1e5, 1e4, 0.0, 40.0),
    "pfc_pause_received": (1e5, 1e4, 0.0, 40.0),
    "cnp_sent": (1e5, 1e4, 0.0, 90.0),
}
_NODE: Mapping[str, tuple[float, float, float, float]] = {
    "node_names": (1.0, 0.0, 0.0, 0.0),
    "boot_time": (1.79e9, 0.0, 0.0, 0.0),
    "cpu_busy_ratio": (0.3, 0.01, 0.01, 0.0),
    "load_per_core": (0.4, 0.02, 0.02, 0.0),
    "memory_available_ratio": (0.5, 0.02, 0.005, 0.0),
    "oom_kills": (2.0, 0.0, 0.0, 0.0),
    "storage_p99": (0.03, 0.002, 0.001, 0.0),
    "iteration_seconds": (8.0, 0.0, 0.02, 0.0),
    "training_step": (1e4, 0.0, 0.0, 0.125),
}
_TARGETS = {"dcgm-exporter": 9400, "node-exporter": 9100, "juicefs": 9567, "training": 9200}
_COMPUTED = ("cpu_busy_ratio", "load_per_core", "memory_available_ratio", "storage_p99")


@dataclass(frozen=True, slots=True)
class _Table:
    """One signal's series: labels as text (parsed anew at each pull, as Prometheus' answers are), levels, growth."""

    labels: tuple[str, ...]
    level: Floats
    noise: float
    growth: Floats


@dataclass
class BenchCluster:
    """`nodes` hosts of eight GPUs and eight rails in jobs of forty hosts. Every hundredth host has one bad GPU or rail
    from `bad_from` on."""

    nodes: int
    seed: int = 1
    bad_from: Ms = T0
    only: tuple[str, ...] = ()
    """Signals to have; all by default."""
    _tables: dict[str, _Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*_GPU, *_NIC, *_NODE, "up"):
            if not self.only or name in self.only:
                self._tables[name] = self._table(name)

    @property
    def series(self) -> int:
        return sum(len(table.labels) for table in self._tables.values())

    @property
    def signals(self) -> int:
        return len(self._tables)

    def job(self, node: int) -> str:
        return f"train-{node // JOB_NODES}"

    def pull(self, query: Query) -> Pulled:
        """Any range of any signal; an unknown one is empty."""
        table = self._tables.get(query.signal)
        grid = np.arange(query.start, query.end + 1, query.step, dtype=np.int64)
        if table is None or not len(grid):
            return Pulled((), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        labels: tuple[Labels, ...] = tuple(json.loads("[" + ",".join(table.labels) + "]"))
        values = self._values(query.signal, table, grid)
        return Pulled(labels, np.full(len(labels), len(grid), np.int64), np.tile(grid, len(labels)), values.ravel())

    def values(self, signal: str, start: Ms, end: Ms, step: Ms) -> Floats:
        """Series × times in [start, end]."""
        return self._values(signal, self._tables[signal], np.arange(start, end + 1, step, dtype=np.int64))

    def topology(self) -> Topology:
        names = [f"gpu-{node}" for node in range(self.nodes)]
        return Topology(
            {
                "rack": {name: f"rack-{i // 8}" for i, name in enumerate(names)},
                "leaf": {name: f"leaf-{i // 32}" for i, name in enumerate(names)},
                "sku": dict.fromkeys(names, "bench"),
            }
        )

    def _values(self, name: str, table: _Table, grid: Ints) -> Floats:
        out = np.repeat(table.level[:, None], len(grid), axis=1)
        grows = bool(table.growth.any())
        for column, at in enumerate(grid.tolist() if table.noise or grows else ()):
            # Drawn per instant, so that reading a range again gives the same.
            rng = np.random.default_rng([self.seed, zlib.crc32(name.encode()), at // 1000])
            if table.noise:
                out[:, column] += table.noise * rng.standard_normal(len(out), dtype=np.float32)
            if grows:
                # Growth is even, its arrival late by up to a fifth of a second.
                out[:, column] += np.floor(table.growth * ((at - T0) / 1000.0 - 0.2 * rng.random()))
        bad = np.flatnonzero(grid >= self.bad_from)
        if len(bad):
            self._harm(name, out, grid, int(bad[0]))
        return out

    def _harm(self, name: str, out: Floats, grid: Ints, first: int) -> None:
        if name in ("gpu_temp", "sm_clock"):
            out[10 * GPUS :: 100 * GPUS, first:] *= 1.4 if name == "gpu_temp" else 0.8
        elif name in ("rdma_discards", "symbol_errors"):
            out[30 * RAILS :: 100 * RAILS, first:] += np.floor(30.0 * (grid[first:] - self.bad_from) / 1000.0)

    def _table(self, name: str) -> _Table:
        labels = [json.dumps(one) for one in self._labels(name)]
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        level, spread, noise, growth = {**_GPU, **_NIC, **_NODE, "up": (1.0, 0.0, 0.0, 0.0)}[name]
        levels = level + spread * rng.standard_normal(len(labels))
        rates = growth * (1.0 + 0.02 * rng.standard_normal(len(labels)))
        if growth or (name in _GPU and noise == 0.0):
            levels = np.floor(np.maximum(levels, 0.0))
        return _Table(tuple(labels), levels, noise, rates)

    def _labels(self, name: str) -> list[dict[str, str]]:
        metrics = load_catalogue(PACKS)[name].metrics
        if name in _GPU:
            names = metrics[:4] if name == "nvlink_errors" else metrics[:1]
            return [self._gpu(metric, node, gpu) for metric in names for node in range(self.nodes) for gpu in range(8)]
        if name in _NIC:
            metric = metrics[3] if name.startswith("pfc") else metrics[0]
            return [self._nic(metric, node, rail) for node in range(self.nodes) for rail in range(RAILS)]
        if name == "up":
            return [
                {"__name__": "up", "job": job, "instance": f"gpu-{node}:{port}"}
                for node in range(self.nodes)
                for job, port in _TARGETS.items()
            ]
        return [self._host(name, metrics, node) for node in range(self.nodes)]

    def _gpu(self, metric: str, node: int, gpu: int) -> dict[str, str]:
        return {
            "__name__": metric,
            "DCGM_FI_DRIVER_VERSION": "550.90.07",
            "Hostname": f"gpu-{node}",
            "UUID": f"GPU-{node:08x}-0000-0000-0000-{gpu:012x}",
            "device": f"nvidia{gpu}",
            "gpu": str(gpu),
            "hpc_job": self.job(node),
            "instance": f"gpu-{node}:9400",
            "job": "dcgm-exporter",
            "modelName": "bench",
            "pci_bus_id": f"00000000:{gpu:02X}:00.0",
        }

    @staticmethod
    def _nic(metric: str, node: int, rail: int) -> dict[str, str]:
        labels = {"__name__": metric, "instance": f"gpu-{node}:9100", "job": "node-exporter"}
        if "ethtool" in metric:
            return labels | {"device": f"rdma{rail}"}
        return labels | {"device": f"mlx5_{rail}", "port": "1"}

    def _host(self, name: str, metrics: Sequence[str], node: int) -> dict[str, str]:
        if name in ("iteration_seconds", "training_step"):
            found = {"job_name": self.job(node), "node": f"gpu-{node}"}
            return {"__name__": metrics[0], "instance": f"gpu-{node}:9200", "job": "training"} | found
        if name in _COMPUTED:
            return {"instance": f"gpu-{node}:9100"} | ({"vol_name": "train-data"} if name == "storage_p99" else {})
        found = {"__name__": metrics[0], "instance": f"gpu-{node}:9100", "job": "node-exporter"}
        return found | ({"nodename": f"gpu-{node}"} if name == "node_names" else {})


def parts_of(cluster: BenchCluster, folder: Path) -> Parts:
    """A pipeline over the cluster, its store in `folder`, as production builds it over Prometheus."""
    pipeline = Pipeline.model_validate(
        {
            "cluster": "bench",
            "packs": list(PACKS),
            "prometheus": {"url": "http://127.0.0.1:9", "step": "15s"},
            "store": {"path": str(folder / "anomaly.duckdb")},
        }
    )
    return Parts(pipeline, load_catalogue(PACKS), cluster.topology(), cluster)
