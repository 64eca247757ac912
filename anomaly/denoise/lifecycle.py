"""Rule 8: cases become incidents, incidents change, and end; each change is one line for whoever listens."""

import hashlib
from dataclasses import replace

from anomaly.causes import advice
from anomaly.clock import MINUTE, Ms, format_time
from anomaly.denoise.shared import LEAST_MEMBERS
from anomaly.denoise.tier import more_specific
from anomaly.denoise.words import summary
from anomaly.denoise.world import Case, Memory, World
from anomaly.records import Dropped, Entity, Evidence, Finding, Incident, Phase, Severity

MOST_EVIDENCE = 12

STRAGGLE: Ms = 2 * MINUTE
"""How long a case waits for others that stir, beyond the uncertainty of the onsets."""


def incident_id(cluster: str, entity: Entity, onset: Ms) -> str:
    """Deterministic: a hash of cluster, kind, name and first onset."""
    text = f"{cluster}\n{entity.kind}\n{entity.name}\n{format_time(onset)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def settle_time(world: World, case: Case) -> Ms:
    """How long a soft case waits before a first verdict, so that simultaneity can be seen.

    Two steps where nobody else stirs; while others are past the same boundary and not confirmed yet, up to the
    uncertainty of the onsets and STRAGGLE more: a group named too early is the wrong group.
    """
    confirmed = set(case.nodes)
    others = {
        node for finding in case.findings for node in world.stirring.get(finding.signal, ()) if node not in confirmed
    }
    if len(others | confirmed) < LEAST_MEMBERS or not others:
        return 2 * world.step
    return max(2 * world.step, max(finding.uncertainty for finding in case.findings) + STRAGGLE)


def advance(
    world: World, memory: Memory, cases: tuple[Case, ...]
) -> tuple[Memory, tuple[Incident, ...], tuple[Dropped, ...]]:
    """(memory after the tick, incidents that changed, findings that still wait).

    At most one incident is open per entity. A pending incident whose findings end goes without a word. A firing one
    ends when no case speaks for its entity any more, or when one that has settled absorbs it.
    """
    by_entity = {case.entity: case for case in cases}
    absorbers = [case for case in cases if case.scope != "node"]
    open_now: list[Incident] = []
    changed: list[Incident] = []
    waiting: list[Dropped] = []
    for incident in memory.open:
        case = by_entity.pop(incident.entity, None)
        after = _update(world, incident, case) if case else _end(world, memory, incident, absorbers, cases)
        if after.phase is Phase.PENDING and case is None:
            continue
        if after.updated_at != incident.updated_at and after.phase is not Phase.PENDING:
            changed.append(after)
        if after.phase in (Phase.PENDING, Phase.FIRING):
            open_now.append(after)
        if after.phase is Phase.PENDING and case is not None:
            waiting += [Dropped(finding, "settling") for finding in case.findings]
    for case in by_entity.values():
        incident = _begin(world, case)
        open_now.append(incident)
        if incident.phase is Phase.FIRING:
            changed.append(incident)
        else:
            waiting += [Dropped(finding, "settling") for finding in case.findings]
    ordered = tuple(sorted(open_now, key=lambda incident: (incident.onset, incident.id)))
    return replace(memory, open=ordered), tuple(changed), tuple(waiting)


def _settled(world: World, case: Case) -> bool:
    return case.hard or world.now - case.confirmed >= settle_time(world, case)


def _begin(world: World, case: Case) -> Incident:
    fires = _settled(world, case)
    blank = Incident(
        id=incident_id(world.cluster, case.entity, case.onset),
        cluster=world.cluster,
        scope=case.scope,
        entity=case.entity,
        nodes=(),
        victims=(),
        jobs=(),
        cause=case.cause,
        frozen_cause=case.cause,
        severity=case.severity,
        previous_severity=None,
        phase=Phase.FIRING if fires else Phase.PENDING,
        onset=case.onset,
        uncertainty=case.uncertainty,
        fired_at=world.now,
        updated_at=world.now,
        resolved_at=None,
        impact_ratio=None,
        coverage=None,
        signals=(),
        evidence=(),
        summary="",
        advice="",
    )
    return _describe(world, blank, case)


