"""The fault library: for each type one function that changes a node's circumstances, never its metrics.

What the metrics then show follows from the physics. `effect` is the share by which the fault slows the job's step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from anomaly.clock import MINUTE, SECOND, Ms
from anomaly.records import Bools, Floats
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.setting import COOLING_K_PER_W, POWER_EXPONENT, THROTTLE_AT, Setting


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its type, whom it strikes, from when (inclusive) until when (exclusive).

    `device` is a GPU index or a NIC name (`mlx5_3`); None leaves the choice to the fault (a thermal fault then
    strikes every GPU of the node). `group` names the shared entity of a shared fault, `nodes` being its members.
    """

    type: str
    nodes: tuple[str, ...]
    onset: Ms
    end: Ms
    effect: float = 0.25
    device: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if self.type not in KINDS:
            raise ValueError(f"no fault is called {self.type!r}; there are {', '.join(KINDS)}")
        if not self.nodes or self.end <= self.onset:
            raise ValueError(f"{self.type}: a fault needs nodes and an end after its onset")
        if not 0 < self.effect <= 2:
            raise ValueError(f"{self.type}: effect is a share of the step time in (0, 2], not {self.effect}")


@dataclass(frozen=True, slots=True)
class Kind:
    """What is fixed for a type: whom it is about, what it does, and how it stops a job."""

    scope: Literal["node", "group"]
    group_kind: str | None
    """The attribute of a node that names the shared entity, for shared faults."""
    edit: Callable[[Setting, Fault, Cluster], None]
    stops_job: bool = False
    hang: tuple[Ms, Ms] = (0, 0)
    """How long peers spin before the job is aborted, shortest and longest."""


def choose(fault: Fault, low: float, high: float, salt: int = 0) -> float:
    """A detail the caller left open: uniform in [low, high), always the same for the same fault."""
    words = [salt, fault.onset % 2**32, *fault.nodes[0].encode(), *fault.type.encode()]
    return float(np.random.default_rng(words).uniform(low, high))


def hang_of(fault: Fault) -> Ms:
    """How long the peers of a stopped job spin before it is aborted."""
    low, high = KINDS[fault.type].hang
    return int(choose(fault, low, high, 1))


def active(setting: Setting, fault: Fault) -> Bools:
    """At which steps the fault lasts."""
    return (setting.ts >= fault.onset) & (setting.ts < fault.end)


def ramp(setting: Setting, fault: Fault, over: Ms) -> Floats:
    """0 before the fault, rising to 1 within `over`, and back to 0 at once when it ends."""
    grown = np.clip((setting.ts - fault.onset + SECOND) / max(over, SECOND), 0.0, 1.0)
    return np.asarray(np.where(active(setting, fault), grown, 0.0))


def gpu_of(fault: Fault, cluster: Cluster) -> slice:
    """The GPUs struck, as positions."""
    if fault.device is None:
        return slice(0, cluster.gpus)
    number = int(fault.device.removeprefix("nvidia"))
    if not 0 <= number < cluster.gpus:
        raise ValueError(f"{fault.type}: {fault.device!r} is no GPU of a node with {cluster.gpus}")
    return slice(number, number + 1)


def port_of(fault: Fault, cluster: Cluster) -> int:
    """The NIC port struck; one chosen by the fault itself where none is named."""
    if fault.device is None:
        return int(choose(fault, 0, cluster.rails, 2))
    number = int(fault.device.removeprefix("mlx5_").removeprefix("rdma"))
    if not 0 <= number < cluster.rails:
        raise ValueError(f"{fault.type}: {fault.device!r} is no NIC of a node with {cluster.rails}")
    return number


