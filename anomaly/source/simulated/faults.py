"""Every fault type: whom it is about, what it does, and how it stops a job."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from anomaly.clock import MINUTE, Ms
from anomaly.source.simulated.fault import Fault, choose
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.setting import Setting
from anomaly.source.simulated.strikes import compute, memory, network, presence, software

__all__ = ["COMMON", "KINDS", "Fault", "Kind", "hang_of"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What is fixed for a type."""

    scope: Literal["node", "group", "job"]
    edit: Callable[[Setting, Fault, Cluster], None]
    group_kind: str | None = None
    """The attribute of a node that names the shared entity, for shared faults."""
    stops_job: bool = False
    hang: tuple[Ms, Ms] = (0, 0)
    """How long peers spin before the job is aborted, shortest and longest."""
    slows: bool = False
    """Whether `effect` is what it does to the job's step."""
    device: Literal["gpu", "gpu or all", "nic"] | None = None
    """What of a node it strikes."""
    lasts: tuple[Ms, Ms] = (12 * MINUTE, 20 * MINUTE)
    idle: bool = False
    """It strikes a node without a job."""


_SLOW_GROWTH = (40 * MINUTE, 45 * MINUTE)
_FOREVER = (60 * MINUTE, 60 * MINUTE)
"""Longer than the library's time-out, and than any of our scenarios: a hang ends with the fault."""

KINDS: dict[str, Kind] = {
    "thermal_throttle": Kind("node", compute.thermal_throttle, slows=True, device="gpu or all"),
    "nic_degradation": Kind("node", network.nic_degradation, slows=True, device="nic"),
    "gpu_lost": Kind("node", presence.gpu_lost, stops_job=True, hang=(3 * MINUTE, 6 * MINUTE), device="gpu"),
    "node_lost": Kind("node", presence.node_lost, stops_job=True, hang=(1 * MINUTE, 3 * MINUTE)),
    "storage_latency": Kind("group", network.storage_latency, "storage", slows=True),
    "leaf_congestion": Kind("group", network.leaf_congestion, "leaf", slows=True),
    "power_brake": Kind("node", compute.power_brake, slows=True, device="gpu or all"),
    "power_brake_shared": Kind("group", compute.power_brake, "pdu", slows=True),
    "coolant_loss": Kind("group", compute.coolant_loss, "rack", slows=True, lasts=(22 * MINUTE, 26 * MINUTE)),
    "power_swing": Kind("node", compute.power_swing, slows=True, device="gpu or all"),
    "wrong_power_cap": Kind("node", compute.wrong_power_cap, slows=True, device="gpu or all"),
    "clock_lock": Kind("node", compute.clock_lock, slows=True, device="gpu or all"),
    "pcie_degraded": Kind("node", compute.pcie_degraded, slows=True, device="gpu"),
    "cpu_contention": Kind("node", compute.cpu_contention, slows=True),
    "ecc_storm": Kind("node", memory.ecc_storm, device="gpu", lasts=(16 * MINUTE, 20 * MINUTE)),
    "ecc_growth": Kind("node", memory.ecc_growth, device="gpu", lasts=_SLOW_GROWTH),
    "ecc_uncorrectable": Kind(
        "node", memory.ecc_uncorrectable, stops_job=True, hang=(1 * MINUTE, 4 * MINUTE), device="gpu"
    ),
    "nvlink_link": Kind("node", memory.nvlink_link, slows=True, device="gpu"),
    "nvlink_all": Kind("node", memory.nvlink_all, stops_job=True, hang=(3 * MINUTE, 8 * MINUTE)),
    "link_down": Kind("node", network.link_down, slows=True, device="nic"),
    "link_flap": Kind("node", network.link_flap, slows=True, device="nic", lasts=(15 * MINUTE, 20 * MINUTE)),
    "pfc_storm": Kind("node", network.pfc_storm, slows=True, device="nic"),
    "wrong_pfc_threshold": Kind("node", network.wrong_pfc_threshold, slows=True, lasts=(18 * MINUTE, 22 * MINUTE)),
    "gpu_stuck": Kind("node", presence.gpu_stuck, stops_job=True, hang=(10 * MINUTE, 15 * MINUTE), device="gpu"),
    "collective_hang": Kind("job", software.collective_hang, stops_job=True, hang=_FOREVER),
    "hung_rank": Kind("node", software.hung_rank, stops_job=True, hang=_FOREVER, device="gpu"),
    "data_stall": Kind("job", software.data_stall, slows=True),
    "gradient_sync_slow": Kind("job", software.gradient_sync_slow, slows=True),
    "software_drift": Kind("job", software.software_drift, slows=True, lasts=_SLOW_GROWTH),
    "memory_leak": Kind("job", software.memory_leak, lasts=_SLOW_GROWTH),
    "memory_held": Kind("node", software.memory_held, device="gpu", idle=True),
    "oom_kills": Kind("node", software.oom_kills),
    "exporter_dead": Kind("node", presence.exporter_dead, lasts=(18 * MINUTE, 22 * MINUTE)),
    "telemetry_frozen": Kind("node", presence.telemetry_frozen, lasts=(18 * MINUTE, 22 * MINUTE)),
    "driver_mismatch": Kind("node", presence.driver_mismatch, lasts=(18 * MINUTE, 22 * MINUTE)),
    "mig_lost": Kind("node", presence.mig_lost, lasts=(18 * MINUTE, 22 * MINUTE), idle=True),
}
"""Every fault type. To add one: its function in `strikes/`, its line here, what is due in `limits.DUE`."""

COMMON: tuple[str, ...] = tuple(KINDS)[:6]
"""Those that a mere number of faults takes in turn."""


def hang_of(fault: Fault) -> Ms:
    """How long the peers of a stopped job spin before it is aborted."""
    low, high = KINDS[fault.type].hang
    return int(choose(fault, low, high, 1))