def _update(world: World, incident: Incident, case: Case) -> Incident:
    if incident.phase is Phase.PENDING:
        if not _settled(world, case):
            return incident
        fired = replace(
            incident,
            phase=Phase.FIRING,
            fired_at=world.now,
            updated_at=world.now,
            cause=case.cause,
            frozen_cause=case.cause,
            severity=case.severity,
        )
        return _describe(world, fired, case)
    rises = case.severity.rank > incident.severity.rank
    # A mere pattern has told nobody its cause yet: the first cause that leaves our tables is the real one.
    unnamed = rises and incident.severity is Severity.INFO and incident.frozen_cause == "unknown"
    after = replace(
        incident,
        frozen_cause=case.cause if unnamed else incident.frozen_cause,
        severity=case.severity if rises else incident.severity,
        previous_severity=incident.severity if rises else None,
        cause=more_specific(incident.cause, case.cause),
    )
    described = _describe(world, after, case)
    if _news(incident) == _news(described):
        return replace(described, previous_severity=None)  # members and victims are kept up to date without a word
    return replace(described, updated_at=world.now)


def _news(incident: Incident) -> tuple[object, ...]:
    return (incident.severity, incident.cause, frozenset(incident.signals), incident.impact_ratio is not None)


def _end(world: World, memory: Memory, incident: Incident, absorbers: list[Case], cases: tuple[Case, ...]) -> Incident:
    absorber = next(
        (case for case in absorbers if incident.scope != "job" and set(incident.nodes) <= set(case.nodes)), None
    )
    if incident.scope == "job":
        absorber = next(
            (
                case
                for case in cases
                if any(effect.entity == incident.entity for effect in case.effects) and case.entity != incident.entity
            ),
            None,
        )
    by = None
    if absorber is not None:
        known = memory.of(absorber.entity)
        if not (_settled(world, absorber) or memory.fires(absorber.entity)) and incident.phase is Phase.FIRING:
            return incident  # its successor says nothing yet, and may never: until then this one speaks
        by = known.id if known is not None else incident_id(world.cluster, absorber.entity, absorber.onset)
    return replace(
        incident,
        phase=Phase.RESOLVED if incident.phase is Phase.FIRING else incident.phase,
        resolved_at=world.now,
        updated_at=world.now,
        previous_severity=None,
        absorbed_by=by,
    )


def _describe(world: World, incident: Incident, case: Case) -> Incident:
    jobs = _jobs(world, case)
    sufferers = {node for job in jobs for node in world.jobs.get(job, frozenset())} if case.effects else set()
    ranked = sorted(
        case.findings, key=lambda finding: (not finding.hard, -finding.peak, finding.signal, finding.device)
    )
    merged = replace(
        incident,
        nodes=tuple(sorted({*incident.nodes, *case.nodes})),
        victims=tuple(sorted({*incident.victims, *sufferers} - set(case.nodes))) if case.scope != "job" else (),
        jobs=tuple(sorted({*incident.jobs, *jobs})),
        impact_ratio=_larger(incident.impact_ratio, case.effect_ratio()),
        coverage=min((world.coverage[node] for node in case.nodes if node in world.coverage), default=None),
        signals=tuple(sorted({*incident.signals, *(finding.signal for finding in case.findings)})),
        evidence=tuple(_evidence(finding) for finding in _spread(ranked)),
    )
    devices = [finding.device for finding in ranked if finding.device]
    node = case.entity.name if case.scope == "node" else None
    return replace(merged, summary=summary(merged, ranked), advice=advice(merged.cause, devices, node))


def _spread(ranked: list[Finding]) -> list[Finding]:
    """The best finding of every signal first, then the rest, at most MOST_EVIDENCE."""
    seen: set[str] = set()
    first: list[Finding] = []
    rest: list[Finding] = []
    for finding in ranked:
        (rest if finding.signal in seen else first).append(finding)
        seen.add(finding.signal)
    return (first + rest)[:MOST_EVIDENCE]


def _jobs(world: World, case: Case) -> tuple[str, ...]:
    if case.effects:
        return tuple(sorted({effect.entity.name for effect in case.effects}))
    return tuple(sorted({job for node in case.nodes for job in world.jobs_of(node)}))


def _larger(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else max(a, b)


def _evidence(finding: Finding) -> Evidence:
    return Evidence(
        signal=finding.signal,
        device=finding.device,
        observed=finding.observed,
        expected=finding.expected,
        unit=finding.unit,
        detector=finding.detector,
        score=round(finding.peak, 3),
        onset=finding.onset,
    )
