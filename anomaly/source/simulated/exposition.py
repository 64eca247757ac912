"""Records as series: the metric and label names of the real exporters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from anomaly.clock import Ms
from anomaly.records import Floats, Labels
from anomaly.source.simulated.host import BUCKETS, METHODS, MODES
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.record import Record
from anomaly.source.simulated.scenario import Simulation

PORTS: Mapping[str, int] = {"dcgm-exporter": 9400, "node-exporter": 9100, "juicefs": 9567, "training": 9401}
"""Scrape job → port of its targets, one a node."""
DRIVER = "550.90.07"
DRESSES: tuple[Mapping[str, str], ...] = (
    {},
    {"DCGM_FI_DRIVER_VERSION": "550.127.05"},
    {"GPU_I_ID": "1", "GPU_I_PROFILE": "3g.40gb"},
)
"""What a GPU's labels may wear beyond the usual: nothing, another driver, a MIG slice."""

_DCGM = {
    "DCGM_FI_DEV_GPU_TEMP": "gpu_temp",
    "DCGM_FI_DEV_MEMORY_TEMP": "memory_temp",
    "DCGM_FI_DEV_POWER_USAGE": "power",
    "DCGM_FI_DEV_SM_CLOCK": "sm_clock",
    "DCGM_FI_DEV_GPU_UTIL": "gpu_util",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor",
    "DCGM_FI_DEV_FB_USED": "fb_used",
    "DCGM_FI_DEV_XID_ERRORS": "xid",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": "ecc_sbe",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "ecc_dbe",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "remapped_rows",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "row_remap_failure",
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": "nvlink_crc_flit",
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": "nvlink_crc_data",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": "nvlink_replay",
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": "nvlink_recovery",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "pcie_replay",
    "DCGM_FI_DEV_THERMAL_VIOLATION": "thermal_violation",
    "DCGM_FI_DEV_POWER_VIOLATION": "power_violation",
}
_INFINIBAND = {
    "node_infiniband_port_data_received_bytes_total": "received",
    "node_infiniband_port_data_transmitted_bytes_total": "transmitted",
    "node_infiniband_symbol_error_total": "symbol",
    "node_infiniband_link_downed_total": "link_downed",
    "node_infiniband_link_error_recovery_total": "recovery",
    "node_infiniband_out_of_buffer_drops_total": "drops",
    "node_infiniband_port_errors_received_total": "receive_errors",
    "node_infiniband_np_cnp_packets_sent_total": "marks",
}
_ETHTOOL = {
    "node_ethtool_received_discards_phy": "discards",
    "node_ethtool_received_prio3_pause": "pause_received",
    "node_ethtool_transmitted_prio3_pause": "pause_sent",
}
_HOST = {
    "node_boot_time_seconds": "boot_time",
    "node_load1": "load1",
    "node_memory_MemAvailable_bytes": "memory_available",
    "node_memory_MemTotal_bytes": "memory_total",
    "node_vmstat_oom_kill": "oom_kill",
    "node_uname_info": "uname_info",
}
CPU = "node_cpu_seconds_total"
REQUESTS = "juicefs_object_request_durations_histogram_seconds_bucket"

Key = tuple[tuple[str, str], ...]
"""Labels without the name, as a hashable."""


@dataclass(frozen=True)
class Matrix:
    """Series of one metric on the scrape grid: row i has the labels `keys[i]`; NaN for "no sample"."""

    name: str
    keys: tuple[Key, ...]
    values: Floats
    first: Ms
    scrape: Ms

    def labels(self, row: int) -> Labels:
        """All labels of a row, the name included."""
        return {"__name__": self.name, **dict(self.keys[row])}


