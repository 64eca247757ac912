"""What the rules know besides findings, and what they remember from tick to tick."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from anomaly.clock import MINUTE, Ms
from anomaly.records import Entity, Finding, Incident, Phase, Scope, Severity

JOB_PATIENCE: Ms = 5 * MINUTE
"""How long a slow job waits for a node to explain it before it is reported without one (heat takes minutes)."""

HANG_PATIENCE: Ms = MINUTE
"""The same for a job that hangs: what has stopped it is a fact by now, or will not be one soon."""

JOB_SILENCE: Ms = 5 * MINUTE
"""A slow job that has not said anything for this long has ended, or recovers; it begins no incident."""

AFTERMATH: Ms = 15 * MINUTE
"""How long a slowdown that had an explanation keeps it after the explaining case has ended: jobs recover later."""

BOOT_GRACE: Ms = 10 * MINUTE
"""Soft verdicts on a node that has just booted wait (drivers load, links train)."""

TOGETHER: Ms = 5 * MINUTE
"""Onsets within this of each other count as simultaneous for windowed signals; plus the signals' own uncertainty."""


@dataclass(frozen=True, slots=True)
class World:
    """The tick's surroundings. All maps are as of `now`."""

    now: Ms
    cluster: str
    step: Ms
    nodes: frozenset[str]
    groups: Mapping[str, Mapping[str, str]]
    """Kind of group → node → group name (rack, leaf, pdu, storage, sku …)."""
    jobs: Mapping[str, frozenset[str]]
    """Training job → the nodes that work for it."""
    alone: Mapping[str, Severity] = field(default_factory=dict)
    """Signal → how loud an incident may be that rests on it alone."""
    shared_kinds: Mapping[str, str] = field(default_factory=dict)
    """Signal → kind of the shared entity behind it, whose name is the finding's device."""
    effects: Mapping[str, str] = field(default_factory=dict)
    """Signal → the signal that, on one node, brings it about on others."""
    booted: Mapping[str, Ms] = field(default_factory=dict)
    coverage: Mapping[str, float] = field(default_factory=dict)
    maintenance: frozenset[str] = frozenset()
    stirring: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Signal → nodes past its boundary that have not been so for long enough yet."""

    def members(self, entity: Entity) -> frozenset[str]:
        """The nodes of a group, a job or the whole cluster; the node itself for a node."""
        if entity.kind == "node":
            return frozenset({entity.name})
        if entity.kind == "cluster":
            return self.nodes
        if entity.kind == "job":
            return self.jobs.get(entity.name, frozenset())
        return frozenset(node for node, name in self.groups.get(entity.kind, {}).items() if name == entity.name)

    def jobs_of(self, node: str) -> tuple[str, ...]:
        return tuple(sorted(job for job, nodes in self.jobs.items() if node in nodes))


@dataclass(frozen=True, slots=True)
class Case:
    """Findings that have one explanation, at one tick: what an incident is made of."""

    scope: Scope
    entity: Entity
    findings: tuple[Finding, ...]
    nodes: tuple[str, ...]
    effects: tuple[Finding, ...] = ()
    """Slow jobs that this case explains."""
    cause: str = ""
    severity: Severity = Severity.WARNING

    @property
    def hard(self) -> bool:
        return any(finding.hard for finding in self.findings)

    @property
    def onset(self) -> Ms:
        """The earliest of what names it: a symptom that merely joins may have begun with another story."""
        naming = [finding.onset for finding in self.findings if finding.asymmetric or finding.hard]
        return min(naming or [finding.onset for finding in self.findings])

    @property
    def confirmed(self) -> Ms:
        return min(finding.confirmed for finding in self.findings)

    @property
    def uncertainty(self) -> Ms:
        return min(self.findings, key=lambda finding: finding.onset).uncertainty

    def effect_ratio(self) -> float | None:
        """How much longer a step takes, 0.18 = 18 %; None when no job's step time speaks of it."""
        ratios = [
            round(finding.observed / finding.expected - 1.0, 6)
            for finding in self.effects
            if finding.observed is not None and finding.expected
        ]
        return max(ratios, default=None)


@dataclass(frozen=True, slots=True)
class Closing:
    """An incident that a person has closed, for as long as the findings last that it was about."""

    incident: str
    entities: tuple[Entity, ...]
    signals: tuple[str, ...]
    jobs: tuple[str, ...]
    """Jobs whose slowdown it explained."""
    at: Ms


@dataclass(frozen=True, slots=True)
class Memory:
    """What is carried from tick to tick: the incidents not yet over, and which slowdowns have been explained."""

    open: tuple[Incident, ...] = ()
    explained: tuple[tuple[str, Ms, Ms], ...] = ()
    """(job, onset of its slowdown, when it last had an explanation)."""
    asked: tuple[str, ...] = ()
    """Ids of incidents that a person wants closed: done at the next tick."""
    closings: tuple[Closing, ...] = ()

    def of(self, entity: Entity) -> Incident | None:
        return next((incident for incident in self.open if incident.entity == entity), None)

    def fires(self, entity: Entity) -> bool:
        known = self.of(entity)
        return known is not None and known.phase is Phase.FIRING
