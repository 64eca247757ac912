"""What is not there, no longer moves, or is not what its peers are: GPUs, hosts, exporters, versions."""

import numpy as np

from anomaly.clock import MINUTE, SECOND
from anomaly.source.simulated.fault import Fault, active, choose, gpu_of, one_gpu
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.setting import Setting

NEW_DRIVER, MIG = 1, 2
"""Positions in `exposition.DRESSES`."""


def gpu_lost(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A GPU falls off the bus (XID 79): its series vanish, or most freeze while some families vanish."""
    lasting = active(setting, fault)
    frozen = choose(fault, 0, 1, 9) < 0.5
    for name in fault.nodes:
        n = cluster.index[name]
        gpu = gpu_of(fault, cluster) if fault.device else slice(g := one_gpu(fault, cluster), g + 1)
        setting.xids.extend((fault.onset, n, g, 79) for g in range(cluster.gpus)[gpu])
        if frozen:
            setting.frozen[n, gpu] |= lasting
        else:
            # The code is still reported for two refreshes, then the driver gives the device up.
            setting.missing[n, gpu] |= lasting & (setting.ts >= fault.onset + MINUTE)
        setting.reloads.append((fault.end, n))


def gpu_stuck(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A GPU stops answering without a code: all its readings repeat the last ones, at load; the job hangs."""
    for name in fault.nodes:
        n = cluster.index[name]
        setting.stale[n, one_gpu(fault, cluster)] |= active(setting, fault)
        setting.reloads.append((fault.end, n))


def node_lost(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """The host is gone: no exporter answers. It boots shortly before it is back."""
    for name in fault.nodes:
        n = cluster.index[name]
        setting.up[n] &= ~active(setting, fault)
        setting.boots.append((fault.end, n, fault.end - int(choose(fault, 60, 150, 11)) * SECOND))


def exporter_dead(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """The GPU exporter answers nobody; host and job are well."""
    for name in fault.nodes:
        setting.dcgm_up[cluster.index[name]] &= ~active(setting, fault)


def telemetry_frozen(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """The exporter repeats what it last read of every GPU, while the job goes on."""
    for name in fault.nodes:
        setting.stale[cluster.index[name]] |= active(setting, fault)


def driver_mismatch(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A node comes back from maintenance with another driver than its peers: only a label tells."""
    _dress(setting, fault, cluster, NEW_DRIVER)


def mig_lost(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A node in MIG mode loses its slices with a reload of the driver: its series are of whole GPUs from then on."""
    for name in fault.nodes:
        n = cluster.index[name]
        setting.dress[n] = np.where(active(setting, fault), 0, MIG)
        setting.reloads.append((fault.onset, n))


def _dress(setting: Setting, fault: Fault, cluster: Cluster, dress: int) -> None:
    for name in fault.nodes:
        n = cluster.index[name]
        setting.dress[n] = np.where(active(setting, fault), dress, setting.dress[n])
        setting.reloads.append((fault.onset, n))
