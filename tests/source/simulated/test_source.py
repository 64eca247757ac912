"""The simulated cluster as a source: the same answers however it is asked, by Prometheus' rules."""

import json
from itertools import pairwise

import numpy as np
import pytest

from anomaly.clock import HOUR, MINUTE, SECOND, Ms, parse_time
from anomaly.records import Pulled, Query
from anomaly.source import Source
from anomaly.source.simulated import (
    FAULT_TYPES,
    Fault,
    LiveSimulatedSource,
    Scenario,
    SimulatedSource,
    make_cluster,
    place_faults,
    topology_csv,
    truth,
)
from anomaly.source.simulated.faults import COMMON
from anomaly.source.simulated.scenario import BLOCK, Simulation
from anomaly.source.simulated.truth import CAUSE_FAMILY, LIMITS_S
from tests.source.simulated.readings import END, ONSET, OVER, SCRAPE, START, small_cluster

TEMPERATURE = '{__name__=~"DCGM_FI_DEV_GPU_TEMP|DCGM_FI_DEV_GPU_TEMP_CELSIUS"}'
P99 = (
    "histogram_quantile(0.99, sum by (instance, vol_name, le) "
    "(rate(juicefs_object_request_durations_histogram_seconds_bucket[2m])))"
)


def ask(source: Source, signal: str, promql: str, start: Ms, end: Ms, step: Ms = SCRAPE) -> Pulled:
    return source.pull(Query(signal, promql, start, end, step))


def as_points(pulled: Pulled) -> dict[tuple[tuple[str, str], ...], dict[int, float]]:
    points: dict[tuple[tuple[str, str], ...], dict[int, float]] = {}
    at = 0
    for labels, length in zip(pulled.labels, pulled.lengths, strict=True):
        key = tuple(sorted(labels.items()))
        assert key not in points, "a label set comes once"
        ts = pulled.ts[at : at + length]
        assert (np.diff(ts) > 0).all()
        points[key] = dict(zip(ts.tolist(), pulled.values[at : at + length].tolist(), strict=True))
        at += int(length)
    assert at == len(pulled.ts) == len(pulled.values)
    return points


def scenario(seed: int = 3, *faults: Fault) -> Scenario:
    return Scenario(small_cluster(), faults, START, END, seed=seed)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    first, again, other = (
        ask(SimulatedSource(scenario(seed)), "gpu_temp", TEMPERATURE, START, END) for seed in (3, 3, 4)
    )
    assert first.labels == again.labels == other.labels
    assert first.values.tobytes() == again.values.tobytes()
    assert first.values.tobytes() != other.values.tobytes()


@pytest.mark.parametrize(
    ("signal", "promql", "step"),
    [("gpu_temp", TEMPERATURE, SCRAPE), ("up", "up", 30_000), ("storage_p99", P99, 30_000)],
)
def test_pieces_add_up_to_the_whole(signal: str, promql: str, step: Ms) -> None:
    culprit = small_cluster().jobs[0].nodes[1]
    whole, pieces = (SimulatedSource(scenario(3, Fault("node_lost", (culprit,), ONSET, OVER))) for _ in range(2))
    asked = as_points(ask(whole, signal, promql, START, END, step))
    together: dict[tuple[tuple[str, str], ...], dict[int, float]] = {}
    # Backwards and unevenly, so that nothing depends on what was asked before.
    for start, end in (
        (START + 41 * MINUTE, END),
        (START, START + 7 * MINUTE),
        (START + 7 * MINUTE, START + 41 * MINUTE),
    ):
        for key, points in as_points(ask(pieces, signal, promql, start, end, step)).items():
            together.setdefault(key, {}).update(points)
    assert together.keys() == asked.keys()
    for key, points in asked.items():
        assert together[key] == pytest.approx(points, nan_ok=True, rel=1e-9)


