"""One fault, and what the functions that let it strike share: its time course, its device, whom it slows."""

from dataclasses import dataclass

import numpy as np

from anomaly.clock import SECOND, Ms
from anomaly.records import Bools, Floats
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.limits import DUE
from anomaly.source.simulated.setting import Setting


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its type, whom it strikes, from when (inclusive) until when (exclusive).

    `device` is a GPU index or a NIC name (`mlx5_3`); None leaves the choice to the fault (a thermal fault then
    strikes every GPU of the node). `group` names the shared entity of a shared fault, or the job of a job's, `nodes`
    being the members.
    """

    type: str
    nodes: tuple[str, ...]
    onset: Ms
    end: Ms
    effect: float = 0.25
    device: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if self.type not in DUE:
            raise ValueError(f"no fault is called {self.type!r}; there are {', '.join(DUE)}")
        if not self.nodes or self.end <= self.onset:
            raise ValueError(f"{self.type}: a fault needs nodes and an end after its onset")
        if not 0 < self.effect <= 2:
            raise ValueError(f"{self.type}: effect is a share of the step time in (0, 2], not {self.effect}")


def choose(fault: Fault, low: float, high: float, salt: int = 0) -> float:
    """A detail the caller left open: uniform in [low, high), always the same for the same fault."""
    words = [salt, fault.onset % 2**32, *fault.nodes[0].encode(), *fault.type.encode()]
    return float(np.random.default_rng(words).uniform(low, high))


def choose_log(fault: Fault, low: float, high: float, salt: int = 0) -> float:
    """The same, evenly over orders of magnitude."""
    return float(np.exp(choose(fault, np.log(low), np.log(high), salt)))


def active(setting: Setting, fault: Fault) -> Bools:
    """At which steps the fault lasts."""
    return (setting.ts >= fault.onset) & (setting.ts < fault.end)


def ramp(setting: Setting, fault: Fault, over: Ms) -> Floats:
    """0 before the fault, rising to 1 within `over`, and back to 0 at once when it ends."""
    grown = np.clip((setting.ts - fault.onset + SECOND) / max(over, SECOND), 0.0, 1.0)
    return np.asarray(np.where(active(setting, fault), grown, 0.0))


def gpu_of(fault: Fault, cluster: Cluster) -> slice:
    """The GPUs struck, as positions: all of the node where none is named."""
    if fault.device is None:
        return slice(0, cluster.gpus)
    number = int(fault.device.removeprefix("nvidia"))
    if not 0 <= number < cluster.gpus:
        raise ValueError(f"{fault.type}: {fault.device!r} is no GPU of a node with {cluster.gpus}")
    return slice(number, number + 1)


def one_gpu(fault: Fault, cluster: Cluster) -> int:
    """The one GPU struck; one chosen by the fault itself where none is named."""
    return int(choose(fault, 0, cluster.gpus, 10)) if fault.device is None else gpu_of(fault, cluster).start


def port_of(fault: Fault, cluster: Cluster) -> int:
    """The NIC port struck; one chosen by the fault itself where none is named."""
    if fault.device is None:
        return int(choose(fault, 0, cluster.rails, 2))
    number = int(fault.device.removeprefix("mlx5_").removeprefix("rdma"))
    if not 0 <= number < cluster.rails:
        raise ValueError(f"{fault.type}: {fault.device!r} is no NIC of a node with {cluster.rails}")
    return number


def jobs_on(fault: Fault, cluster: Cluster) -> list[int]:
    """The jobs that use any of the fault's nodes, as positions."""
    return [j for j, job in enumerate(cluster.jobs) if set(job.nodes) & set(fault.nodes)]


def slow(setting: Setting, fault: Fault, cluster: Cluster, share: Floats) -> None:
    """All ranks of the jobs concerned wait for the slowest: their step takes longer by `effect` × `share`."""
    for j in jobs_on(fault, cluster):
        setting.drag[j] += fault.effect * share


def starve(setting: Setting, fault: Fault, cluster: Cluster, share: Floats) -> None:
    """The jobs concerned wait for data for 30 of every 100 seconds."""
    starving = (setting.ts - fault.onset) % (100 * SECOND) < 30 * SECOND
    for j in jobs_on(fault, cluster):
        setting.dip[j] *= 1.0 - np.where(starving, np.minimum(share * 0.4 * (1 + fault.effect), 0.9), 0.0)
