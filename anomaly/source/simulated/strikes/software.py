"""What a job does to itself: stalls, drifts, hangs, leaks. No node is to blame, but for `hung_rank` and the like."""

import numpy as np

from anomaly.clock import MINUTE, SECOND
from anomaly.source.simulated.fault import Fault, active, choose, one_gpu, ramp, slow, starve
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.setting import Setting


def data_stall(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """The data loader falls behind on every host: I/O wait up, utilisation a saw-tooth, the step longer."""
    share = ramp(setting, fault, int(choose(fault, 15 * SECOND, 2 * MINUTE)))
    for name in fault.nodes:
        setting.cpu_wait[cluster.index[name]] += share * choose(fault, 0.08, 0.25, 3)
    slow(setting, fault, cluster, share)
    starve(setting, fault, cluster, share)


def gradient_sync_slow(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """The collectives take longer everywhere (a slower algorithm, a worse ring): no counter says why."""
    slow(setting, fault, cluster, ramp(setting, fault, int(choose(fault, 0, 30 * SECOND))))


def software_drift(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """Fragmentation, collection pauses, ever longer inputs: the step drifts up over the whole time."""
    slow(setting, fault, cluster, ramp(setting, fault, int(0.7 * (fault.end - fault.onset))))


def memory_leak(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """Every rank's GPU memory climbs towards the end of the board; nothing is slower yet."""
    share = ramp(setting, fault, fault.end - fault.onset)
    for name in fault.nodes:
        setting.memory_extra[cluster.index[name]] += share * choose(fault, 0.07, 0.11, 3)


def collective_hang(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A deadlock: all ranks spin, no node differs. The whole of it is that the job's phase is HUNG."""


def hung_rank(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """One process is stuck outside its kernels: its GPU idle, its host's CPUs quieter, everybody else spins."""
    lasting = active(setting, fault)
    for name in fault.nodes:
        n = cluster.index[name]
        setting.idle[n, one_gpu(fault, cluster)] |= lasting
        setting.cpu_extra[n] -= np.where(lasting, choose(fault, 0.04, 0.09, 3), 0.0)


def memory_held(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A process that outlived its job holds a GPU's memory and does nothing."""
    held = np.where(active(setting, fault), choose(fault, 0.4, 0.85, 3), 0.0)
    for name in fault.nodes:
        setting.memory_extra[cluster.index[name], one_gpu(fault, cluster)] += held


def oom_kills(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """The host runs out of memory and kills a process every half minute or so, without hitting the job."""
    share = ramp(setting, fault, int(choose(fault, 30 * SECOND, 2 * MINUTE)))
    every = int(choose(fault, 15 * SECOND, 50 * SECOND, 3))
    for name in fault.nodes:
        n = cluster.index[name]
        saw = 0.93 + 0.07 * ((setting.ts - fault.onset) % every) / every
        setting.memory_used[n] += share * 0.51 * saw
        setting.ooms.extend((at, n) for at in range(fault.onset + MINUTE, fault.end, every))
