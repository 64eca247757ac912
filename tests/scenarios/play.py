"""A scenario file read, its cluster built, the production ticks run over it, and the laws that hold on every tick."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from anomaly.clock import MINUTE, Ms
from anomaly.denoise.rules import REASONS
from anomaly.features.index import Directory, index_series
from anomaly.pipeline import Batch, Context, Spec, State, Tick, advance, remember, ticks_between
from anomaly.records import Incident, Labels, Phase, Severity, Topology
from anomaly.signals.catalogue import load_catalogue
from anomaly.signals.identity import Aliases
from tests.scenarios.cluster import ORIGIN, STEP, Cluster, JobPlan, healthy, minute
from tests.scenarios.export import Exported, export
from tests.scenarios.happenings import HAPPENINGS

PACKS = ("node", "rdma", "storage", "training", "kubernetes")

EXPORTERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "nvidia": ("dcgm", {}),
    "amd": (
        "amd",
        {
            "gpu_temp": "amd_temperature",
            "gpu_power": "amd_power",
            "sm_clock": "amd_clock",
            "gpu_util": "amd_activity",
            "framebuffer_used": "amd_memory_used",
            "ecc_uncorrectable": "amd_ecc_uncorrectable",
        },
    ),
    "ascend": (
        "ascend",
        {
            "gpu_temp": "npu_temperature",
            "gpu_power": "npu_power",
            "gpu_util": "npu_utilization",
            "framebuffer_used": "npu_memory_used",
            "ecc_uncorrectable": "npu_ecc_uncorrectable",
        },
    ),
}
"""Kind of GPU → the pack that knows its exporter, and what that calls the signals of the scenarios' GPUs."""


@dataclass(frozen=True)
class Expected:
    """One incident that is due (or, with `may`, welcome). Times in minutes, as [earliest, latest]."""

    who: str
    cause: str
    severity: str
    fires: tuple[float, float]
    resolves: tuple[float, float] | None = None
    stays: bool = False
    absorbed: bool = False
    may: bool = False
    jobs: tuple[str, ...] | None = None
    victims: int | None = None
    members: tuple[str, ...] | None = None
    says: str = ""


@dataclass(frozen=True)
class Scenario:
    """A scenario file."""

    about: str
    minutes: int
    nodes: int = 8
    gpus: int = 4
    rails: int = 2
    seed: int = 1
    exporter: str = "nvidia"
    """Whose GPUs they are, and so which exporter tells of them."""
    jobs: tuple[JobPlan, ...] = ()
    groups: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    timeline: tuple[Mapping[str, Any], ...] = ()
    expect: tuple[Expected, ...] = ()


def read(path: Path) -> Scenario:
    """Node lists may be written `1-8`; a key that does not exist is an error."""
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    jobs = tuple(JobPlan(**{**job, "nodes": _names(job["nodes"])}) for job in raw.pop("jobs", []))
    groups = {
        kind: {name: _names(members) for name, members in table.items()}
        for kind, table in raw.pop("groups", {}).items()
    }
    timeline = [
        {**event, "nodes": _names(event["nodes"])} if "nodes" in event else event for event in raw.pop("timeline", [])
    ]
    expect = [_expected(entry) for entry in raw.pop("expect", [])]
    return Scenario(**raw, jobs=jobs, groups=groups, timeline=tuple(timeline), expect=tuple(expect))


def _expected(entry: dict[str, Any]) -> Expected:
    lists: dict[str, Any] = {key: tuple(entry[key]) for key in ("fires", "resolves", "jobs") if key in entry}
    if "members" in entry:
        lists["members"] = _names(entry["members"])
    return Expected(**{**entry, **lists})


def _names(spec: Any) -> tuple[str, ...]:
    if isinstance(spec, str) and spec[0].isdigit():
        first, _, last = spec.partition("-")
        return tuple(f"node-{i}" for i in range(int(first), int(last or first) + 1))
    return tuple(spec) if isinstance(spec, list) else (str(spec),)


def build(scenario: Scenario) -> Cluster:
    groups = {
        kind: {node: name for name, members in table.items() for node in members}
        for kind, table in scenario.groups.items()
    }
    cluster = healthy(
        scenario.minutes, scenario.nodes, scenario.gpus, scenario.rails, scenario.jobs, groups, scenario.seed
    )
    for event in scenario.timeline:
        HAPPENINGS[event["happens"]](cluster, event)
    return cluster


@dataclass
class Service:
    """What the score job does, without a store: a directory that grows, ticks in stretches, a restart on demand."""

    spec: Spec
    exported: Exported
    directory: Directory = field(default_factory=Directory)
    sizes: dict[str, int] = field(default_factory=dict)
    context: Context = field(default_factory=Context)
    state: State = field(default_factory=State)
    at: Ms = ORIGIN
    ticks: list[Tick] = field(default_factory=list)

    def run(self, until: Ms, stretch: Ms = 15 * MINUTE, tick: Ms = MINUTE) -> None:
        while self.at < until:
            end = min(self.at + stretch, until)
            self._refresh(end)
            batch = Batch(self.at, end, self.exported.between(self.at, end), self.directory)
            due = ticks_between(self.at, end, tick)
            ticks, self.context, self.state = advance(self.spec, batch, self.context, self.state, due)
            self.ticks += ticks
            self.at = end

    def restart(self) -> None:
        """A new process: rings from the samples, habits and state from where they were saved."""
        self.directory, self.sizes = Directory(), {}
        self._refresh(self.at)
        start = self.at - self.spec.ring
        batch = Batch(start, self.at, self.exported.between(start, self.at), self.directory)
        self.context = Context(remember(self.spec, batch, start, self.at, {}), self.context.habits)

    def _refresh(self, until: Ms) -> None:
        for name in self.exported.series:
            known = self.exported.known(name, until)
            if len(known) != self.sizes.get(name, 0):
                self.directory.signals[name] = index_series(self.directory, known, _node_of)
                self.sizes[name] = len(known)


