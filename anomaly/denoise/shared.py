"""Rule 5: many members of one group that turn together are one cause, and none of them is to blame."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from anomaly.clock import MINUTE, Ms
from anomaly.denoise.world import TOGETHER, Case, Memory, World
from anomaly.records import Dropped, Entity, Finding, Phase, Scope

JOINING: Ms = 15 * MINUTE
"""How long after it fired a group takes in further members; who turns later turns for a reason of its own."""

UNREPORTED = "lost"
"""The detector of devices that stop reporting while their neighbours go on."""

LEAST_MEMBERS = 3
LEAST_SHARE = 0.3
LEAST_PRECISION = 0.75
"""At most a quarter of the nodes that turned may lie outside the group."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    entity: Entity
    members: frozenset[str]
    f1: float


def share_cause(
    world: World, memory: Memory, findings: tuple[Finding, ...]
) -> tuple[tuple[Case, ...], tuple[Finding, ...], tuple[Dropped, ...]]:
    """(group cases, findings left over, findings absorbed).

    Per signal and direction, nodes whose onsets lie together are matched with every group of the topology, with the
    shared entity behind the signal (its volume, its switch) and with jobs; the best explanation by F1 wins, the
    smaller group on a tie. A group already firing keeps its members until their findings end. A hard fault of one
    device (an XID, an uncorrectable error) is never shared: its node keeps its own case. Devices that merely stop
    reporting on many nodes together are an exporter's doing, a monitoring fault.
    """
    cases: dict[Entity, list[Finding]] = defaultdict(list)
    members_of: dict[Entity, frozenset[str]] = {}
    classes: dict[Entity, set[str]] = defaultdict(set)
    shareable = [finding for finding in findings if finding.entity.kind == "node" and _shareable(finding)]
    for incident in memory.open:
        if incident.phase is not Phase.FIRING:
            continue
        if incident.scope == "group" or (incident.scope == "job" and incident.cause != "software"):
            joining = world.members(incident.entity) if world.now - incident.fired_at <= JOINING else frozenset()
            members_of[incident.entity] = joining | frozenset(incident.nodes)
            told = {item.signal for item in incident.evidence}
            classes[incident.entity] |= {
                _class(finding)
                for finding in shareable
                if finding.signal in told
                and (finding.symptom != "presence" or _as_shared(finding).cause == incident.cause)
            }
    for (signal, *_), batch in sorted(_batches(world, shareable).items()):
        for cluster in _simultaneous(batch):
            found = _explain(world, signal, cluster)
            if found is not None:
                turned = {finding.entity.name for finding in cluster}
                for entity in [entity for entity in members_of if entity != found.entity]:
                    known = memory.of(entity)
                    if known is not None and set(known.nodes) < turned & found.members:
                        del members_of[entity], classes[entity]  # the larger group explains the smaller one too
                members_of[found.entity] = members_of.get(found.entity, frozenset()) | found.members
                classes[found.entity].add(_class(cluster[0]))
    taken: dict[tuple[str, ...], Entity] = {}
    for finding in shareable:
        owners = [
            entity
            for entity, members in members_of.items()
            if (finding.entity.name in members or _uses(world, finding, entity))
            and _class(finding) in classes[entity]
            and (not world.shared_kinds.get(finding.signal) or _same_shared(world, finding, entity))
        ]
        if owners:
            owner = min(owners, key=lambda entity: (not memory.fires(entity), len(members_of[entity]), str(entity)))
            cases[owner].append(finding)
            taken[finding.key] = owner
    out, absorbed = [], []
    for entity, group in sorted(cases.items(), key=lambda item: str(item[0])):
        nodes = tuple(sorted({finding.entity.name for finding in group}))
        if len(nodes) < LEAST_MEMBERS and not memory.fires(entity):
            for finding in group:
                taken.pop(finding.key)
            continue
        scope: Scope = "job" if entity.kind == "job" else "group"
        out.append(Case(scope, entity, tuple(_as_shared(finding) for finding in group), nodes))
        absorbed += [Dropped(finding, "shared_cause", str(entity)) for finding in group]
    left = tuple(finding for finding in findings if finding.key not in taken)
    return tuple(out), left, tuple(absorbed)


def _shareable(finding: Finding) -> bool:
    fact = finding.hard and finding.cause not in ("node_lost", "telemetry") and finding.detector != UNREPORTED
    return finding.asymmetric and not fact


def _as_shared(finding: Finding) -> Finding:
    """What a finding says once many share it: no GPUs are lost on many nodes at once, they are no longer reported."""
    return replace(finding, cause="telemetry") if finding.detector == UNREPORTED else finding


def _class(finding: Finding) -> str:
    """What members of a group must have in common: the symptom; for absence also what is gone (a node is no target)."""
    return f"presence of {finding.cause}" if finding.symptom == "presence" else finding.symptom


def _batches(world: World, findings: Iterable[Finding]) -> dict[tuple[str, str, str], list[Finding]]:
    """Findings of one signal and class; where a shared entity stands behind it, of one such entity (a volume)."""
    out: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        volume = finding.device if finding.signal in world.shared_kinds else ""
        out[finding.signal, _class(finding), volume].append(finding)
    return out


def _uses(world: World, finding: Finding, entity: Entity) -> bool:
    """Whether the finding speaks of the shared entity itself: who uses a slow volume is its member, however late."""
    kind = world.shared_kinds.get(finding.signal)
    return bool(kind) and Entity(kind or "", finding.device) == entity


def _same_shared(world: World, finding: Finding, entity: Entity) -> bool:
    kind = world.shared_kinds[finding.signal]
    name = finding.device or world.groups.get(kind, {}).get(finding.entity.name, "")
    return entity.kind != kind or entity.name == name


def _simultaneous(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings in order of onset, cut where the next begins later than simultaneity allows."""
    ordered = sorted(findings, key=lambda finding: finding.onset)
    out: list[list[Finding]] = []
    for finding in ordered:
        if out and finding.onset - out[-1][0].onset <= TOGETHER + finding.uncertainty:
            out[-1].append(finding)
        else:
            out.append([finding])
    return out


def _explain(world: World, signal: str, cluster: list[Finding]) -> _Candidate | None:
    turned = frozenset(finding.entity.name for finding in cluster)
    if len(turned) < LEAST_MEMBERS:
        return None
    kind = world.shared_kinds.get(signal)
    if kind:
        name = cluster[0].device
        if name:
            return _Candidate(Entity(kind, name), turned, 1.0)
    named = {(kind, groups[node]) for kind, groups in world.groups.items() for node in turned if node in groups}
    candidates = [_score(Entity(*pair), turned, world.members(Entity(*pair))) for pair in sorted(named)]
    candidates += [_score(Entity("job", job), turned, nodes) for job, nodes in world.jobs.items()]
    candidates.append(_score(Entity("cluster", world.cluster), turned, world.nodes))
    good = [candidate for candidate in candidates if candidate is not None]
    return max(good, key=lambda found: (round(found.f1, 3), -len(found.members), found.entity.kind)) if good else None


def _score(entity: Entity, turned: frozenset[str], members: frozenset[str]) -> _Candidate | None:
    hits = len(turned & members)
    if hits < LEAST_MEMBERS or hits < LEAST_SHARE * len(members) or hits < LEAST_PRECISION * len(turned):
        return None
    return _Candidate(entity, members, 2 * hits / (len(turned) + len(members)))
