"""The rules, in their order: findings of one tick → incidents. Reads like the list that it is."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from anomaly.denoise.breaker import breaker
from anomaly.denoise.closing import close_asked
from anomaly.denoise.doubt import second_opinions
from anomaly.denoise.effects import set_effects_aside
from anomaly.denoise.fold import blame, fold
from anomaly.denoise.lifecycle import advance
from anomaly.denoise.shared import share_cause
from anomaly.denoise.suppress import suppress_expected
from anomaly.denoise.tier import tier
from anomaly.denoise.world import Memory, World
from anomaly.records import Dropped, Finding, Incident

REASONS: Mapping[str, str] = {
    "closed": "a person has closed the incident that it belongs to",
    "maintenance": "the node is in maintenance",
    "boot_grace": "the node has just booted",
    "shared_cause": "part of an incident on a whole group",
    "second_opinion": "the forest agrees with what speaks for itself, or has changed its mind",
    "model_stale": "so many nodes look odd to the forest at once that it is the model that no longer fits",
    "symptom_only": "a symptom that waiting for others also gives; it names no node",
    "effect_of": "the effect of another incident",
    "aftermath": "the explained slowdown of a job that has not recovered yet",
    "job_silent": "a slow job that has stopped telling its step time, as it does when it ends",
    "waiting_for_culprit": "a slow job that still waits for a node to explain it",
    "breaker": "too many nodes would be blamed at once",
    "settling": "confirmed, and waiting to see whether others follow",
}
"""Every reason there is: also a metric label, and the answer to `anomaly why`."""


@dataclass(frozen=True, slots=True)
class Denoised:
    """What one tick's findings came to. `kept` speak through an incident; `dropped` have each a reason."""

    memory: Memory
    changed: tuple[Incident, ...]
    kept: tuple[Finding, ...]
    dropped: tuple[Dropped, ...]

    @property
    def reasons(self) -> Mapping[str, int]:
        return Counter(drop.reason for drop in self.dropped)


def denoise(world: World, memory: Memory, findings: tuple[Finding, ...]) -> Denoised:
    """One tick of the rules. Persistence came before (a finding is what has lasted); kept + dropped = given."""
    ordered = tuple(sorted(findings, key=lambda finding: finding.key))
    speaking, d0, closed, memory = close_asked(world, memory, ordered)
    expected, d1 = suppress_expected(world, memory, speaking)
    expected, d8, reach = set_effects_aside(world, expected)
    doubts, expected, d7 = second_opinions(world, memory, expected)
    groups, single, d2 = share_cause(world, memory, expected)
    nodes, slow, d3 = fold(single)
    cases, d4, memory = blame(world, memory, (*groups, *nodes), slow, reach)
    cases = tier(world, (*cases, *fold(doubts)[0]))
    cases, d5 = breaker(world, memory, cases)
    after, changed, d6 = advance(world, memory, cases)
    dropped = _first_reason((*d0, *d1, *d8, *d7, *d2, *d3, *d4, *d5, *d6))
    gone = {drop.finding.key for drop in dropped}
    return Denoised(
        after, (*closed, *changed), tuple(finding for finding in ordered if finding.key not in gone), dropped
    )


def _first_reason(dropped: tuple[Dropped, ...]) -> tuple[Dropped, ...]:
    out: dict[tuple[str, ...], Dropped] = {}
    for drop in dropped:
        out.setdefault(drop.finding.key, drop)
    return tuple(out.values())
