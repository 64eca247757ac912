"""Rule 4a: what one node does to others is not theirs, and no group's."""

from collections.abc import Mapping

from anomaly.denoise.world import TOGETHER, World
from anomaly.records import Dropped, Entity, Finding

MOST_SOURCES = 2
"""When more nodes than this show the source, it is no single node's doing (a congested leaf pauses everybody)."""


Reach = Mapping[Entity, frozenset[str]]
"""Whose doing → the nodes that suffer from it."""


def set_effects_aside(
    world: World, findings: tuple[Finding, ...]
) -> tuple[tuple[Finding, ...], tuple[Dropped, ...], Reach]:
    """(findings left, effects set aside, whom each source reaches): effects are those of a signal that another signal,
    seen on one or two nodes since about then or before, brings about on others."""
    sources: dict[str, list[Finding]] = {}
    for effect, source in world.effects.items():
        found = [finding for finding in findings if finding.signal == source and finding.asymmetric]
        if 1 <= len({finding.entity for finding in found}) <= MOST_SOURCES:
            sources[effect] = found
    if not sources:
        return findings, (), {}
    kept, dropped = [], []
    reach: dict[Entity, frozenset[str]] = {}
    for finding in findings:
        of = [
            source.entity
            for source in sources.get(finding.signal, ())
            if finding.onset >= source.onset - TOGETHER - max(finding.uncertainty, source.uncertainty)
        ]
        if of and finding.entity not in of:
            dropped.append(Dropped(finding, "effect_of", str(of[0])))
            reach[of[0]] = reach.get(of[0], frozenset()) | {finding.entity.name}
        else:
            kept.append(finding)
    return tuple(kept), tuple(dropped), reach
