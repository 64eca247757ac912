"""Heat, power, clocks, and what keeps a GPU waiting inside its host."""

import numpy as np

from anomaly.clock import MINUTE, SECOND
from anomaly.records import Bools
from anomaly.source.simulated.fault import Fault, active, choose, choose_log, gpu_of, one_gpu, ramp
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.setting import COOLING_K_PER_W, POWER_EXPONENT, THROTTLE_AT, Setting


def thermal_throttle(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """Cooling worsens over minutes until the GPU can only hold its limit at a clock that is lower by `effect`."""
    depth = 1.0 - 1.0 / (1.0 + fault.effect)
    share = ramp(setting, fault, int(choose(fault, 4 * MINUTE, 6 * MINUTE)))
    for name in fault.nodes:
        n, gpu = cluster.index[name], gpu_of(fault, cluster)
        throttled = _throttled_watts(cluster, n, depth)
        # So bad that even the throttled board would rest a little above the limit: the throttle stays on.
        worst = (THROTTLE_AT + 1.5 - setting.ambient[n, gpu]) / (COOLING_K_PER_W * throttled)
        setting.cooling[n, gpu] *= 1.0 + (worst - 1.0) * share
        _hold_back(setting, fault, n, gpu, depth)


def coolant_loss(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """Coolant flow fails: the whole rack warms over ten minutes until its boards throttle by `effect`."""
    depth = 1.0 - 1.0 / (1.0 + fault.effect)
    share = ramp(setting, fault, int(choose(fault, 7 * MINUTE, 10 * MINUTE)))
    for name in fault.nodes:
        n = cluster.index[name]
        target = THROTTLE_AT + 1.5 - COOLING_K_PER_W * _throttled_watts(cluster, n, depth)
        setting.ambient[n] += np.maximum(target - setting.ambient[n], 0.0) * share
        _hold_back(setting, fault, n, slice(0, cluster.gpus), depth)


def power_brake(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """The power brake is pulled: clocks drop at once to a low plateau, and the boards cool."""
    cut = 1.0 / (1.0 + fault.effect)
    lasting = active(setting, fault)
    for name in fault.nodes:
        n, gpu = cluster.index[name], gpu_of(fault, cluster)
        setting.clock_cap[n, gpu] = np.where(lasting, cut, setting.clock_cap[n, gpu])
        setting.power_held[n, gpu] += np.where(lasting, choose(fault, 0.85, 0.98, 3), 0.0)


def power_swing(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A supply at its limit: the brake is on and off every minute or so; clock, power and step time swing."""
    cut = 1.0 / (1.0 + 2.0 * fault.effect)
    period = int(choose(fault, 45 * SECOND, 120 * SECOND))
    on = active(setting, fault) & ((setting.ts - fault.onset) % period < period / 2)
    for name in fault.nodes:
        n, gpu = cluster.index[name], gpu_of(fault, cluster)
        setting.clock_cap[n, gpu] = np.where(on, cut, setting.clock_cap[n, gpu])
        setting.power_held[n, gpu] += np.where(on, 0.9, 0.0)


def wrong_power_cap(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """The power limit is set too low: power saturates on a flat top, the clock follows, from the first minute."""
    lasting = active(setting, fault)
    speed = 1.0 / (1.0 + fault.effect)
    for name in fault.nodes:
        n, gpu = cluster.index[name], gpu_of(fault, cluster)
        watts = _throttled_watts(cluster, n, 1.0 - speed)
        setting.watts_cap[n, gpu] = np.where(lasting, watts, setting.watts_cap[n, gpu])
        # A limit that is reached counts as a violation for a part of the time only.
        setting.power_held[n, gpu] += np.where(lasting, choose(fault, 0.3, 0.7, 3), 0.0)


def clock_lock(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A diagnostic left the clock locked: lower than its peers' for no reason that any counter gives."""
    lasting = active(setting, fault)
    for name in fault.nodes:
        n, gpu = cluster.index[name], gpu_of(fault, cluster)
        setting.clock_cap[n, gpu] = np.where(lasting, 1.0 / (1.0 + fault.effect), setting.clock_cap[n, gpu])


def cpu_contention(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """Somebody else's processes on the host: CPUs busy, tasks queue, gaps between the kernels of all its GPUs."""
    share = ramp(setting, fault, int(choose(fault, 10 * SECOND, 60 * SECOND)))
    for name in fault.nodes:
        n = cluster.index[name]
        setting.cpu_extra[n] += share * choose(fault, 0.35, 0.65, 3)
        setting.run_queue[n] += share * choose(fault, 1.0, 3.0, 4)
        setting.lag[n] += share * fault.effect


def pcie_degraded(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A GPU's PCIe link has lost lanes: its host copies slowly, its NIC cannot drain and pauses others.

    Two in three count replays; the others show no error at all.
    """
    share = ramp(setting, fault, int(choose(fault, 30 * SECOND, 3 * MINUTE)))
    loud = choose(fault, 0, 1, 3) < 2 / 3
    for name in fault.nodes:
        n, gpu = cluster.index[name], one_gpu(fault, cluster)
        port = gpu % cluster.rails
        if loud:
            setting.pcie_rate[n, gpu] += share * choose_log(fault, 0.5, 20, 4)
        setting.pause_sent[n, port] *= 1.0 + share * choose(fault, 8, 25, 5)
        setting.rail_share[n, port] *= 1.0 - share * min(0.7, 0.2 + fault.effect)
        setting.lag[n] += share * fault.effect


def _throttled_watts(cluster: Cluster, n: int, depth: float) -> float:
    sku = cluster.nodes[n].sku
    return float(sku.idle_watts + (sku.peak_watts - sku.idle_watts) * (1.0 - depth) ** POWER_EXPONENT)


def _hold_back(setting: Setting, fault: Fault, n: int, gpu: slice, depth: float) -> None:
    """The cut stays within `depth` until the heat sink has cooled down, too."""
    held_back: Bools = (setting.ts >= fault.onset) & (setting.ts < fault.end + 5 * MINUTE)
    setting.depth_cap[n, gpu] = np.where(held_back, depth, setting.depth_cap[n, gpu])
