"""Rule 2b: the forest's own findings are a second opinion: they inform, and only what lasts asks for a look."""

from anomaly.clock import HOUR, Ms
from anomaly.denoise.world import Memory, World
from anomaly.records import Dropped, Finding, Severity

FOREST = "forest"
"""The detector whose findings stand here; what it completed for a statistic carries that one's name and is no doubt."""

LONELY: Ms = 4 * HOUR
"""How long a pattern that no statistic confirms must last before it is a ticket."""

STALE_SHARE, STALE_FLOOR = 0.10, 3
"""When more nodes than this are odd at once, it is the model that no longer fits, not the nodes."""


def second_opinions(
    world: World, memory: Memory, findings: tuple[Finding, ...]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], tuple[Dropped, ...]]:
    """(the forest's findings that stand alone, all others, the forest's findings set aside).

    A node of which something else speaks needs no second opinion: it neither decorates that incident nor keeps it open.
    What has fallen below the boundary opens nothing, but what the forest opened stays open as long as it doubts. What
    stands alone is never shared between nodes and never the reason why a job is slow.
    """
    doubts = tuple(finding for finding in findings if finding.detector == FOREST)
    if not doubts:
        return (), findings, ()
    others = tuple(finding for finding in findings if finding.detector != FOREST)
    spoken = {finding.entity for finding in others if finding.asymmetric or finding.hard}
    stale = len({finding.entity for finding in doubts}) > max(round(STALE_SHARE * len(world.nodes)), STALE_FLOOR)
    alone, dropped = [], []
    for finding in doubts:
        known = memory.of(finding.entity)
        own = (
            finding.score >= 1.0
            if known is None
            else any(
                doubt.entity == known.entity and doubt.onset == known.onset and doubt.confirmed <= known.fired_at
                for doubt in doubts
            )
        )
        if finding.entity in spoken or not own:
            dropped.append(Dropped(finding, "second_opinion", str(finding.entity)))
        elif stale:
            dropped.append(Dropped(finding, "model_stale"))
        else:
            alone.append(finding)
    return tuple(alone), others, tuple(dropped)


def loudest(world: World, finding: Finding) -> Severity:
    """How loud a case may be that rests on this finding alone."""
    if finding.detector == FOREST:
        return Severity.WARNING if world.now - finding.onset >= LONELY else Severity.INFO
    if finding.symptom == "presence":
        return Severity.CRITICAL  # there or not there is no matter of degree: the cause alone decides
    return world.alone.get(finding.signal, Severity.WARNING)
