"""What a model must not learn from: the stretches of history in which a node was found at fault."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anomaly.clock import Ms
from anomaly.jobs.pace import Pace
from anomaly.records import Bools, Floats, Ints, Phase, Severity
from anomaly.second_opinion import is_forest
from anomaly.store.store import Store


@dataclass(frozen=True, slots=True)
class Stretch:
    """A node at fault from `start` to `end` (nominal time); `weight` is how bad."""

    node: str
    start: Ms
    end: Ms
    weight: float


HARD = 1e6


def stretches(store: Store, pace: Pace, start: Ms, end: Ms) -> tuple[Stretch, ...]:
    """From the findings that name a node, and from pages and tickets, in [start, end] (real time).

    What the forest itself found odd does not count: it would never learn better.
    """
    out = [
        Stretch(
            finding.entity.name,
            pace.nominal(finding.onset),
            pace.nominal(finding.last),
            HARD if finding.hard else finding.peak,
        )
        for finding in store.findings(start, end)
        if finding.entity.kind == "node"
        and (finding.asymmetric or finding.hard)
        and finding.cause != "telemetry"
        and not is_forest(finding.detector)
    ]
    for incident in store.incidents(start=start, end=end, limit=100_000):
        if incident.phase is not Phase.PENDING and incident.severity is not Severity.INFO and incident.scope != "job":
            until = end if incident.resolved_at is None else incident.resolved_at
            nodes = incident.nodes if incident.cause != "unknown" else ()
            out += [Stretch(node, pace.nominal(incident.onset), pace.nominal(until), 1.0) for node in nodes]
    return tuple(out)


def within(found: Sequence[Stretch], nodes: Sequence[str], times: Ints, window: Ms, margin: Ms) -> Floats:
    """For each node window that ends at `times`: the largest weight of the stretches that come within `margin` of it,
    0 for none."""
    out = np.zeros(len(times))
    names = np.array(nodes, dtype=object)
    for item in found:
        near = (names == item.node) & (times >= item.start - margin) & (times - window <= item.end + margin)
        out[near] = np.maximum(out[near], item.weight)
    return out


def capped(weight: Floats, most: float) -> Bools:
    """Which windows to leave out: those with a weight, but of many only the worst, up to the share `most` of all."""
    out: Bools = weight > 0.0
    limit = int(most * len(weight))
    if out.sum() > limit:
        order = np.argsort(-weight, kind="stable")
        out = np.zeros(len(weight), bool)
        out[order[:limit]] = True
    return out
