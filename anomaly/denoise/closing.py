"""Rule 1: what a person has closed ends at once, and stays closed while the findings last that it was about."""

from dataclasses import replace

from anomaly.denoise.doubt import FOREST
from anomaly.denoise.world import Closing, Memory, World
from anomaly.records import Dropped, Entity, Finding, Incident, Phase


def close_asked(
    world: World, memory: Memory, findings: tuple[Finding, ...]
) -> tuple[tuple[Finding, ...], tuple[Dropped, ...], tuple[Incident, ...], Memory]:
    """(findings left, findings set aside, incidents that end here, memory without them).

    Set aside is what began before the closing on the entities and signals of the incident, and the slowdown that it
    explained. What begins later speaks, and so does a hard fact that had not been seen yet. A closing is forgotten
    once nothing is left that it sets aside. An id that is not open (any more) changes nothing.
    """
    if not memory.asked and not memory.closings:
        return findings, (), (), memory
    going = [incident for incident in memory.open if incident.id in memory.asked]
    closings = (*memory.closings, *(_closing(world, incident) for incident in going))
    kept, dropped, used = [], [], set()
    for finding in findings:
        by = next((closing for closing in closings if _covers(closing, finding)), None)
        if by is None:
            kept.append(finding)
        else:
            used.add(by)
            dropped.append(Dropped(finding, "closed", by.incident))
    ended = tuple(
        replace(incident, phase=Phase.CLOSED, resolved_at=world.now, updated_at=world.now, previous_severity=None)
        for incident in going
        if incident.phase is Phase.FIRING
    )
    left = tuple(incident for incident in memory.open if incident not in going)
    lasting = tuple(closing for closing in closings if closing in used)
    return tuple(kept), tuple(dropped), ended, replace(memory, open=left, asked=(), closings=lasting)


def _closing(world: World, incident: Incident) -> Closing:
    nodes = {Entity("node", node) for node in incident.nodes} if incident.scope != "job" else set()
    return Closing(
        incident.id,
        tuple(sorted({incident.entity, *nodes})),
        incident.signals,
        incident.jobs if incident.impact_ratio is not None else (),
        world.now,
    )


def _covers(closing: Closing, finding: Finding) -> bool:
    if finding.entity.kind == "job" and finding.entity.name in closing.jobs:
        return finding.onset <= closing.at
    if finding.entity not in closing.entities:
        return False
    if finding.detector == FOREST:
        return True  # a second opinion on what has been closed opens nothing
    unseen = finding.hard and finding.confirmed > closing.at
    return finding.signal in closing.signals and finding.onset <= closing.at and not unseen