def test_a_live_cluster_goes_on_and_never_changes_what_it_said() -> None:
    def live() -> LiveSimulatedSource:
        return LiveSimulatedSource(7, 12, ["gpu_lost"], START, gpus=2, jobs=2)

    tick_by_tick, at_once = live(), live()
    late = as_points(ask(at_once, "gpu_power", "DCGM_FI_DEV_POWER_USAGE", START, START + 3 * HOUR))
    for minute in range(170, 180, 2):
        start = START + minute * MINUTE
        for key, points in as_points(
            ask(tick_by_tick, "gpu_power", "DCGM_FI_DEV_POWER_USAGE", start, start + 2 * MINUTE)
        ).items():
            assert points.items() <= late[key].items()
    assert tick_by_tick.faults_until(START + 3 * HOUR)[0].type == "gpu_lost"
    assert as_points(ask(at_once, "gpu_power", "DCGM_FI_DEV_POWER_USAGE", START - HOUR, START - SCRAPE)) == {}


def test_an_old_block_is_made_again_exactly() -> None:
    cluster = make_cluster(2, nodes=6, gpus=1, jobs=1, rails=1)
    simulation = Simulation(cluster, lambda until: (), START, 60 * SECOND, seed=1, keep=1)
    first = simulation.block(0).gpu["power"].tobytes()
    simulation.block(60)
    assert simulation.block_at(START + 60 * BLOCK) == 60
    assert simulation.block(0).gpu["power"].tobytes() == first


def test_faults_of_a_live_cluster_are_only_ever_added() -> None:
    source = LiveSimulatedSource(7, 12, 2, START, gpus=1, jobs=2)
    early = source.faults_until(START + 90 * MINUTE)
    later = source.faults_until(START + 12 * HOUR)
    assert later[: len(early)] == early
    assert len(later) >= 6
    assert source.faults_until(START + 90 * MINUTE) == early


def test_a_query_between_scrapes_sees_the_newest_before_it() -> None:
    source = SimulatedSource(scenario())
    on_grid = as_points(ask(source, "gpu_temp", TEMPERATURE, START + MINUTE, START + 2 * MINUTE))
    between = as_points(ask(source, "gpu_temp", TEMPERATURE, START + MINUTE + 4000, START + 2 * MINUTE + 4000))
    for key, points in on_grid.items():
        assert list(between[key].values()) == list(points.values())
        assert [ts - 4000 for ts in between[key]] == list(points)


def test_a_series_ends_thirty_seconds_after_its_last_scrape() -> None:
    culprit = small_cluster().jobs[0].nodes[1]
    source = SimulatedSource(scenario(3, Fault("node_lost", (culprit,), ONSET, OVER)))
    points = as_points(ask(source, "gpu_temp", TEMPERATURE, START, OVER - MINUTE, 5000))
    ends = {max(points[key]) for key in points if ("Hostname", culprit) in key}
    # Scraped last 15 s before the onset, and repeated until the sample is older than 30 s.
    assert ends == {ONSET - 15_000 + 30_000}


def test_nothing_comes_from_outside_the_scenario_or_for_an_unknown_metric() -> None:
    source = SimulatedSource(scenario())
    assert ask(source, "gpu_temp", TEMPERATURE, END + MINUTE, END + 2 * MINUTE).labels == ()
    assert ask(source, "gpu_temp", TEMPERATURE, START - HOUR, START - MINUTE).labels == ()
    assert ask(source, "fan_speed", "ipmi_fan_speed_rpm", START, END).labels == ()
    assert ask(source, "gpu_temp", TEMPERATURE, END, START).labels == ()


def test_several_names_of_one_signal_come_as_series_of_their_own() -> None:
    query = '{__name__=~"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL|DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"}'
    pulled = ask(SimulatedSource(scenario()), "nvlink_errors", query, START, START + MINUTE)
    assert {labels["__name__"] for labels in pulled.labels} == {
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    }


def test_computed_signals_have_the_labels_that_their_query_leaves() -> None:
    source = SimulatedSource(scenario())
    at = (START + 5 * MINUTE, START + 6 * MINUTE)
    busy = ask(source, "cpu_busy_ratio", '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[2m]))', *at)
    assert {frozenset(labels) for labels in busy.labels} == {frozenset({"instance"})}
    assert ((busy.values > 0) & (busy.values < 0.6)).all()
    p99 = ask(source, "storage_p99", P99, *at)
    assert {frozenset(labels) for labels in p99.labels} == {frozenset({"instance", "vol_name"})}
    free = ask(source, "memory_available_ratio", "node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes", *at)
    assert {frozenset(labels) for labels in free.labels} == {frozenset({"instance", "job"})}
    assert ((free.values > 0.3) & (free.values < 1)).all()


