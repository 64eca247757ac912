"""Absence, classified: what is gone, and what merely does not speak."""

from collections.abc import Mapping, Sequence

import numpy as np

from anomaly.detect.absence import Absent, lost_devices, lost_nodes, silent_targets, unseen_devices, vanished_nodes
from tests.features.builders import NAN, panel

DCGM, NODE = "dcgm", "node"
Values = Mapping[tuple[str, str], Sequence[float]]


def nodes_lost(values: Values, first: int = 1) -> dict[str, list[float]]:
    return _by_name(lost_nodes(panel("up", list(values), list(values.values()), first)))


def silent(values: Values, first: int = 1) -> dict[str, list[float]]:
    return _by_name(silent_targets(panel("up", list(values), list(values.values()), first)))


def gpus_lost(values: Values, first: int = 1) -> dict[str, list[float]]:
    return _by_name(lost_devices(panel("gpu_temp", list(values), list(values.values()), first)))


def vanished(values: Values, first: int = 1) -> dict[str, list[float]]:
    return _by_name(vanished_nodes(panel("up", list(values), list(values.values()), first)))


def unseen(values: Values, answers: Sequence[bool], first: int = 1) -> dict[str, list[float]]:
    found = panel("gpu_temp", list(values), list(values.values()), first)
    return _by_name(unseen_devices(found, np.tile(np.array(answers), (len(values), 1))))


def _by_name(found: Absent) -> dict[str, list[float]]:
    names = [
        entity.name + (f"/{device}" if device else "")
        for entity, device in zip(found.entities, found.devices, strict=True)
    ]
    return dict(zip(names, found.score.tolist(), strict=True))


def same(a: list[float], b: list[float]) -> bool:
    return np.array_equal(a, b, equal_nan=True)


def test_one_target_down_is_telemetry_and_not_hardware() -> None:
    """As in NVIDIA/gpu-monitoring-tools#46."""
    values: Values = {("a", DCGM): [1, 0, 0], ("a", NODE): [1, 1, 1]}
    assert nodes_lost(values)["a"] == [0, 0]
    assert silent(values) == {"a/dcgm": [1, 1], "a/node": [0, 0]}


def test_all_targets_down_is_a_lost_node_and_no_silent_target() -> None:
    values: Values = {("a", DCGM): [1, 0, 0], ("a", NODE): [1, 0, 0], ("b", NODE): [1, 1, 1], ("b", DCGM): [1, 1, 1]}
    assert nodes_lost(values) == {"a": [1, 1], "b": [0, 0]}
    assert same(silent(values)["a/dcgm"], [NAN, NAN])


def test_a_gap_of_prometheus_is_no_verdict() -> None:
    values: Values = {
        ("a", DCGM): [1, NAN, 1],
        ("a", NODE): [1, NAN, 1],
        ("b", DCGM): [1, NAN, 1],
        ("b", NODE): [1, NAN, 0],
    }
    assert same(nodes_lost(values)["a"], [NAN, 0])
    assert same(silent(values)["b/node"], [NAN, 1])


def test_a_node_removed_from_discovery_is_not_lost() -> None:
    values: Values = {("a", DCGM): [1, NAN], ("a", NODE): [1, NAN], ("b", DCGM): [1, 1], ("b", NODE): [1, 1]}
    assert same(nodes_lost(values)["a"], [NAN])


def test_a_node_with_one_target_is_never_called_lost() -> None:
    values: Values = {("a", NODE): [1, 0], ("b", NODE): [1, 1], ("b", DCGM): [1, 1]}
    assert same(nodes_lost(values)["a"], [NAN])


def test_a_target_that_was_never_up_does_not_count() -> None:
    """A dead scrape job of long ago neither saves nor condemns its node."""
    alive = {("a", DCGM): [1, 1], ("a", NODE): [1, 1], ("a", "old"): [0, 0]}
    assert nodes_lost(alive)["a"] == [0]
    dead = {("a", DCGM): [1, 0], ("a", NODE): [1, 0], ("a", "old"): [0, 0], ("b", NODE): [1, 1]}
    assert nodes_lost(dead)["a"] == [1]
    assert same(silent(alive)["a/old"], [NAN])


def test_one_target_gone_from_discovery_and_the_other_down_is_lost() -> None:
    values: Values = {("a", DCGM): [1, NAN], ("a", NODE): [1, 0], ("b", DCGM): [1, 1], ("b", NODE): [1, 1]}
    assert nodes_lost(values)["a"] == [1]


def test_a_gpu_missing_among_its_neighbours_is_gone() -> None:
    values: Values = {("a", "0"): [50.0, 50, 50], ("a", "1"): [50.0, NAN, NAN], ("b", "0"): [50.0, 50, 50]}
    found = gpus_lost(values)
    assert found["a/1"] == [1, 1]
    assert found["a/0"] == found["b/0"] == [0, 0]


def test_all_gpus_of_a_node_missing_are_no_lost_gpus() -> None:
    values: Values = {("a", "0"): [50.0, NAN], ("a", "1"): [50.0, NAN], ("b", "0"): [50.0, 50]}
    found = gpus_lost(values)
    assert same(found["a/0"], [NAN])
    assert same(found["a/1"], [NAN])


def test_a_gpu_that_never_was_is_not_missed_and_one_that_comes_back_is_there() -> None:
    values: Values = {("a", "0"): [50.0, 50, 50], ("a", "1"): [NAN, NAN, 50.0], ("a", "2"): [50.0, NAN, 50.0]}
    found = gpus_lost(values)
    assert same(found["a/1"], [NAN, 0])
    assert found["a/2"] == [1, 0]


def test_a_node_that_leaves_discovery_vanishes_and_one_that_is_down_does_not() -> None:
    values: Values = {("a", DCGM): [1, NAN, 1], ("a", NODE): [1, NAN, NAN], ("b", NODE): [1, 0, 0]}
    assert vanished(values) == {"a": [1, 0], "b": [0, 0]}


def test_a_node_never_seen_up_does_not_vanish() -> None:
    assert same(vanished({("a", NODE): [0, NAN], ("b", NODE): [1, 1]})["a"], [NAN])


def test_all_gpus_gone_while_the_node_answers_is_the_exporter() -> None:
    values: Values = {("a", "0"): [60, NAN, NAN, 61], ("a", "1"): [60, NAN, NAN, NAN]}
    assert unseen(values, [True, True, True]) == {"a": [1, 1, 0]}


def test_all_gpus_gone_with_their_node_says_nothing_here() -> None:
    values: Values = {("a", "0"): [60, NAN, NAN], ("a", "1"): [60, NAN, NAN]}
    assert same(unseen(values, [False, False])["a"], [NAN, NAN])
