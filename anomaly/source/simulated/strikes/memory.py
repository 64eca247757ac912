"""GPU memory and NVLink: corrected bits, uncorrectable ones, links."""

from anomaly.clock import MINUTE, SECOND
from anomaly.source.simulated.fault import Fault, active, choose, choose_log, one_gpu, ramp
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.setting import Setting


def ecc_storm(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """Corrected bits by the hundreds or thousands a second under load; after ten minutes a row is remapped (XID 63)."""
    share = ramp(setting, fault, int(choose(fault, 30 * SECOND, 3 * MINUTE)))
    remapped = fault.onset + int(choose(fault, 8 * MINUTE, 12 * MINUTE, 4))
    for name in fault.nodes:
        n, gpu = cluster.index[name], one_gpu(fault, cluster)
        setting.ecc_rate[n, gpu] += share * choose_log(fault, 100, 20_000, 3)
        if remapped < fault.end:
            setting.gpu_events.append((remapped, n, gpu, "remapped_rows", 1))
            setting.xids.append((remapped, n, gpu, 63))


def ecc_growth(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """Corrected bits come more and more often, over the whole time of the fault; the job feels nothing."""
    share = ramp(setting, fault, fault.end - fault.onset)
    for name in fault.nodes:
        n, gpu = cluster.index[name], one_gpu(fault, cluster)
        setting.ecc_rate[n, gpu] += share * choose_log(fault, 0.05, 1.0, 3)


def ecc_uncorrectable(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A double-bit error (XID 48, 94 or 95): the process dies, its peers spin until the job is aborted."""
    code = (48, 94, 95)[int(choose(fault, 0, 3, 3))]
    lasting = active(setting, fault)
    for name in fault.nodes:
        n, gpu = cluster.index[name], one_gpu(fault, cluster)
        setting.xids.append((fault.onset, n, gpu, code))
        setting.gpu_events.append((fault.onset, n, gpu, "ecc_dbe", 1 + int(choose(fault, 0, 2, 4))))
        setting.gpu_events.append((fault.onset, n, gpu, "remapped_rows", 1))
        setting.freed[n, gpu] |= lasting
        setting.reloads.append((fault.end, n))


def nvlink_link(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """One NVLink of a GPU repeats itself: CRC errors and replays grow, the node's collectives take longer."""
    share = ramp(setting, fault, int(choose(fault, 15 * SECOND, 2 * MINUTE)))
    for name in fault.nodes:
        n, gpu = cluster.index[name], one_gpu(fault, cluster)
        setting.nvlink_rate[n, gpu] += share * choose_log(fault, 2, 200, 3)
        setting.lag[n] += share * fault.effect


def nvlink_all(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """The NVLink fabric of a node fails (XID 74 on all its GPUs) after a minute of errors; the job hangs."""
    lasting = (setting.ts >= fault.onset - MINUTE) & (setting.ts < fault.end)
    for name in fault.nodes:
        n = cluster.index[name]
        setting.nvlink_rate[n] += lasting * choose_log(fault, 20, 500, 3)
        setting.xids.extend((fault.onset, n, gpu, 74) for gpu in range(cluster.gpus))
        setting.reloads.append((fault.end, n))
