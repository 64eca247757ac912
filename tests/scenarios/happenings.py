"""What can happen to the cluster: each word of a scenario's timeline, as a change to its arrays."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.scenarios.cluster import DCGM, GPU_COUNTERS, GPU_GAUGES, NODE, RAIL_COUNTERS, Cluster, Key, minute

Event = Mapping[str, Any]


def gpus_overheat(cluster: Cluster, event: Event) -> None:
    """One GPU of a node (or all) warms by `heat` °C over three minutes and then clocks down."""
    at, until = event["at"], event.get("until")
    warmer = cluster.ramp(at, event.get("ramp", 3.0), until)
    throttled = cluster.during(at + 0.7 * event.get("ramp", 3.0), until)
    for key in _gpus(cluster, event):
        _add(cluster, "gpu_temp", key, np.round(event["heat"] * warmer))
        _times(cluster, "sm_clock", key, np.where(throttled, event.get("clock", 1.0), 1.0))
        if event.get("clock", 1.0) < 1.0:
            cluster.rates["thermal_violation"][key] += np.where(throttled, 2e8, 0.0)
    _job_waits(cluster, event, at + 0.7 * event.get("ramp", 3.0))


def gpu_clocks_low(cluster: Cluster, event: Event) -> None:
    """A GPU's clock falls at once; with `power` it also draws less and cools."""
    during = cluster.during(event["at"], event.get("until"))
    for key in _gpus(cluster, event):
        _times(cluster, "sm_clock", key, np.where(during, event["clock"], 1.0))
        share = event.get("power", 1.0)
        watts = cluster.gauges["gpu_power"][key] * np.where(during, 1 - share, 0.0)
        _add(cluster, "gpu_temp", key, -np.round(0.08 * watts))
        _add(cluster, "gpu_power", key, -watts)
    _job_waits(cluster, event, event["at"])


def rail_errors(cluster: Cluster, event: Event) -> None:
    """Symbol errors on one rail, and less traffic through it."""
    during = cluster.during(event["at"], event.get("until"))
    key = (event["node"], str(event["rail"]))
    cluster.rates["symbol_errors"][key] += np.where(during, event["per_second"], 0.0)
    cluster.rates["rdma_bytes_received"][key] *= np.where(during, event.get("traffic", 1.0), 1.0)
    _job_waits(cluster, event, event["at"])


def rail_dies(cluster: Cluster, event: Event) -> None:
    """A rail carries nothing any more; the host's others go on."""
    during = cluster.during(event["at"], event.get("until"))
    cluster.rates["rdma_bytes_received"][event["node"], str(event["rail"])] *= np.where(during, 0.0, 1.0)
    _job_waits(cluster, event, event["at"])


def packet_lost(cluster: Cluster, event: Event) -> None:
    """One discard, once."""
    cluster.rates["rdma_discards"][event["node"], str(event["rail"])][cluster.columns(event["at"]).start] += 1 / 15


def fabric_pauses(cluster: Cluster, event: Event) -> None:
    """The nodes of a leaf are held back by pause frames."""
    during = cluster.during(event["at"], event.get("until"))
    for node in _nodes(cluster, event):
        for rail in range(cluster.rails):
            cluster.rates["pfc_pause_received"][node, str(rail)] *= np.where(during, event["times"], 1.0)
    _job_waits(cluster, event, event["at"])


def volume_slows(cluster: Cluster, event: Event) -> None:
    """Requests to a volume take `times` as long, on every node or on some."""
    during = cluster.during(event["at"], event.get("until"))
    for node in _nodes(cluster, event):
        cluster.gauges["storage_p99"][node, "train-data"] *= np.where(during, event["times"], 1.0)


def gpu_vanishes(cluster: Cluster, event: Event) -> None:
    """A GPU (or all of a node) no longer stands in the exporter's answer."""
    during = cluster.during(event["at"], event.get("until"))
    for key in _gpus(cluster, event):
        for name in GPU_GAUGES:
            cluster.gauges[name][key][during] = np.nan
        for name in GPU_COUNTERS:
            cluster.rates[name][key][during] = np.nan


def xid(cluster: Cluster, event: Event) -> None:
    """The XID gauge changes to a code and stays there."""
    for key in _gpus(cluster, event):
        cluster.gauges["xid"][key][cluster.during(event["at"], event.get("until"))] = event["code"]