def _node_of(labels: Labels) -> str | None:
    raw = next((labels[name] for name in ("node", "Hostname", "instance") if labels.get(name)), None)
    return Aliases().canonical(raw) if raw else None


def service(scenario: Scenario) -> Service:
    cluster = build(scenario)
    catalogue = load_catalogue([EXPORTERS[scenario.exporter][0], *PACKS])
    return Service(
        Spec("test", STEP, catalogue, Topology(cluster.groups)),
        export(cluster, catalogue, EXPORTERS[scenario.exporter][1]),
    )


def play(scenario: Scenario, stretch: Ms = 15 * MINUTE) -> Service:
    found = service(scenario)
    found.run(minute(scenario.minutes), stretch)
    return found


@dataclass(frozen=True)
class Story:
    """One incident from its first firing to its end."""

    incident: Incident
    """As last told."""
    fired: float
    severity: Severity
    """The loudest it was."""
    ended: float | None

    def __str__(self) -> str:
        item = self.incident
        until = "stays open" if self.ended is None else f"ends {self.ended:g}"
        return (
            f"{item.entity} {item.cause} {self.severity} fires {self.fired:g}, {until}"
            f"{' (absorbed)' if item.absorbed_by else ''}; {item.summary}"
        )


def stories(ticks: Sequence[Tick]) -> list[Story]:
    out: dict[str, Story] = {}
    for tick in ticks:
        for incident in tick.denoised.changed:
            before = out.get(incident.id)
            ended = _minutes(incident.resolved_at) if incident.phase is not Phase.FIRING else None
            loudest = max(incident.severity, before.severity if before else incident.severity, key=lambda s: s.rank)
            out[incident.id] = Story(incident, _minutes(incident.fired_at), loudest, ended)
    return list(out.values())


def _minutes(at: Ms | None) -> float:
    assert at is not None
    return (at - ORIGIN) / MINUTE


def differences(expected: Sequence[Expected], told: Sequence[Story]) -> list[str]:
    """What the pages and tickets differ in from what is due; notes count only where one is expected."""
    left = list(told)
    out: list[str] = []
    for due in expected:
        found = next((story for story in left if _fits(due, story)), None)
        if found is None:
            if not due.may:
                out.append(f"missing: {due}")
            continue
        left.remove(found)
        out += _wrong(due, found)
    out += [f"unexpected: {story}" for story in left if story.severity is not Severity.INFO]
    return out


def _fits(due: Expected, story: Story) -> bool:
    return str(story.incident.entity) == due.who and due.fires[0] <= story.fired <= due.fires[1]


def _wrong(due: Expected, story: Story) -> list[str]:
    incident = story.incident
    ends_right = (
        story.ended is None
        if due.stays
        else due.resolves is None or (story.ended is not None and due.resolves[0] <= story.ended <= due.resolves[1])
    )
    checks = {
        f"cause {due.cause}": incident.cause == due.cause,
        f"severity {due.severity}": story.severity.value == due.severity,
        f"end {due.resolves or 'open'}": ends_right,
        f"absorbed {due.absorbed}": (incident.absorbed_by is not None) == due.absorbed,
        f"jobs {due.jobs}": due.jobs is None or incident.jobs == due.jobs,
        f"victims {due.victims}": due.victims is None or len(incident.victims) == due.victims,
        f"members {due.members}": due.members is None or set(incident.nodes) == set(due.members),
        f"says {due.says!r}": due.says in incident.summary,
    }
    return [f"{what}, but: {story}" for what, holds in checks.items() if not holds]


def broken_laws(ticks: Sequence[Tick]) -> list[str]:
    """The laws of de-noising, on every tick."""
    out: list[str] = []
    severity: dict[str, int] = {}
    for tick in ticks:
        told, at = tick.denoised, _minutes(tick.at)
        given = Counter(finding.key for finding in tick.findings)
        accounted = Counter(finding.key for finding in told.kept)
        accounted.update(drop.finding.key for drop in told.dropped)
        if given != accounted:
            out.append(f"{at:g}: kept + dropped is not what was given")
        out += [f"{at:g}: reason {drop.reason!r}" for drop in told.dropped if drop.reason not in REASONS]
        entities = Counter(incident.entity for incident in told.memory.open)
        out += [f"{at:g}: {count} incidents open for {entity}" for entity, count in entities.items() if count > 1]
        for incident in told.changed:
            if incident.severity.rank < severity.get(incident.id, 0):
                out.append(f"{at:g}: severity of {incident.entity} fell")
            severity[incident.id] = incident.severity.rank
            if incident.onset > incident.fired_at:
                out.append(f"{at:g}: {incident.entity} fires before its onset")
    return out
