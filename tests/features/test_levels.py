"""Peer levels: whom a row may be compared with."""

import numpy as np

from anomaly.features.levels import combine, peer_levels
from tests.features.builders import rows

GPUS = rows([(node, slot) for node in ("a", "b", "c") for slot in ("0", "1")])


def groups(codes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[set[int]]:
    return sorted(
        ({int(i) for i in np.flatnonzero(codes == code)} for code in np.unique(codes[codes >= 0])), key=sorted
    )


def test_gpus_are_compared_slot_by_slot_then_job_then_host_then_fleet() -> None:
    job = np.array([0, 0, 0, 0, -1, -1], np.int32)
    kind = np.zeros(6, np.int64)
    levels = [groups(level) for level in peer_levels("gpu", GPUS, job, kind)]
    assert levels == [
        [{0, 2}, {1, 3}],
        [{0, 1, 2, 3}],
        [{0, 1}, {2, 3}, {4, 5}],
        [{0, 2, 4}, {1, 3, 5}],
    ]


def test_another_kind_of_node_is_nobodys_peer() -> None:
    job = np.zeros(6, np.int32)
    kind = np.array([0, 0, 1, 1, 1, 1], np.int64)
    levels = peer_levels("gpu", GPUS, job, kind)
    for level in levels:
        for members in groups(level):
            assert len({int(kind[i]) for i in members}) == 1


def test_a_node_with_two_jobs_is_compared_with_its_own_and_the_fleet_only() -> None:
    job = np.full(6, -2, np.int32)
    levels = peer_levels("gpu", GPUS, job, np.zeros(6, np.int64))
    assert groups(levels[0]) == groups(levels[1]) == []
    assert groups(levels[2])


def test_hosts_are_compared_within_the_job_then_the_fleet() -> None:
    hosts = rows([(node, "") for node in "abc"])
    levels = peer_levels("node", hosts, np.array([0, 0, -1], np.int32), np.zeros(3, np.int64))
    assert [groups(level) for level in levels] == [[{0, 1}], [{0, 1, 2}]]


def test_a_signal_without_peers_has_no_levels() -> None:
    assert peer_levels("none", GPUS, np.zeros(6, np.int32), np.zeros(6, np.int64)) == []


def test_combined_codes_are_equal_exactly_where_all_parts_are() -> None:
    random = np.random.default_rng(5)
    parts = [random.integers(-1, 5, 60) for _ in range(3)]
    codes = combine(*parts)
    for i in range(60):
        for j in range(60):
            both = min(part[k] for part in parts for k in (i, j)) >= 0
            assert (codes[i] == codes[j] >= 0) == (both and all(part[i] == part[j] for part in parts))


def test_no_rows_have_no_groups() -> None:
    assert combine(np.empty(0, np.int64), np.empty(0, np.int64)).tolist() == []
