"""What a case is called and how loud it is."""

import pytest

from anomaly.denoise.tier import cause_of, tier
from anomaly.denoise.world import Case
from anomaly.records import Entity, Severity
from tests.denoise.builders import find, slow, world


def case(*signals: str, **more: object) -> Case:
    return Case("node", Entity("node", "n2"), tuple(find(signal, "n2", 0) for signal in signals), ("n2",), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("signals", "cause"),
    [
        (("sm_clock",), "power"),
        (("sm_clock", "gpu_temp"), "thermal"),
        (("gpu_temp", "xid"), "gpu_lost"),
        (("silent", "gpu_temp"), "thermal"),
        (("silent",), "telemetry"),
        (("gpu_power", "symbol_errors"), "network"),
    ],
)
def test_the_more_specific_cause_and_facts_before_statistics(signals: tuple[str, ...], cause: str) -> None:
    assert cause_of(case(*signals)) == cause


@pytest.mark.parametrize(
    ("signals", "severity"),
    [
        (("gpu_temp",), "warning"),
        (("xid",), "critical"),
        (("load_per_core",), "info"),
        (("load_per_core", "gpu_temp"), "warning"),
        (("silent",), "warning"),
        (("vanished",), "info"),
        (("vanished", "silent"), "warning"),
        (("frozen",), "critical"),
    ],
)
def test_by_cause(signals: tuple[str, ...], severity: str) -> None:
    assert tier(world(5), (case(*signals),))[0].severity == severity


@pytest.mark.parametrize(
    ("by", "severity"), [(0.05, Severity.INFO), (0.11, Severity.WARNING), (0.21, Severity.CRITICAL)]
)
def test_by_impact(by: float, severity: Severity) -> None:
    judged = tier(world(5), (case("load_per_core", effects=(slow("train-a", 0, by),)),))[0]
    assert judged.severity is severity


@pytest.mark.parametrize(
    ("jobs", "severity"),
    [({}, "critical"), ({"train-a": {"n5", "n6"}}, "critical"), ({"train-b": {"n1", "n2"}}, "warning")],
)
def test_nodes_that_go_together_page_unless_they_were_drained(jobs: dict[str, set[str]], severity: str) -> None:
    found = tuple(find("up", node, 0) for node in ("n5", "n6", "n7"))
    gone = Case("group", Entity("rack", "rack-2"), found, ("n5", "n6", "n7"))
    known = {job: frozenset(nodes) for job, nodes in jobs.items()}
    assert tier(world(5, jobs=known), (gone,))[0].severity == severity
