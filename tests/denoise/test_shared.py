"""Shared causes: many members of one group that turn together, and none of them to blame."""

import pytest

from anomaly.records import Finding
from tests.denoise.builders import NODES, RACKS, Days, find, slow

RACK_2 = [node for node in NODES if RACKS[node] == "rack-2"]


def hot(nodes: list[str] | tuple[str, ...], at: float = 0, signal: str = "gpu_temp") -> list[Finding]:
    return [find(signal, node, at + 0.25 * i) for i, node in enumerate(nodes)]


def test_a_rack_that_turns_together_is_one_incident() -> None:
    days = Days()
    days.run(0, 12, hot(RACK_2))
    assert list(days.open()) == ["rack/rack-2"]
    incident = days.open()["rack/rack-2"]
    assert (incident.scope, incident.alertname) == ("group", "SharedFault")
    assert set(incident.nodes) == set(RACK_2)


def test_two_nodes_of_a_rack_are_two_incidents() -> None:
    days = Days()
    days.run(0, 12, hot(RACK_2[:2]))
    assert sorted(days.open()) == ["node/n5", "node/n6"]


def test_nodes_at_their_own_times_are_their_own_incidents() -> None:
    days = Days()
    found = [find("gpu_temp", node, 12 * i) for i, node in enumerate(RACK_2)]
    days.run(0, 60, found)
    assert sorted(days.open()) == ["node/n5", "node/n6", "node/n7", "node/n8"]


def test_three_of_a_large_group_explain_nothing_when_they_are_a_small_part_of_it() -> None:
    """3 of 12 nodes over three racks: neither a rack nor the cluster, but the whole of nothing."""
    days = Days()
    days.run(0, 12, hot(["n1", "n5", "n9"]), jobs={})
    assert sorted(days.open()) == ["node/n1", "node/n5", "node/n9"]


def test_the_group_that_fits_best_wins_over_a_larger_one() -> None:
    days = Days()
    days.run(0, 12, hot(NODES[:8]))
    assert list(days.open()) == ["job/train-a"]
    assert days.open()["job/train-a"].nodes == tuple(sorted(NODES[:8]))


def test_everybody_is_the_cluster() -> None:
    days = Days()
    days.run(0, 12, hot(NODES))
    assert list(days.open()) == ["cluster/prod-a"]


def test_a_volume_is_its_own_group_and_needs_no_outsiders() -> None:
    days = Days()
    days.run(0, 12, hot(NODES, signal="storage_p99"))
    assert list(days.open()) == ["storage/train-data"]


def test_two_volumes_are_two_incidents() -> None:
    days = Days()
    other = [find("storage_p99", node, 0, device="scratch") for node in NODES[6:]]
    days.run(0, 12, [*hot(NODES[:6], signal="storage_p99"), *other])
    assert sorted(days.open()) == ["storage/scratch", "storage/train-data"]


def test_a_member_with_a_hard_fault_of_its_own_keeps_it() -> None:
    days = Days()
    days.run(0, 12, [*hot(RACK_2), find("xid", "n6", 1)])
    assert sorted(days.open()) == ["node/n6", "rack/rack-2"]
    assert days.open()["node/n6"].cause == "gpu_lost"


def test_lost_nodes_of_a_rack_are_one_incident_without_a_hardware_verdict() -> None:
    days = Days()
    days.tick(1, [find("up", node, 0) for node in RACK_2])
    assert days.lines() == ["1 rack/rack-2 node_lost critical firing"]


def test_a_member_that_fired_first_is_absorbed_at_the_tick_at_which_the_group_fires() -> None:
    days = Days()
    found = [find("up", "n5", 0), *(find("up", node, 2) for node in RACK_2[1:])]
    days.run(0, 3, found)
    assert days.lines() == [
        "0 node/n5 node_lost critical firing",
        "2 node/n5 node_lost critical resolved absorbed",
        "2 rack/rack-2 node_lost critical firing",
    ]
    assert days.told[1].absorbed_by == days.told[2].id


def test_a_member_that_fired_first_stays_until_the_group_fires() -> None:
    days = Days()
    first = find("symbol_errors", "n5", 0)
    others = [find("symbol_errors", node, 4) for node in RACK_2[1:]]
    stirring = {"symbol_errors": frozenset({"n9"})}
    for at in range(12):
        before = set(days.open())
        days.tick(at, [first, *others], stirring=stirring if at > 4 else {})
        assert not before or days.open(), f"nothing speaks at minute {at}"
    assert list(days.open()) == ["rack/rack-2"]


def test_a_firing_group_keeps_the_members_it_has_left() -> None:
    days = Days()
    found = hot(RACK_2)
    days.run(0, 12, found)
    days.run(13, 15, found[:1])
    assert list(days.open()) == ["rack/rack-2"]
    days.tick(16, [])
    assert days.lines()[-1].startswith("16 rack/rack-2 thermal")
    assert not days.open()


def test_another_symptom_of_a_member_is_its_own_incident() -> None:
    days = Days()
    days.run(0, 12, [*hot(RACK_2), find("symbol_errors", "n6", 2)])
    assert sorted(days.open()) == ["node/n6", "rack/rack-2"]


def test_a_slow_job_is_the_groups_effect() -> None:
    days = Days()
    days.run(0, 12, [*hot(RACK_2), slow("train-a", 1, 0.3)])
    incident = days.open()["rack/rack-2"]
    assert incident.severity == "critical"
    assert incident.jobs == ("train-a",)
    assert set(incident.victims) == {"n1", "n2", "n3", "n4"}
    assert list(days.open()) == ["rack/rack-2"]


@pytest.mark.parametrize(("silent", "whose"), [(4, "rack/rack-1"), (12, "cluster/prod-a")])
def test_exporters_that_die_together_are_one_monitoring_fault(silent: int, whose: str) -> None:
    """As in mej/nhc#161."""
    days = Days()
    days.run(0, 12, [find("silent", node, 0) for node in NODES[:silent]])
    assert list(days.open()) == [whose]
    (incident,) = days.open().values()
    assert (incident.scope, incident.cause, incident.severity) == ("group", "telemetry", "warning")


def test_who_uses_a_slow_volume_belongs_to_it_however_late() -> None:
    days = Days()
    found = [find("storage_p99", node, 0) for node in NODES[:5]]
    late = [find("storage_p99", "n9", 25), find("storage_p99", "n12", 33)]
    days.run(0, 50, [*found, *late])
    assert list(days.open()) == ["storage/train-data"]
    assert {"n9", "n12"} <= set(days.open()["storage/train-data"].nodes)


def test_who_turns_an_hour_later_is_not_a_member() -> None:
    """One member stays hot; another node of the rack that fails on its own must not vanish in the old incident."""
    days = Days()
    found, later = hot(RACK_2[:3]), find("gpu_temp", RACK_2[3], 70)
    days.run(0, 20, found)
    days.run(21, 90, [found[0], later])
    assert sorted(days.open()) == [f"node/{RACK_2[3]}", "rack/rack-2"]


def test_a_lost_node_and_the_silent_trainers_of_its_mates_are_two_things() -> None:
    days = Days()
    silent = [find("silent", node, 7, device="training") for node in NODES[1:8]]
    days.run(4, 20, [find("up", "n1", 5), *silent])
    assert any("n1 node_lost critical" in line for line in days.lines())
    assert not any("train-a node_lost" in line for line in days.lines())
