"""A person closes an incident: it ends, stays closed while the same findings last, and hides nothing new."""

from dataclasses import replace

import pytest

from anomaly.denoise.world import Memory
from anomaly.records import Phase
from tests.denoise.builders import NODES, Days, find, slow


def close(days: Days, *entities: str) -> None:
    """Ask for the incidents of these entities to be closed at the next tick."""
    ids = tuple(incident.id for incident in days.memory.open if str(incident.entity) in entities)
    assert len(ids) == len(entities)
    days.memory = replace(days.memory, asked=ids)


def test_a_closed_incident_ends_and_does_not_reopen_while_its_findings_last() -> None:
    days = Days()
    hot = find("gpu_temp", "n2", 0)
    days.run(0, 9, [hot])
    close(days, "node/n2")
    days.run(10, 60, [hot])
    assert days.lines() == ["4 node/n2 thermal warning firing", "10 node/n2 thermal warning closed"]
    assert days.told[-1].resolved_at == days.told[-1].updated_at
    assert days.last is not None
    assert [(drop.reason, drop.because) for drop in days.last.dropped] == [("closed", days.told[0].id)]


def test_a_later_onset_of_the_same_signal_opens_a_new_incident() -> None:
    days = Days()
    days.run(0, 9, [find("gpu_temp", "n2", 0)])
    close(days, "node/n2")
    days.run(10, 20, [find("gpu_temp", "n2", 0)])
    days.run(21, 25, [])
    assert days.memory == Memory(), "with its findings the closing is forgotten"
    days.run(30, 40, [find("gpu_temp", "n2", 30)])
    assert list(days.open()) == ["node/n2"]
    assert len({incident.id for incident in days.told}) == 2


def test_a_hard_fact_that_comes_after_the_closing_speaks() -> None:
    days = Days()
    hot = find("gpu_temp", "n2", 0)
    days.run(0, 9, [hot])
    close(days, "node/n2")
    days.run(10, 15, [hot])
    days.run(16, 17, [hot, find("xid", "n2", 16)])
    assert days.lines()[-1] == "16 node/n2 gpu_lost critical firing"


def test_a_hard_fact_that_was_there_stays_closed() -> None:
    days = Days()
    fallen = find("xid", "n2", 0)
    days.run(0, 5, [fallen])
    close(days, "node/n2")
    days.run(6, 60, [fallen])
    assert days.open() == {}


def test_the_slowdown_that_it_explained_does_not_become_an_incident_of_its_own() -> None:
    days = Days()
    there = [find("gpu_temp", "n2", 0), slow("train-a", 1)]
    days.run(0, 9, there)
    close(days, "node/n2")
    days.run(10, 90, there)
    assert days.open() == {}
    assert days.last is not None
    assert {drop.finding.signal: drop.reason for drop in days.last.dropped} == {
        "gpu_temp": "closed",
        "iteration_seconds": "closed",
    }


def test_a_closed_group_leaves_other_faults_of_its_members_alone() -> None:
    days = Days()
    pauses = [find("pfc_pause_received", node, 0) for node in NODES[:4]]
    hot = find("gpu_temp", "n2", 0)
    days.run(0, 10, [*pauses, hot])
    assert set(days.open()) == {"rack/rack-1", "node/n2"}
    close(days, "rack/rack-1")
    days.run(11, 30, [*pauses, hot])
    assert list(days.open()) == ["node/n2"]


def test_what_only_waits_can_be_closed_without_a_word() -> None:
    days = Days()
    days.tick(3, [find("gpu_temp", "n2", 0)])
    close(days, "node/n2")
    days.run(4, 20, [find("gpu_temp", "n2", 0)])
    assert days.told == []


@pytest.mark.parametrize("wanted", ["", "ffff"])
def test_an_id_that_is_not_open_changes_nothing(wanted: str) -> None:
    days = Days()
    days.run(0, 9, [find("gpu_temp", "n2", 0)])
    days.memory = replace(days.memory, asked=(wanted,))
    days.run(10, 12, [find("gpu_temp", "n2", 0)])
    assert list(days.open()) == ["node/n2"]
    assert days.memory.asked == ()
    assert all(incident.phase is Phase.FIRING for incident in days.memory.open)