def gpu_freezes(cluster: Cluster, event: Event) -> None:
    """After XID 79 the exporter repeats the last temperature, power, utilisation and clock; the memory in use is left
    out, unless `complete`."""
    where = cluster.columns(event["at"], event.get("until"))
    for key in _gpus(cluster, event):
        for name in ("gpu_temp", "gpu_power", "gpu_util", "sm_clock", "tensor_active"):
            cluster.gauges[name][key][where] = cluster.gauges[name][key][where.start]
        if not event.get("complete"):
            cluster.gauges["framebuffer_used"][key][where] = np.nan


def memory_error(cluster: Cluster, event: Event) -> None:
    """One uncorrectable ECC error, once."""
    for key in _gpus(cluster, event):
        cluster.rates["ecc_uncorrectable"][key][cluster.columns(event["at"]).start] += 1 / 15


def nodes_vanish(cluster: Cluster, event: Event) -> None:
    """All targets of the nodes stop answering."""
    cluster.silence(_nodes(cluster, event), cluster.during(event["at"], event.get("until")))


def nodes_cordoned(cluster: Cluster, event: Event) -> None:
    """The scheduler gives the nodes no new work."""
    during = cluster.during(event["at"], event.get("until"))
    for node in cluster.nodes:
        cluster.gauges["kube_cordoned"][node, ""] = np.where(during & (node in _nodes(cluster, event)), 1.0, 0.0)


def nodes_forgotten(cluster: Cluster, event: Event) -> None:
    """Nobody scrapes the nodes any more: their targets are not down, they are gone."""
    nodes_vanish(cluster, event)
    for (node, _), values in cluster.gauges["up"].items():
        if node in _nodes(cluster, event):
            values[cluster.during(event["at"], event.get("until"))] = np.nan


def nodes_join(cluster: Cluster, event: Event) -> None:
    """The nodes are not there before."""
    nodes_forgotten(cluster, {**event, "at": -1e6, "until": event["at"]})


def nodes_reboot(cluster: Cluster, event: Event) -> None:
    """The nodes go, come back with counters at zero, and take up their jobs again."""
    nodes_vanish(cluster, event)
    back = cluster.columns(event["until"]).start
    for node in _nodes(cluster, event):
        cluster.gauges["boot_time"][node, ""][back:] = (minute(event["until"]) - 60_000) / 1000
        cluster.restarts.setdefault(node, []).append(back)


def exporter_down(cluster: Cluster, event: Event) -> None:
    """One exporter does not answer for a while."""
    target = {"dcgm": DCGM, "node": NODE}[event["exporter"]]
    cluster.silence(_nodes(cluster, event), cluster.during(event["at"], event.get("until")), target)


def collector_fails(cluster: Cluster, event: Event) -> None:
    """The exporter answers, without any RDMA series."""
    during = cluster.during(event["at"], event.get("until"))
    for node in _nodes(cluster, event):
        for name in RAIL_COUNTERS:
            for rail in range(cluster.rails):
                cluster.rates[name][node, str(rail)][during] = np.nan


def prometheus_away(cluster: Cluster, event: Event) -> None:
    """No sample of anything."""
    during = cluster.during(event["at"], event["until"])
    for series in (*cluster.gauges.values(), *cluster.rates.values()):
        for values in series.values():
            values[during] = np.nan


def job_slows(cluster: Cluster, event: Event) -> None:
    """A job's steps take longer; no node is to blame."""
    _job_waits(cluster, {**event, "job_slows": event["by"]}, event["at"], everybody=True)


def checkpoints(cluster: Cluster, event: Event) -> None:
    """Every `every` minutes a job writes for `lasts` seconds: GPUs idle, storage is busy, one step is long."""
    at = event["at"]
    while at < event["until"]:
        during = cluster.during(at, at + event["lasts"] / 60)
        for node in cluster.members(event["job"]):
            for key in cluster.gpu_keys([node]):
                cluster.gauges["gpu_util"][key][during] = 15.0
                _times(cluster, "gpu_power", key, np.where(during, 0.35, 1.0))
                _add(cluster, "gpu_temp", key, np.where(during, -12.0, 0.0))
            cluster.gauges["storage_p99"][node, "train-data"] *= np.where(during, 1.6, 1.0)
            cluster.gauges["iteration_seconds"][event["job"], node] *= np.where(during, 2.0, 1.0)
            for rail in range(cluster.rails):
                cluster.rates["rdma_bytes_received"][node, str(rail)] *= np.where(during, 0.02, 1.0)
        at += event["every"]


