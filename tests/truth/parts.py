"""Truths and incidents as tests write them: minutes after ten o'clock."""

from typing import Any

from anomaly.clock import MINUTE, Ms, format_time, parse_time
from anomaly.truth import Fault, Report, Truth, judge
from anomaly.truth.facts import Decoy, Expect

TEN = parse_time("2026-11-30T10:00:00Z")
JOB = tuple(f"gpu-{i:02}" for i in range(1, 9))
LEAF = tuple(f"gpu-{i:02}" for i in range(9, 17))
NODES = 32


def at(minute: float) -> Ms:
    return TEN + round(minute * MINUTE)


def throttle(culprit: str = "gpu-03", onset: float = 30, end: float = 50, **more: Any) -> Fault:
    """A node fault that drags its whole job along; to be found within ten minutes."""
    expect: Expect = more.pop("expect", "node_alert")
    name = more.pop("id", f"f-{culprit}-{onset:g}")
    return Fault(name, "thermal_throttle", "node", JOB, (culprit,), None, at(onset), at(end), expect,
                 10 * MINUTE, "thermal", 0.2, **more)  # fmt: skip


def congestion(onset: float = 30, end: float = 50) -> Fault:
    """A fault that all members of leaf-2 share."""
    return Fault("leaf", "leaf_congestion", "group", LEAF, (), "leaf-2", at(onset), at(end), "shared_alert",
                 8 * MINUTE, "network", 0.5)  # fmt: skip


def checkpoint(start: float, end: float) -> Decoy:
    return Decoy("checkpoint", JOB, at(start), at(end))


def line(
    incident: str, minute: float, severity: str = "critical", node: str | None = None, **more: Any
) -> dict[str, Any]:
    """An incident's JSON line, written at `minute`; about a node, or about `group` with `nodes`."""
    nodes = more.pop("nodes", [node] if node else [])
    return {
        "id": incident,
        "scope": "node" if node else more.pop("scope", "group"),
        "node": node,
        "group": more.pop("group", None),
        "nodes": list(nodes),
        "victims": [],
        "cause": "thermal",
        "severity": severity,
        "previous_severity": None,
        "onset": format_time(at(minute - 3)),
        "fired_at": format_time(at(more.pop("fired", minute))),
        "updated_at": format_time(at(minute)),
        "resolved_at": None,
        **more,
    }


def judged(
    faults: list[Fault], lines: list[dict[str, Any]], *decoys: Decoy, start: float = 0, end: float = 120
) -> Report:
    return judge(Truth(tuple(faults), decoys), lines, start=at(start), end=at(end), nodes=NODES)
