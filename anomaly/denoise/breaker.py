"""Rule 7: a detector that blames half the fleet is itself the news."""

from anomaly.clock import MINUTE, Ms
from anomaly.denoise.world import Case, Memory, World
from anomaly.records import Dropped, Entity, Incident, Phase

SHARE = 0.10
FLOOR, CEILING = 3, 10
WINDOW: Ms = 10 * MINUTE


def breaker(world: World, memory: Memory, cases: tuple[Case, ...]) -> tuple[tuple[Case, ...], tuple[Dropped, ...]]:
    """When more than clamp(10 % of the nodes, 3, 10) would be newly blamed by soft findings within ten minutes, those
    cases become one case on the cluster. Hard faults and what fires already keep their own."""
    limit = min(max(round(SHARE * len(world.nodes)), FLOOR), CEILING)
    fresh = [
        case
        for case in cases
        if case.scope == "node" and not case.hard and case.severity.rank > 0 and _new(world, memory.of(case.entity))
    ]
    swallow = [case for case in fresh if not memory.fires(case.entity)]
    saturated = memory.of(Entity("cluster", world.cluster))
    if len(fresh) <= limit and saturated is not None:
        # What the flood took in stays there; who turns long after it began is news of its own.
        arriving = world.now - saturated.fired_at <= WINDOW
        swallow = [case for case in swallow if arriving or case.entity.name in saturated.nodes]
    elif len(fresh) <= limit:
        swallow = []
    if not swallow:
        return cases, ()
    findings = tuple(finding for case in swallow for finding in case.findings)
    entity = Entity("cluster", world.cluster)
    merged = next((case for case in cases if case.entity == entity), None)
    fleet = Case(
        "group",
        entity,
        (*(merged.findings if merged else ()), *findings),
        tuple(sorted({*(merged.nodes if merged else ()), *(node for case in swallow for node in case.nodes)})),
        effects=tuple(effect for case in swallow for effect in case.effects),
        cause=swallow[0].cause,
        severity=max((case.severity for case in swallow), key=lambda severity: severity.rank),
    )
    gone = {case.entity for case in swallow} | {entity}
    rest = tuple(case for case in cases if case.entity not in gone)
    return (*rest, fleet), tuple(Dropped(finding, "breaker", str(entity)) for finding in findings)


def _new(world: World, known: Incident | None) -> bool:
    return known is None or known.phase is Phase.PENDING or world.now - known.fired_at <= WINDOW