def test_placed_faults_leave_each_job_in_peace_in_between() -> None:
    cluster = make_cluster(11)
    gap = 12 * MINUTE
    for seed in range(5):
        faults = place_faults(cluster, seed, 8, START, START + 4 * HOUR, gap)
        assert len(faults) == 8
        assert {fault.type for fault in faults} == set(COMMON)
        assert [fault.onset for fault in faults] == sorted(fault.onset for fault in faults)
        for job in cluster.jobs:
            mine = [fault for fault in faults if job in cluster.jobs_of(fault.nodes)]
            for before, after in pairwise(mine):
                assert after.onset >= before.end + gap
        assert all(START + 20 * MINUTE <= fault.onset < fault.end <= START + 4 * HOUR for fault in faults)
    assert place_faults(cluster, 1, 3, START, START + 3 * HOUR) == place_faults(cluster, 1, 3, START, START + 3 * HOUR)
    assert place_faults(cluster, 1, ["node_lost"], START, END)[0].type == "node_lost"
    with pytest.raises(ValueError, match="do not fit"):
        place_faults(cluster, 1, 30, START, END)
    with pytest.raises(ValueError, match="no fault is called"):
        place_faults(cluster, 1, ["meteor"], START, END)


def test_truth_is_what_the_backtest_reads() -> None:
    cluster = make_cluster(11)
    faults = place_faults(cluster, 2, 6, START, START + 3 * HOUR)
    told = json.loads(json.dumps(truth(Scenario(cluster, faults, START, START + 3 * HOUR))))
    assert set(told) == {"faults", "decoys"}
    assert len(told["faults"]) == 6
    for entry, fault in zip(told["faults"], faults, strict=True):
        assert set(entry) == {
            "id", "type", "scope", "nodes", "culprit_nodes", "group", "onset", "end", "expect", "max_delay_s",
            "cause_family", "effect",
        }  # fmt: skip
        assert parse_time(entry["onset"]) == fault.onset and parse_time(entry["end"]) == fault.end
        assert entry["max_delay_s"] == LIMITS_S[fault.type] and entry["cause_family"] == CAUSE_FAMILY[fault.type]
        if entry["scope"] == "node":
            assert entry["expect"] == "node_alert" and entry["culprit_nodes"] == list(fault.nodes)
            assert set(entry["nodes"]) == {name for job in cluster.jobs_of(fault.nodes) for name in job.nodes}
        else:
            assert entry["expect"] == "shared_alert" and entry["culprit_nodes"] == []
            assert entry["group"] in {node.leaf for node in cluster.nodes} | {node.storage for node in cluster.nodes}
    assert set(LIMITS_S) == set(CAUSE_FAMILY) == set(FAULT_TYPES)
    kinds = {decoy["type"] for decoy in told["decoys"]}
    assert "checkpoint" in kinds
    for decoy in told["decoys"]:
        assert set(decoy) == {"type", "nodes", "start", "end"}
        assert parse_time(decoy["start"]) <= parse_time(decoy["end"])


def test_the_topology_file_names_every_node_once() -> None:
    cluster = make_cluster(11)
    header, *rows = topology_csv(cluster).splitlines()
    assert header == "node,rack,leaf,pdu,sku,storage"
    assert [row.split(",")[0] for row in rows] == [f"gpu-{n:02d}" for n in range(1, 33)]
    assert all(len(row.split(",")) == 6 for row in rows)


@pytest.mark.parametrize("wrong", [{"nodes": 5}, {"gpus": 0}, {"jobs": 0}])
def test_a_cluster_too_small_to_have_peers_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="a simulated cluster needs"):
        make_cluster(1, **{"nodes": 12, **wrong})


def test_a_scenario_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        Scenario(small_cluster(), (), START, START)
    with pytest.raises(ValueError, match="no node gpu-99"):
        Scenario(small_cluster(), (Fault("node_lost", ("gpu-99",), ONSET, OVER),), START, END)
