"""The breaker: a detector that blames half the fleet is itself the news."""

from anomaly.records import Finding
from tests.denoise.builders import Days, find

SCATTERED = ["n1", "n2", "n5", "n6", "n9", "n10"]


def apart(nodes: list[str]) -> list[Finding]:
    """Findings too far apart to share a cause, near enough to be a flood: each node with another signal or time."""
    signals = ["gpu_temp", "symbol_errors", "sm_clock"]
    return [find(signals[i % 3], node, i * 0.5) for i, node in enumerate(nodes)]


def test_up_to_three_nodes_of_a_small_cluster_are_named() -> None:
    """As in NVIDIA/NVSentinel#450, NVIDIA/NVSentinel#1686."""
    days = Days()
    days.run(0, 15, apart(SCATTERED[:3]), jobs={})
    assert len(days.open()) == 3
    assert all(name.startswith("node/") for name in days.open())


def test_more_are_one_fleet_incident() -> None:
    """As in NVIDIA/NVSentinel#450, NVIDIA/NVSentinel#1686."""
    days = Days()
    days.run(0, 15, apart(SCATTERED), jobs={})
    assert list(days.open()) == ["cluster/prod-a"]
    assert set(days.open()["cluster/prod-a"].nodes) == set(SCATTERED)


def test_hard_faults_keep_their_own() -> None:
    days = Days()
    days.run(0, 15, [*apart(SCATTERED), find("xid", "n12", 1)], jobs={})
    assert sorted(days.open()) == ["cluster/prod-a", "node/n12"]


def test_notes_do_not_count() -> None:
    days = Days()
    notes = [find("load_per_core", node, i * 12) for i, node in enumerate(SCATTERED)]
    days.run(0, 90, notes, jobs={})
    assert all(incident.severity == "info" for incident in days.open().values())


def test_a_flood_that_ends_ends() -> None:
    days = Days()
    days.run(0, 15, apart(SCATTERED), jobs={})
    days.tick(16, [])
    assert not days.open()


def test_one_after_another_over_hours_is_no_flood() -> None:
    days = Days()
    found = [find("gpu_temp", node, 25 * i) for i, node in enumerate(SCATTERED)]
    days.run(0, 150, found, jobs={})
    assert len(days.open()) == len(SCATTERED)


def test_who_turns_long_after_the_flood_is_named() -> None:
    """Otherwise one node that never recovers would swallow every later fault of the cluster."""
    days = Days()
    flood, later = apart(SCATTERED), find("gpu_temp", "n12", 60)
    days.run(0, 30, flood, jobs={})
    days.run(31, 90, [flood[0], later], jobs={})
    assert sorted(days.open()) == ["cluster/prod-a", "node/n12"]
