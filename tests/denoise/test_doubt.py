"""The forest's own findings: a note, after hours a ticket; never louder than what speaks for itself."""

from dataclasses import replace
from typing import Any

from anomaly.clock import MINUTE
from anomaly.denoise.doubt import LONELY
from anomaly.records import Finding
from tests.denoise.builders import NODES, NOON, Days, find, slow

HOURS = LONELY // MINUTE


def doubt(node: str, at: float, **more: Any) -> Finding:
    """The forest finds a node odd from `at` minutes after noon on; it means something ten minutes later."""
    base = find("sm_clock", node, at, cause="unknown", symptom="thermal", device="", detector="forest")
    return replace(base, signal="thermal_pattern", confirmed=base.onset + 10 * MINUTE, **more)


def test_alone_it_is_a_note_and_after_four_hours_a_ticket() -> None:
    """As in yzhao062/pyod#482, yzhao062/pyod#216, scikit-learn/scikit-learn#27626."""
    days = Days()
    days.run(0, HOURS + 1, [doubt("n2", 0)])
    assert days.lines() == ["11 node/n2 unknown info firing", f"{HOURS} node/n2 unknown warning firing"]


def test_it_ends_with_the_forests_doubt() -> None:
    days = Days()
    days.run(0, 30, [doubt("n2", 0)])
    days.tick(31, [])
    assert days.lines()[-1] == "31 node/n2 unknown info resolved"


def test_it_never_explains_a_slow_job() -> None:
    days = Days()
    days.run(0, 40, [doubt("n2", 0), slow("train-a", 12)])
    assert not any("critical" in line and "node/n2" in line for line in days.lines()), days.lines()
    assert any("job/train-a" in line for line in days.lines())


def test_a_node_that_speaks_for_itself_needs_no_second_opinion() -> None:
    days = Days()
    days.run(0, 30, [find("gpu_temp", "n2", 0), doubt("n2", 1)])
    assert days.last is not None and days.last.reasons == {"second_opinion": 1}
    assert days.open()["node/n2"].signals == ("gpu_temp",)
    days.run(31, 33, [doubt("n2", 1)])
    assert "node/n2" not in days.open() or days.open()["node/n2"].severity == "info"
    assert any(line.endswith("node/n2 thermal warning resolved") for line in days.lines())


def test_what_a_statistic_confirms_grows_out_of_the_note_and_takes_the_real_causes_name() -> None:
    days = Days()
    days.run(0, 30, [doubt("n2", 0)])
    days.run(31, 40, [doubt("n2", 0), find("gpu_temp", "n2", 27)])
    days.run(41, 45, [doubt("n2", 0)])
    assert days.lines() == ["11 node/n2 unknown info firing", "31 node/n2 thermal warning firing"]
    [incident] = days.open().values()
    assert (incident.frozen_cause, incident.onset) == ("thermal", NOON)


def test_an_incident_that_happens_to_begin_with_the_doubt_still_ends_with_its_own_findings() -> None:
    days = Days()
    days.run(0, 30, [find("gpu_temp", "n2", 0), doubt("n2", 0)])
    days.run(31, 33, [doubt("n2", 0, score=0.9)])
    assert days.lines()[-1] == "31 node/n2 thermal warning resolved"


def test_what_has_fallen_below_the_boundary_opens_nothing() -> None:
    days = Days()
    days.run(0, 30, [doubt("n2", 0, score=0.8)])
    assert days.told == [] and days.last is not None and days.last.reasons == {"second_opinion": 1}


def test_many_odd_nodes_at_once_are_a_stale_model_and_no_shared_fault() -> None:
    days = Days()
    days.run(0, 30, [doubt(node, 0) for node in NODES[:5]])
    assert days.told == [] and days.last is not None and days.last.reasons == {"model_stale": 5}


def test_nodes_that_are_odd_together_are_not_one_cause() -> None:
    days = Days()
    days.run(0, 30, [doubt(node, 0) for node in NODES[:3]])
    assert [line.split()[1] for line in days.lines()] == ["node/n1", "node/n2", "node/n3"]