def job_waits(cluster: Cluster, event: Event) -> None:
    """A job stands still: its GPUs spin at little power, nothing is sent, no step is done."""
    during = cluster.during(event["at"], event.get("until"))
    for node in cluster.members(event["job"]):
        for key in cluster.gpu_keys([node]):
            watts = cluster.gauges["gpu_power"][key] * np.where(during, 0.65, 0.0)
            _add(cluster, "gpu_power", key, -watts)
            _add(cluster, "gpu_temp", key, -0.08 * watts)
            _times(cluster, "tensor_active", key, np.where(during, 0.0, 1.0))
        cluster.gauges["iteration_seconds"][event["job"], node][during] = np.nan
        for rail in range(cluster.rails):
            cluster.rates["rdma_bytes_received"][node, str(rail)] *= np.where(during, 1e-4, 1.0)


def gpu_idles(cluster: Cluster, event: Event) -> None:
    """A GPU does nothing at all."""
    during = cluster.during(event["at"], event.get("until"))
    for key in _gpus(cluster, event):
        for name, value in (("gpu_util", 0.0), ("gpu_power", 80.0), ("tensor_active", 0.0)):
            cluster.gauges[name][key] = np.where(during, value, cluster.gauges[name][key])


def job_evaluates(cluster: Cluster, event: Event) -> None:
    """Forward passes only: less power, fewer tensor operations, no step."""
    during = cluster.during(event["at"], event.get("until"))
    for node in cluster.members(event["job"]):
        for key in cluster.gpu_keys([node]):
            watts = cluster.gauges["gpu_power"][key] * np.where(during, 0.35, 0.0)
            _add(cluster, "gpu_power", key, -watts)
            _add(cluster, "gpu_temp", key, -0.08 * watts)
            _times(cluster, "tensor_active", key, np.where(during, 0.5, 1.0))
        cluster.gauges["iteration_seconds"][event["job"], node][during] = np.nan