class Exposition:
    """The series of one cluster. Labels are built once; values come from the record given."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._boards: dict[tuple[int, int, int], tuple[Key, ...]] = {}
        self._ranks: dict[tuple[int, int], tuple[Key, ...]] = {}
        nodes = cluster.nodes
        self._hosts = tuple(_key(_target("node-exporter", node.name)) for node in nodes)
        self._ports, self._interfaces = (
            tuple(
                _key({**_target("node-exporter", node.name), "device": f"{stem}{r}", **extra})
                for node in nodes
                for r in range(cluster.rails)
            )
            for stem, extra in (("mlx5_", {"port": "1"}), ("rdma", dict[str, str]()))
        )
        self._cpus = tuple(
            _key({**_target("node-exporter", node.name), "cpu": str(c), "mode": mode})
            for node in nodes
            for c in range(cluster.cores)
            for mode in MODES
        )
        # Go prints the shortest decimal that reads back the same, and so does Python.
        bounds = [repr(bound) for bound in BUCKETS] + ["+Inf"]
        self._buckets = tuple(
            _key({**_volume(node.name, node.storage), "method": method, "le": bound})
            for node in nodes
            for method in METHODS
            for bound in bounds
        )
        self._unames = tuple(
            _key({**_target("node-exporter", node.name), "nodename": node.name, "sysname": "Linux"}) for node in nodes
        )
        self._targets = tuple(_key(_target(job, node.name)) for job in PORTS for node in nodes)
        self._families = self._catalogue()

    @property
    def names(self) -> tuple[str, ...]:
        """Every metric there is."""
        return tuple(self._families)

    def rows(self, name: str, record: Record) -> tuple[tuple[Key, ...], Floats]:
        """The series of one metric in one record: keys, and values row by row."""
        return self._families[name](record)

    def matrix(self, simulation: Simulation, name: str, start: Ms, end: Ms) -> Matrix:
        """All series of `name` at the scrapes in [start, end], as far as simulated time reaches."""
        scrape, origin = simulation.scrape_ms, simulation.origin
        low = max(-((origin - start) // scrape), 0)
        high = max((end - origin) // scrape, low - 1)
        first = origin + low * scrape
        found: dict[Key, int] = {}
        pieces: list[tuple[tuple[Key, ...], Floats, int]] = []
        if high >= low:
            for k in range(simulation.block_at(first), simulation.block_at(origin + high * scrape) + 1):
                keys, values = self.rows(name, simulation.block(k))
                offset = k * simulation.steps
                cut = values[:, max(low - offset, 0) : high - offset + 1]
                pieces.append((keys, cut, max(offset - low, 0)))
                for key in keys:
                    found.setdefault(key, len(found))
        matrix = np.full((len(found), high - low + 1), np.nan)
        for keys, cut, at in pieces:
            matrix[[found[key] for key in keys], at : at + cut.shape[1]] = cut
        return Matrix(name, tuple(found), matrix, first, scrape)

    def _catalogue(self) -> dict[str, Callable[[Record], tuple[tuple[Key, ...], Floats]]]:
        families: dict[str, Callable[[Record], tuple[tuple[Key, ...], Floats]]] = {}
        for name, field in _DCGM.items():
            families[name] = lambda record, field=field: self._board_rows(record, field)  # type: ignore[misc]
        for keys, table in ((self._ports, _INFINIBAND), (self._interfaces, _ETHTOOL)):
            for name, field in table.items():
                families[name] = lambda record, keys=keys, field=field: (keys, _flat(record.nic[field]))  # type: ignore[misc]
        for name, field in _HOST.items():
            hosts = self._unames if field == "uname_info" else self._hosts
            families[name] = lambda record, keys=hosts, field=field: (keys, record.node[field])  # type: ignore[misc]
        families[CPU] = lambda record: (self._cpus, _flat(record.cpu))
        families[REQUESTS] = lambda record: (self._buckets, _flat(record.requests))
        families["train_step_seconds"] = self._rank_rows
        families["train_global_step"] = self._progress_rows
        families["up"] = lambda record: (self._targets, np.concatenate([record.up[job] for job in PORTS]))
        return families

    def _board_rows(self, record: Record, field: str) -> tuple[tuple[Key, ...], Floats]:
        """One row per GPU, job that held it (its label is there while the job is) and dress of its labels."""
        keys: list[Key] = []
        parts: list[Floats] = []
        for node, job in _tenancies(record):
            for dress in np.unique(record.dress[node]).tolist():
                there = (record.held[node] == job) & (record.dress[node] == dress)
                if there.any():
                    keys.extend(self._board_keys(node, job, dress))
                    parts.append(np.where(there, record.gpu[field][node], np.nan))
        return tuple(keys), np.concatenate(parts)

    def _board_keys(self, n: int, job: int, dress: int) -> tuple[Key, ...]:
        if (n, job, dress) not in self._boards:
            node, jobs = self.cluster.nodes[n], self.cluster.jobs
            holder = {"hpc_job": jobs[job].name} if job < len(jobs) else {}
            self._boards[n, job, dress] = tuple(
                _key(
                    {
                        **_target("dcgm-exporter", node.name),
                        "DCGM_FI_DRIVER_VERSION": DRIVER,
                        "Hostname": node.name,
                        "UUID": node.uuids[g],
                        "device": f"nvidia{g}",
                        "gpu": str(g),
                        "modelName": node.sku.model,
                        "pci_bus_id": f"00000000:{0x1B + 0x11 * g & 0xFF:02X}:00.0",
                        **holder,
                        **DRESSES[dress],
                    }
                )
                for g in range(self.cluster.gpus)
            )
        return self._boards[n, job, dress]

    def _rank_rows(self, record: Record) -> tuple[tuple[Key, ...], Floats]:
        keys: list[Key] = []
        parts: list[Floats] = []
        for node, job in _tenancies(record):
            if job < len(self.cluster.jobs):
                keys.extend(self._rank_keys(node, job))
                parts.append(np.where(record.held[node] == job, record.step_seconds[node], np.nan))
        return tuple(keys), np.concatenate(parts) if parts else np.empty((0, len(record.ts)))

    def _rank_keys(self, n: int, job: int) -> tuple[Key, ...]:
        if (n, job) not in self._ranks:
            name, holder = self.cluster.nodes[n].name, self.cluster.jobs[job]
            first = holder.nodes.index(name) * self.cluster.gpus
            common = {**_target("training", name), "job_name": holder.name, "node": name}
            self._ranks[n, job] = tuple(_key({**common, "rank": str(first + g)}) for g in range(self.cluster.gpus))
        return self._ranks[n, job]

    def _progress_rows(self, record: Record) -> tuple[tuple[Key, ...], Floats]:
        keys: list[Key] = []
        parts: list[Floats] = []
        for node, job in _tenancies(record):
            if job < len(self.cluster.jobs):
                name = self.cluster.nodes[node].name
                labels = {**_target("training", name), "job_name": self.cluster.jobs[job].name, "node": name}
                keys.append(_key(labels))
                parts.append(np.where(record.held[node] == job, record.node["train_global_step"][node], np.nan))
        return tuple(keys), np.stack(parts) if parts else np.empty((0, len(record.ts)))


def _tenancies(record: Record) -> list[tuple[int, int]]:
    """(node, job) pairs of a record, in order."""
    return [(node, int(job)) for node, row in enumerate(record.held) for job in np.unique(row)]


def _target(job: str, node: str) -> dict[str, str]:
    return {"instance": f"{node}:{PORTS[job]}", "job": job}


def _volume(node: str, storage: str) -> dict[str, str]:
    return {**_target("juicefs", node), "mp": f"/mnt/{storage}", "vol_name": storage}


def _key(labels: dict[str, str]) -> Key:
    return tuple(sorted(labels.items()))


def _flat(values: Floats) -> Floats:
    return values.reshape(-1, values.shape[-1])
