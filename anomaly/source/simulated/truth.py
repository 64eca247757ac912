"""What really happened in a scenario, in the form that `anomaly backtest --truth` reads."""

from collections.abc import Mapping, Sequence
from typing import Any

from anomaly.clock import MINUTE, SECOND, Ms, format_time
from anomaly.source.simulated.faults import KINDS, Fault
from anomaly.source.simulated.jobs import START_TAKES, checkpoints, evaluations
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.limits import DUE, NOTICEABLE
from anomaly.source.simulated.noise import Noise
from anomaly.source.simulated.scenario import Scenario
from anomaly.source.simulated.setting import QUIET_EVERY, quiet_events

LIMITS_S: Mapping[str, int] = {name: due.limit_s for name, due in DUE.items()}
CAUSE_FAMILY: Mapping[str, str | None] = {name: due.cause_family for name, due in DUE.items()}


def truth(scenario: Scenario) -> dict[str, Any]:
    """The faults of a scenario, and what looks like one and is none, as plain JSON values.

    What slows its job by less than a tenth is not due: a job's slowdown is then nothing, any other is a ticket at most.

    For a node fault, `nodes` are all that its job drags along and `culprit_nodes` the one at fault; for a shared one,
    `nodes` are the group's members and nobody is the culprit.
    """
    faults = enumerate(scenario.faults, 1)
    return {
        "faults": [_fault(f"f{number}", fault, scenario.cluster) for number, fault in faults],
        "decoys": decoys(scenario.cluster, scenario.simulation.origin, scenario.start, scenario.end, scenario.noise),
    }


def decoys(cluster: Cluster, origin: Ms, start: Ms, end: Ms, noise: Sequence[Noise] = ()) -> list[dict[str, Any]]:
    """Harmless events in [start, end] by start: checkpoints, job starts and ends, an exporter restart and the like."""
    found: list[tuple[Ms, Ms, str, tuple[str, ...]]] = [(each.start, each.end, each.type, each.nodes) for each in noise]
    for j, job in enumerate(cluster.jobs):
        begin = origin + job.starts_after
        finish = end if job.ends_after is None else origin + job.ends_after
        for first, last in checkpoints(cluster, j, origin, max(start, begin), min(end, finish)):
            found.append((first, last, "checkpoint", job.nodes))
        for first, last in evaluations(cluster, j, origin, max(start, begin), min(end, finish)):
            found.append((first, last, "evaluation", job.nodes))
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
    kind, due = KINDS[fault.type], DUE[fault.type]
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
        "expect": expected(fault),
        "max_delay_s": due.limit_s,
        "cause_family": due.cause_family,
        "effect": fault.effect if kind.slows else None,
    }


def expected(fault: Fault) -> str:
    """What the fault calls for, its effect considered."""
    kind, due = KINDS[fault.type], DUE[fault.type]
    if kind.slows and fault.effect < NOTICEABLE:
        return "none" if kind.scope == "job" else "ticket"
    return due.expect