def data_stalls(cluster: Cluster, event: Event) -> None:
    """Every GPU of a job waits for its data again and again: utilisation and power saw, steps take longer."""
    during = cluster.during(event["at"], event.get("until"))
    hungry = during & (cluster.times // 30_000 % 3 == 0)
    for node in cluster.members(event["job"]):
        for key in cluster.gpu_keys([node]):
            _times(cluster, "gpu_util", key, np.where(hungry, 0.3, 1.0))
            _times(cluster, "gpu_power", key, np.where(hungry, 0.5, 1.0))
    _job_waits(cluster, {**event, "job_slows": event["by"]}, event["at"], everybody=True)


def host_pauses(cluster: Cluster, event: Event) -> None:
    """One host cannot drain a rail and sends pause frames."""
    during = cluster.during(event["at"], event.get("until"))
    cluster.rates["pfc_pause_transmitted"][event["node"], str(event["rail"])] *= np.where(during, event["times"], 1.0)
    _job_waits(cluster, event, event["at"])


def corrected_errors(cluster: Cluster, event: Event) -> None:
    """Single-bit errors of a GPU's memory, `per_second`."""
    for key in _gpus(cluster, event):
        cluster.rates["ecc_correctable"][key] += np.where(
            cluster.during(event["at"], event.get("until")), event["per_second"], 0.0
        )


def cpu_taken(cluster: Cluster, event: Event) -> None:
    """Something else uses the host's CPUs."""
    during = cluster.during(event["at"], event.get("until"))
    for node in _nodes(cluster, event):
        cluster.gauges["cpu_busy_ratio"][node, ""] = np.clip(
            cluster.gauges["cpu_busy_ratio"][node, ""] + np.where(during, event["more"], 0.0), 0, 1
        )
    _job_waits(cluster, event, event["at"])


def relabel(cluster: Cluster, event: Event) -> None:
    """The nodes' GPU series go on under other labels (a driver version, a pod)."""
    for node in _nodes(cluster, event):
        start = cluster.columns(event["at"]).start
        cluster.extra_labels.setdefault(node, []).append((start, dict(event["labels"])))


def second_exporter(cluster: Cluster, event: Event) -> None:
    """A second dcgm-exporter reports the same GPUs under other labels, a step behind."""
    cluster.twins.update(_nodes(cluster, event))


def other_sku(cluster: Cluster, event: Event) -> None:
    """The nodes have GPUs of another kind: faster, warmer, hungrier."""
    for key in cluster.gpu_keys(_nodes(cluster, event)):
        _times(cluster, "sm_clock", key, np.full(len(cluster.times), 1.25))
        _times(cluster, "gpu_power", key, np.full(len(cluster.times), 1.7))
        _add(cluster, "gpu_temp", key, np.full(len(cluster.times), 14.0))


HAPPENINGS: dict[str, Callable[[Cluster, Event], None]] = {
    "gpu overheats": gpus_overheat,
    "node overheats": gpus_overheat,
    "gpu clocks low": gpu_clocks_low,
    "rail errors": rail_errors,
    "rail dies": rail_dies,
    "packet lost": packet_lost,
    "fabric pauses": fabric_pauses,
    "volume slows": volume_slows,
    "gpu vanishes": gpu_vanishes,
    "all gpus vanish": gpu_vanishes,
    "gpu freezes": gpu_freezes,
    "xid": xid,
    "memory error": memory_error,
    "nodes vanish": nodes_vanish,
    "nodes cordoned": nodes_cordoned,
    "nodes forgotten": nodes_forgotten,
    "nodes join": nodes_join,
    "nodes reboot": nodes_reboot,
    "exporter down": exporter_down,
    "collector fails": collector_fails,
    "prometheus away": prometheus_away,
    "job slows": job_slows,
    "checkpoints": checkpoints,
    "job waits": job_waits,
    "gpu idles": gpu_idles,
    "job evaluates": job_evaluates,
    "data stalls": data_stalls,
    "host pauses": host_pauses,
    "corrected errors": corrected_errors,
    "cpu taken": cpu_taken,
    "relabel": relabel,
    "second exporter": second_exporter,
    "other sku": other_sku,
}


def _nodes(cluster: Cluster, event: Event) -> tuple[str, ...]:
    if "node" in event:
        return (event["node"],)
    if "nodes" in event:
        return tuple(event["nodes"])
    for kind, table in cluster.groups.items():
        if kind in event:
            return tuple(node for node in cluster.nodes if table.get(node) == event[kind])
    return cluster.nodes


def _gpus(cluster: Cluster, event: Event) -> list[Key]:
    return cluster.gpu_keys(_nodes(cluster, event), event.get("gpu"))


def _add(cluster: Cluster, name: str, key: Key, change: Any) -> None:
    cluster.gauges[name][key] = cluster.gauges[name][key] + change


def _times(cluster: Cluster, name: str, key: Key, factor: Any) -> None:
    cluster.gauges[name][key] = cluster.gauges[name][key] * factor


def _job_waits(cluster: Cluster, event: Event, at: float, everybody: bool = False) -> None:
    """A step takes `job_slows` longer; everybody but the culprit waits: less power, less heat, less traffic."""
    slower = event.get("job_slows", 0.0)
    if not slower:
        return
    during = cluster.during(at, event.get("until"))
    culprits = () if everybody else _nodes(cluster, event)
    jobs = {event["job"]} if "job" in event else {plan.name for plan in cluster.jobs if set(plan.nodes) & set(culprits)}
    for job in jobs:
        for node in cluster.members(job):
            cluster.gauges["iteration_seconds"][job, node] *= np.where(during, 1 + slower, 1.0)
            if node in culprits:
                continue
            for key in cluster.gpu_keys([node]):
                watts = cluster.gauges["gpu_power"][key] * np.where(during, 0.4 * slower, 0.0)
                _add(cluster, "gpu_power", key, -watts)
                _add(cluster, "gpu_temp", key, -0.08 * watts)
            for rail in range(cluster.rails):
                cluster.rates["rdma_bytes_received"][node, str(rail)] *= np.where(during, 1 / (1 + slower), 1.0)
