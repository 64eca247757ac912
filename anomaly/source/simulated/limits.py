"""What is due for each fault type, and by when: fixed from physics and scrape timing before any detector was tuned.

How the limits come about, in seconds from the onset:

* what is a fact at the next reading (a code, a vanished device, a silent host): DCGM refreshes every 30, the scrape
  adds 15, a tick 60, and two steps to settle: 240;
* what changes within a scrape but is only statistics (a brake, a link, a congested leaf): four minutes of
  persistence, the best noise filter there is, on top: 480;
* what grows over up to three minutes, or has to be seen under load first: 600; what grows over six to ten: 900 or
  1200;
* a collective hang: three minutes of spinning to be sure, 420 in all, well before any time-out of the library;
* slow growth and drift: 2400; there is less hurry, and half an hour of history to tell them from noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Expect = Literal["node_alert", "shared_alert", "job_alert", "ticket"]


@dataclass(frozen=True, slots=True)
class Due:
    """What a fault of one type calls for."""

    limit_s: int
    """Seconds from onset within which it must be found."""
    expect: Expect
    cause_family: str | None
    """None where metrics leave more than one family open."""


DUE: Mapping[str, Due] = {
    # Facts at the next reading.
    "gpu_lost": Due(240, "node_alert", "gpu_lost"),
    "node_lost": Due(240, "node_alert", "node_lost"),
    "ecc_uncorrectable": Due(240, "node_alert", "memory_ecc"),
    "nvlink_all": Due(240, "node_alert", "nvlink"),
    # Steps that are statistics.
    "power_brake": Due(480, "node_alert", "power"),
    "power_brake_shared": Due(480, "shared_alert", "power"),
    "nic_degradation": Due(480, "node_alert", "network"),
    "link_down": Due(480, "node_alert", "network"),
    "pfc_storm": Due(480, "node_alert", "network"),
    "leaf_congestion": Due(480, "shared_alert", "network"),
    "storage_latency": Due(480, "shared_alert", "storage"),
    "nvlink_link": Due(480, "node_alert", "nvlink"),
    "gpu_stuck": Due(480, "node_alert", "gpu_lost"),
    # Hangs.
    "collective_hang": Due(420, "job_alert", "hang"),
    "hung_rank": Due(420, "node_alert", "hang"),
    # Ramps, and what shows only under load.
    "thermal_throttle": Due(600, "node_alert", "thermal"),
    "pcie_degraded": Due(600, "node_alert", "pcie"),
    "cpu_contention": Due(600, "node_alert", "cpu"),
    "data_stall": Due(600, "job_alert", "software"),
    "gradient_sync_slow": Due(600, "job_alert", None),
    "link_flap": Due(900, "ticket", "network"),
    "power_swing": Due(900, "node_alert", "power"),
    "coolant_loss": Due(1200, "shared_alert", "thermal"),
    # Constant from the first minute of load, or without effect on the job: nobody is woken.
    "wrong_power_cap": Due(900, "ticket", "power"),
    "clock_lock": Due(900, "ticket", "config"),
    "driver_mismatch": Due(900, "ticket", "driver"),
    "mig_lost": Due(900, "ticket", "config"),
    "exporter_dead": Due(900, "ticket", "telemetry"),
    "telemetry_frozen": Due(900, "ticket", "telemetry"),
    "memory_held": Due(900, "ticket", "software"),
    "oom_kills": Due(900, "ticket", "software"),
    "ecc_storm": Due(900, "ticket", "memory_ecc"),
    "wrong_pfc_threshold": Due(900, "ticket", "network"),
    # Slow growth and drift.
    "ecc_growth": Due(2400, "ticket", "memory_ecc"),
    "software_drift": Due(2400, "job_alert", "software"),
    "memory_leak": Due(2400, "ticket", "software"),
}

NOTICEABLE = 0.1
"""Share of the step time from which a slower job is worth an alert (Guard, traceml); below it one is only welcome."""
