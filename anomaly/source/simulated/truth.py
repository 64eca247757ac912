"""What really happened in a scenario, in the form that `anomaly backtest --truth` reads."""

from collections.abc import Mapping
from typing import Any

from anomaly.clock import MINUTE, SECOND, Ms, format_time
from anomaly.source.simulated.faults import KINDS, Fault
from anomaly.source.simulated.jobs import START_TAKES, checkpoints
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.scenario import Scenario
from anomaly.source.simulated.setting import QUIET_EVERY, quiet_events

LIMITS_S: Mapping[str, int] = {
    "gpu_lost": 240,
    "node_lost": 240,
    "nic_degradation": 480,
    "leaf_congestion": 480,
    "storage_latency": 480,
    "thermal_throttle": 600,
}
"""Seconds from onset within which a fault must be found. Fixed before any detector was tuned.

A lost device is a fact at the next scrape. A slow fault grows for up to three minutes and must last a few more to
differ from a burst; a thermal one needs three to five minutes before the clock falls at all.
"""

CAUSE_FAMILY: Mapping[str, str] = {
    "gpu_lost": "gpu_lost",
    "node_lost": "node_lost",
    "nic_degradation": "network",
    "leaf_congestion": "network",
    "storage_latency": "storage",
    "thermal_throttle": "thermal",
}


def truth(scenario: Scenario) -> dict[str, Any]:
    """The faults of a scenario, and what looks like one and is none, as plain JSON values.

    For a node fault, `nodes` are all that its job drags along and `culprit_nodes` the one at fault; for a shared one,
    `nodes` are the group's members and nobody is the culprit.
    """
    faults = enumerate(scenario.faults, 1)
    return {
        "faults": [_fault(f"f{number}", fault, scenario.cluster) for number, fault in faults],
        "decoys": decoys(scenario.cluster, scenario.simulation.origin, scenario.start, scenario.end),
    }


def decoys(cluster: Cluster, origin: Ms, start: Ms, end: Ms) -> list[dict[str, Any]]:
    """Harmless events in [start, end] by start: checkpoints, job starts and ends, an exporter restart and the like."""
    found: list[tuple[Ms, Ms, str, tuple[str, ...]]] = []
    for j, job in enumerate(cluster.jobs):
        begin = origin + job.starts_after
        finish = end if job.ends_after is None else origin + job.ends_after
        for first, last in checkpoints(cluster, j, origin, max(start, begin), min(end, finish)):
            found.append((first, last, "checkpoint", job.nodes))
        if begin > origin:
            found.append((begin, begin + START_TAKES, "job_start", job.nodes))
        if job.ends_after is not None:
            found.append((finish, finish + 2 * MINUTE, "job_end", job.nodes))
    for stretch in range((end - origin) // QUIET_EVERY + 1):
        for name, (instant, node) in quiet_events(cluster, origin, stretch).items():
            found.append((instant, instant + 30 * SECOND, name, (cluster.nodes[node].name,)))
    return [
        {"type": name, "nodes": list(nodes), "start": format_time(first), "end": format_time(last)}
        for first, last, name, nodes in sorted(found)
        if last > start and first < end
    ]


def _fault(name: str, fault: Fault, cluster: Cluster) -> dict[str, Any]:
    kind = KINDS[fault.type]
    by_node = kind.scope == "node"
    jobs = cluster.jobs_of(fault.nodes)
    dragged = sorted({*fault.nodes, *(node for job in jobs for node in job.nodes)}, key=cluster.index.__getitem__)
    return {
        "id": name,
        "type": fault.type,
        "scope": kind.scope,
        "nodes": dragged if by_node else list(fault.nodes),
        "culprit_nodes": list(fault.nodes) if by_node else [],
        "group": fault.group,
        "onset": format_time(fault.onset),
        "end": format_time(fault.end),
        "expect": "node_alert" if by_node else "shared_alert",
        "max_delay_s": LIMITS_S[fault.type],
        "cause_family": CAUSE_FAMILY[fault.type],
        "effect": fault.effect,
    }
