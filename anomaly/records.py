"""The nouns: small frozen records that the rooms hand to each other. Standard library and NumPy only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms

Labels = Mapping[str, str]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SignalKind = Literal["gauge", "counter", "event", "state"]
Bad = Literal["high", "low", "both", "none"]
Scope = Literal["node", "group", "job"]


class Severity(StrEnum):
    """How loud an incident is. Critical is a page, warning a ticket, info a note that never leaves our tables."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return ("info", "warning", "critical").index(self.value)


@dataclass(frozen=True, slots=True, order=True)
class Entity:
    """What a verdict is about: a node, a switch, a storage system, a job, a rack …"""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


# ── what a source brings ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Pulled:
    """What one query returned for one range, as columns: no Python object per sample.

    `labels[i]` owns the next `lengths[i]` entries of `ts` and `values`. Every series' `ts` rises strictly; the
    same label set appears once. NaN and ±Inf are kept as given.
    """

    labels: tuple[Labels, ...]
    lengths: Ints
    ts: Ints
    values: Floats
    warnings: tuple[str, ...] = ()
    """What the backend said about completeness (`warnings`, `isPartial`): data-quality events."""


@dataclass(frozen=True, slots=True)
class Query:
    """One range query: PromQL text without placeholders, inclusive bounds on the grid of `step`."""

    signal: str
    promql: str
    start: Ms
    end: Ms
    step: Ms


# ── what the store holds ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """One underlying series as the store knows it: an identity and the labels it came with."""

    series_id: int
    signal: str
    entity: Entity
    device: str
    part: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of one signal as columns, sorted by nothing in particular."""

    series_id: NDArray[np.int32]
    ts: Ints
    values: Floats

    def __len__(self) -> int:
        return len(self.ts)


# ── what detection says ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation behind a verdict, in the signal's own unit."""

    signal: str
    device: str
    observed: float | None
    expected: float | None
    unit: str
    detector: str
    score: float = 1.0
    onset: Ms = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """Scores of one series (or one entity) past the boundary: open while they last.

    `hard` findings are facts (an XID, a vanished GPU), not statistics. `asymmetric` ones name their entity; the
    others are symptoms that a whole job shares. `peak` is the largest score, 1.0 being the boundary.
    """

    entity: Entity
    signal: str
    device: str
    detector: str
    cause: str
    symptom: str
    """Symptom class: compute, thermal, memory, nvlink, network, storage, host, training, presence."""
    hard: bool
    asymmetric: bool
    onset: Ms
    uncertainty: Ms
    """The onset is known no finer than this."""
    last: Ms
    """The newest step with a score past the boundary."""
    peak: float
    score: float
    direction: Literal["high", "low"]
    observed: float | None
    expected: float | None
    unit: str
    hint: str = ""
    """What the detector knows beyond numbers, in words (`XID 79: GPU has fallen off the bus`)."""
    confirmed: Ms = 0
    """When it had lasted long enough to mean something."""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        return (self.entity.kind, self.entity.name, self.signal, self.device, self.detector)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A finding that a rule set aside, with the rule's named reason: nothing vanishes without one."""

    finding: Finding
    reason: str
    because: str = ""


class Phase(StrEnum):
    """Where an incident is in its life."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"
    LOST = "lost_sight"
    CLOSED = "closed"
    """By a person, whatever the signals say."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Findings of one entity, or of one shared cause, folded together. Times are logical (data) time."""

    id: str
    cluster: str
    scope: Scope
    entity: Entity
    nodes: tuple[str, ...]
    victims: tuple[str, ...]
    jobs: tuple[str, ...]
    cause: str
    frozen_cause: str
    """The cause at first firing: part of the alert's identity, so it never changes."""
    severity: Severity
    previous_severity: Severity | None
    phase: Phase
    onset: Ms
    uncertainty: Ms
    fired_at: Ms
    updated_at: Ms
    resolved_at: Ms | None
    impact_ratio: float | None
    coverage: float | None
    signals: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    summary: str
    advice: str
    absorbed_by: str | None = None
    """The incident that took this one over (a shared cause), if any."""

    @property
    def alertname(self) -> str:
        return {"node": "NodeFault", "group": "SharedFault", "job": "JobSlow"}[self.scope]


@dataclass(frozen=True, slots=True)
class Attachment:
    """Context of one entity from outside the signals, valid from `start` until `end` (None: still)."""

    entity: Entity
    key: str
    value: str
    start: Ms
    end: Ms | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """Which group each node belongs to, per kind of group: `groups["rack"]["gpu-17"] == "rack-b"`."""

    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def group_of(self, kind: str, node: str) -> str | None:
        return self.groups.get(kind, {}).get(node)

    def members(self, kind: str, name: str) -> frozenset[str]:
        return frozenset(node for node, group in self.groups.get(kind, {}).items() if group == name)


# ── what leaves the process ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One thing to send to one sink, at least once. `key` is the alert's identity (or the event's, for other sinks)."""

    seq: int
    sink: str
    key: str
    incident_id: str
    body: str
    """JSON text, already shaped for the kind of sink."""
    created_at: Ms
    resolved_at: Ms | None
    """Wall time from which the alert counts as resolved; None while it fires."""
    attempts: int = 0
    next_attempt_at: Ms = 0
    sent_at: Ms | None = None
