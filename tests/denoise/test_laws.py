"""What holds whatever the findings: nothing vanishes, order is nothing, severity only rises, one incident each."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.clock import MINUTE
from anomaly.denoise.rules import REASONS, denoise
from anomaly.denoise.world import Memory
from anomaly.records import Finding, Phase
from tests.denoise.builders import JOBS, KINDS, NODES, NOON, Days, find, slow, world

nodes = st.sampled_from(NODES)
node_findings = st.builds(
    lambda signal, node, at, device: find(signal, node, at, **({"device": device} if signal == "gpu_temp" else {})),
    st.sampled_from(sorted(KINDS)),
    nodes,
    st.integers(-30, 30),
    st.sampled_from(["0", "3"]),
)
slow_jobs = st.builds(slow, st.sampled_from(sorted(JOBS)), st.integers(-10, 30), st.sampled_from([0.03, 0.12, 0.3]))
lists = st.lists(st.one_of(node_findings, node_findings, node_findings, slow_jobs), max_size=14,
                 unique_by=lambda finding: finding.key)  # fmt: skip
surroundings = st.fixed_dictionaries(
    {},
    optional={
        "maintenance": st.frozensets(nodes, max_size=3),
        "booted": st.dictionaries(nodes, st.integers(0, 40).map(lambda m: NOON + m * MINUTE), max_size=3),
        "jobs": st.just({}),
    },
)


def ends(finding: Finding, lasting: int) -> int:
    return finding.confirmed + lasting * MINUTE


@given(lists, st.lists(st.integers(1, 40), min_size=14, max_size=14), surroundings)
@settings(max_examples=60, deadline=None)
def test_over_an_hour_of_anything(findings: list[Finding], lasting: list[int], around: dict[str, Any]) -> None:
    days = Days()
    severity: dict[str, int] = {}
    finished: set[str] = set()
    for at in range(-30, 75, 3):
        now = NOON + at * MINUTE
        there = [
            item for item, long in zip(findings, lasting, strict=False) if item.confirmed <= now < ends(item, long)
        ]
        told = days.tick(at, there, **around)
        accounted = Counter(item.key for item in told.kept) + Counter(drop.finding.key for drop in told.dropped)
        assert accounted == Counter(item.key for item in there)
        assert all(drop.reason in REASONS for drop in told.dropped)
        assert max(Counter(incident.entity for incident in told.memory.open).values(), default=1) == 1
        assert all(incident.phase in (Phase.PENDING, Phase.FIRING) for incident in told.memory.open)
        for incident in told.changed:
            assert incident.severity.rank >= severity.get(incident.id, 0)
            severity[incident.id] = incident.severity.rank
            assert incident.phase is not Phase.PENDING
            if incident.phase is Phase.FIRING:
                assert incident.onset <= incident.fired_at <= now
                assert incident.summary
                assert incident.advice
                assert incident.evidence
            else:
                assert incident.resolved_at == now
                finished.add(incident.id)
    days.tick(200, [], **around)
    assert days.memory.open == ()


@given(lists, st.randoms(use_true_random=False), st.integers(0, 40))
@settings(max_examples=80, deadline=None)
def test_the_order_of_findings_does_not_matter(findings: list[Finding], random: Any, at: int) -> None:
    mixed = list(findings)
    random.shuffle(mixed)
    before = denoise(world(at - 1), Memory(), tuple(findings[:5])).memory
    a = denoise(world(at), before, tuple(findings))
    b = denoise(world(at), before, tuple(mixed))
    assert a == b


@given(lists, st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_the_same_findings_give_the_same_ids(findings: list[Finding], at: int) -> None:
    a, b = (denoise(world(at), Memory(), tuple(findings)) for _ in range(2))
    assert [incident.id for incident in a.memory.open] == [incident.id for incident in b.memory.open]
    assert len({incident.id for incident in a.memory.open}) == len(a.memory.open)