def thermal_throttle(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """Cooling worsens over minutes until the GPU can only hold its limit at a clock that is lower by `effect`."""
    depth = 1.0 - 1.0 / (1.0 + fault.effect)
    share = ramp(setting, fault, int(choose(fault, 4 * MINUTE, 6 * MINUTE)))
    for name in fault.nodes:
        n, gpu = cluster.index[name], gpu_of(fault, cluster)
        sku = cluster.nodes[n].sku
        throttled = sku.idle_watts + (sku.peak_watts - sku.idle_watts) * (1.0 - depth) ** POWER_EXPONENT
        # So bad that even the throttled board would rest a little above the limit: the throttle stays on.
        worst = (THROTTLE_AT + 1.5 - setting.ambient[n, gpu]) / (COOLING_K_PER_W * throttled)
        setting.cooling[n, gpu] *= 1.0 + (worst - 1.0) * share
        # The cut stays within `effect` until the heat sink has cooled down, too.
        held_back = (setting.ts >= fault.onset) & (setting.ts < fault.end + 5 * MINUTE)
        setting.depth_cap[n, gpu] = np.where(held_back, depth, setting.depth_cap[n, gpu])


def nic_degradation(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """One port's link goes bad: symbol errors, lost packets, less carried; the host cannot drain and pauses others."""
    share = ramp(setting, fault, int(choose(fault, 1 * MINUTE, 3 * MINUTE)))
    port = port_of(fault, cluster)
    for name in fault.nodes:
        n = cluster.index[name]
        setting.symbol_rate[n, port] += share * choose(fault, 5, 40, 3)
        setting.receive_error_rate[n, port] += share * choose(fault, 1, 6, 4)
        setting.discard_rate[n, port] += share * choose(fault, 20, 80, 5)
        setting.drop_rate[n, port] += share * choose(fault, 10, 40, 6)
        setting.pause_sent[n] *= 1.0 + share * choose(fault, 4, 8, 7)
        setting.pause_sent[n, port] *= 1.0 + share * choose(fault, 4, 8, 8)
        # Adaptive routing and the library move part of this rail's traffic to the others.
        setting.rail_share[n, port] *= 1.0 - share * min(0.7, 0.25 + fault.effect)
    _slow(setting, fault, cluster, share)


def gpu_lost(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A GPU falls off the bus (XID 79): its series vanish, or most freeze while some families vanish."""
    lasting = active(setting, fault)
    frozen = choose(fault, 0, 1, 9) < 0.5
    for name in fault.nodes:
        n = cluster.index[name]
        gpu = gpu_of(fault, cluster) if fault.device else slice(g := int(choose(fault, 0, cluster.gpus, 10)), g + 1)
        setting.xids.extend((fault.onset, n, g, 79) for g in range(cluster.gpus)[gpu])
        if frozen:
            setting.frozen[n, gpu] |= lasting
        else:
            # The code is still reported for two refreshes, then the driver gives the device up.
            setting.missing[n, gpu] |= lasting & (setting.ts >= fault.onset + MINUTE)
        setting.reloads.append((fault.end, n))


def node_lost(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """The host is gone: no exporter answers. It boots shortly before it is back."""
    for name in fault.nodes:
        n = cluster.index[name]
        setting.up[n] &= ~active(setting, fault)
        setting.boots.append((fault.end, n, fault.end - int(choose(fault, 60, 150, 11)) * SECOND))


def storage_latency(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """One storage system answers 3 to 10 times slower; the jobs on it wait for data now and then."""
    share = ramp(setting, fault, int(choose(fault, 30 * SECOND, 2 * MINUTE)))
    factor = float(np.clip(1.0 + 20.0 * fault.effect, 3.0, 10.0))
    for name in fault.nodes:
        setting.latency[cluster.index[name]] *= factor**share
    _slow(setting, fault, cluster, share * 0.6)
    starving = (setting.ts - fault.onset) % (100 * SECOND) < 30 * SECOND
    for j, job in enumerate(cluster.jobs):
        if set(job.nodes) & set(fault.nodes):
            setting.dip[j] *= 1.0 - np.where(starving, np.minimum(share * 0.4 * (1 + fault.effect), 0.9), 0.0)


def leaf_congestion(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A leaf switch is congested: it pauses all its hosts and marks their packets; every job that crosses it slows."""
    share = ramp(setting, fault, int(choose(fault, 20 * SECOND, 1 * MINUTE)))
    pause, marks = choose(fault, 15, 40, 12), choose(fault, 8, 20, 13)
    for name in fault.nodes:
        n = cluster.index[name]
        setting.pause_received[n] *= 1.0 + share * pause
        setting.marks[n] *= 1.0 + share * marks
    _slow(setting, fault, cluster, share)


def _slow(setting: Setting, fault: Fault, cluster: Cluster, share: Floats) -> None:
    """All ranks of the jobs concerned wait for the slowest: their step takes longer by `effect` × `share`."""
    for j, job in enumerate(cluster.jobs):
        if set(job.nodes) & set(fault.nodes):
            setting.drag[j] += fault.effect * share


KINDS: dict[str, Kind] = {
    "thermal_throttle": Kind("node", None, thermal_throttle),
    "nic_degradation": Kind("node", None, nic_degradation),
    "gpu_lost": Kind("node", None, gpu_lost, stops_job=True, hang=(3 * MINUTE, 6 * MINUTE)),
    "node_lost": Kind("node", None, node_lost, stops_job=True, hang=(1 * MINUTE, 3 * MINUTE)),
    "storage_latency": Kind("group", "storage", storage_latency),
    "leaf_congestion": Kind("group", "leaf", leaf_congestion),
}
"""Every fault type. To add one: its function, its line here, its limit in `truth.LIMITS_S`."""
