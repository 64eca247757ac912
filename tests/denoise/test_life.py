"""One incident from its first finding to its end."""

import pytest

from anomaly.denoise.lifecycle import incident_id
from anomaly.records import Entity, Severity
from tests.denoise.builders import NODES, NOON, Days, find, slow


def test_a_soft_finding_settles_then_fires_then_resolves() -> None:
    days = Days()
    hot = find("gpu_temp", "n2", 0)
    days.run(0, 10, [hot])
    days.run(11, 12, [])
    assert days.lines() == ["4 node/n2 thermal warning firing", "11 node/n2 thermal warning resolved"]
    first = days.told[0]
    assert first.onset == NOON
    assert first.id == incident_id("prod-a", Entity("node", "n2"), NOON)
    assert {incident.id for incident in days.told} == {first.id}


def test_while_it_settles_it_says_so() -> None:
    days = Days()
    told = days.tick(3, [find("gpu_temp", "n2", 0)])
    assert [drop.reason for drop in told.dropped] == ["settling"]
    assert told.kept == ()


def test_a_hard_fault_fires_at_the_first_tick_that_sees_it() -> None:
    days = Days()
    days.tick(0, [find("xid", "n2", 0)])
    assert days.lines() == ["0 node/n2 gpu_lost critical firing"]


def test_what_ends_before_it_settled_was_nothing() -> None:
    days = Days()
    days.tick(3, [find("gpu_temp", "n2", 0)])
    days.tick(4, [])
    assert days.told == []
    assert days.memory.open == ()


def test_several_metrics_of_a_node_are_one_incident() -> None:
    days = Days()
    days.run(0, 8, [find("gpu_temp", "n2", 0), find("sm_clock", "n2", 1), find("gpu_power", "n2", 1)])
    assert list(days.open()) == ["node/n2"]
    assert days.open()["node/n2"].signals == ("gpu_power", "gpu_temp", "sm_clock")
    assert days.open()["node/n2"].cause == "thermal"


def test_a_symptom_alone_names_nobody() -> None:
    days = Days()
    days.run(0, 20, [find("gpu_power", "n2", 0)])
    assert days.told == []
    assert days.last is not None
    assert [drop.reason for drop in days.last.dropped] == ["symptom_only"]


def test_a_harder_fact_raises_severity_and_keeps_identity() -> None:
    days = Days()
    hot = find("gpu_temp", "n2", 0)
    days.run(0, 9, [hot])
    days.run(10, 11, [hot, find("xid", "n2", 10)])
    days.run(12, 13, [hot])
    assert days.lines()[:2] == ["4 node/n2 thermal warning firing", "10 node/n2 gpu_lost critical firing"]
    assert days.told[1].previous_severity is Severity.WARNING
    assert days.told[1].frozen_cause == "thermal"
    assert len({incident.id for incident in days.told}) == 1
    assert days.open()["node/n2"].severity is Severity.CRITICAL


def test_nothing_new_is_not_told_again() -> None:
    days = Days()
    days.run(0, 60, [find("gpu_temp", "n2", 0)])
    assert len(days.told) == 1


@pytest.mark.parametrize(
    ("by", "severity"), [(0.05, "warning"), (0.12, "warning"), (0.19, "warning"), (0.21, "critical"), (0.6, "critical")]
)
def test_impact_decides_how_loud(by: float, severity: str) -> None:
    days = Days()
    days.run(0, 10, [find("gpu_temp", "n2", 0), slow("train-a", 1, by)])
    incident = days.open()["node/n2"]
    assert incident.severity == severity
    assert incident.impact_ratio == pytest.approx(by)
    assert incident.jobs == ("train-a",)
    assert incident.victims == tuple(sorted(set(NODES[:8]) - {"n2"}))


def test_a_signal_that_only_informs_makes_a_note_until_a_job_suffers() -> None:
    """As in NVIDIA/aicr#2641."""
    days = Days()
    load = find("load_per_core", "n2", 0)
    days.run(0, 8, [load])
    assert days.open()["node/n2"].severity is Severity.INFO
    days.run(9, 12, [load, slow("train-a", 5, 0.15)])
    assert days.open()["node/n2"].severity is Severity.WARNING


def test_a_code_is_told_rather_than_the_silence_after_it() -> None:
    days = Days()
    gone = find(
        "gpu_temp", "n2", 0, cause="gpu_lost", symptom="presence", detector="lost", hard=True, hint="no reports"
    )
    days.tick(0, [gone, find("xid", "n2", 0, hint="XID 79: GPU has fallen off the bus")])
    assert "XID 79" in days.open()["node/n2"].summary


def test_an_id_does_not_depend_on_when_it_was_found() -> None:
    """As in prometheus/alertmanager#1718, prometheus/alertmanager#4008."""
    early, late = Days(), Days()
    early.run(0, 30, [find("gpu_temp", "n2", 0)])
    late.run(25, 30, [find("gpu_temp", "n2", 0)])
    assert early.told[0].id == late.told[0].id


def test_maintenance_silences_everything_and_boot_only_what_is_soft() -> None:
    """As in NVIDIA/NVSentinel#1423."""
    days = Days()
    both = [find("gpu_temp", "n2", 0), find("xid", "n2", 0)]
    told = days.tick(5, both, maintenance=frozenset({"n2"}))
    assert [drop.reason for drop in told.dropped] == ["maintenance"] * 2
    told = days.tick(5, both, booted={"n2": NOON})
    assert [drop.reason for drop in told.dropped] == ["boot_grace"]
    assert list(days.open()) == ["node/n2"]
    days.tick(11, both[:1], booted={"n2": NOON})
    assert [drop.reason for drop in days.last.dropped] == []  # type: ignore[union-attr]


def test_a_missing_exporter_is_a_ticket_on_its_node() -> None:
    days = Days()
    days.run(0, 10, [find("silent", "n2", 0)])
    assert days.open()["node/n2"].severity is Severity.WARNING
    assert days.open()["node/n2"].cause == "telemetry"


def test_victims_that_show_later_are_told_once() -> None:
    """A lost GPU fires at once; that its job waits is seen minutes later, and the page must say so."""
    days = Days()
    days.run(0, 20, [find("xid", "n2", 0), slow("train-a", 0, 0.4)])
    assert [incident.impact_ratio for incident in days.told] == [None, pytest.approx(0.4)]
    assert "train-a 40% slower" in days.told[-1].summary


def test_a_cause_is_refined_and_not_lost_with_its_evidence() -> None:
    days = Days()
    clock, hot = find("sm_clock", "n2", 0), find("gpu_temp", "n2", 1)
    days.run(0, 8, [clock, hot])
    days.run(9, 14, [clock])
    days.tick(15, [])
    assert [incident.cause for incident in days.told][-1] == "thermal"
    assert days.lines()[-1] == "15 node/n2 thermal warning resolved"
