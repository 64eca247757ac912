"""What a healthy cluster does: it is never quite still, and none of it is a fault."""

import numpy as np
import pytest

from anomaly.clock import HOUR, MINUTE
from anomaly.source.simulated import make_cluster
from tests.source.simulated.readings import END, START, Readings, small_cluster

CLOCK, POWER = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_POWER_USAGE"
UTIL, XID = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_XID_ERRORS"


@pytest.fixture(scope="module")
def quiet() -> Readings:
    return Readings(small_cluster(), end=START + 2 * HOUR)


def test_clocks_of_one_job_lie_within_a_percent_of_each_other(quiet: Readings) -> None:
    for job in small_cluster().jobs:
        medians = [np.nanmedian(values) for _, values in quiet.series(CLOCK, hpc_job=job.name)]
        assert np.ptp(medians) / np.median(medians) <= 0.016


def test_temperatures_at_equal_power_differ_by_a_few_degrees(quiet: Readings) -> None:
    medians = [np.nanmedian(values) for _, values in quiet.series("DCGM_FI_DEV_GPU_TEMP") if np.nanmedian(values) > 45]
    assert 3 < np.ptp(medians) < 14


def test_checkpoints_dip_the_whole_job_every_twenty_to_thirty_minutes(quiet: Readings) -> None:
    job = small_cluster().jobs[0]
    one = quiet.one(POWER, Hostname=job.nodes[0], gpu="0")
    other = quiet.one(POWER, Hostname=job.nodes[-1], gpu="1")
    dips = [int(np.sum(np.diff((values < 0.6 * np.median(values)).astype(int)) == 1)) for values in (one, other)]
    assert dips[0] == dips[1]
    assert 3 <= dips[0] <= 7
    written = quiet.series("juicefs_object_request_durations_histogram_seconds_bucket", method="PUT", le="+Inf")
    grown = np.diff(next(values for labels, values in written if labels["instance"] == f"{job.nodes[0]}:9567"))
    saving = grown > 300
    assert dips[0] <= saving.sum() <= 6 * dips[0]


def test_boards_are_read_every_thirty_seconds_so_values_come_in_pairs(quiet: Readings) -> None:
    values = quiet.one(POWER, Hostname=small_cluster().jobs[0].nodes[0], gpu="0")
    repeats = np.diff(values) == 0
    assert 0.45 < repeats.mean() < 0.55
    assert not (repeats[1:] & repeats[:-1]).any()


def test_every_gpu_has_an_xid_series_and_old_application_codes_stay(quiet: Readings) -> None:
    found = quiet.series(XID)
    cluster = small_cluster()
    assert len({(labels["Hostname"], labels["gpu"]) for labels, _ in found}) == len(cluster.nodes) * cluster.gpus
    codes = [values for _, values in found if np.nanmax(values) > 0]
    assert codes
    assert all(np.nanmax(values) in (13, 31) for values in codes)


def test_counters_start_somewhere_and_one_is_set_back(quiet: Readings) -> None:
    falls = {}
    for metric in (
        "node_infiniband_port_data_received_bytes_total",
        "node_ethtool_received_prio3_pause",
        "juicefs_object_request_durations_histogram_seconds_bucket",
    ):
        rows = [values for _, values in quiet.series(metric)]
        assert max(values[0] for values in rows) > 1000
        falls[metric] = sum(bool((np.diff(values) < 0).any()) for values in rows)
    assert any(falls.values())


def test_single_stray_events_happen_on_healthy_ports(quiet: Readings) -> None:
    events = 0
    for seed in range(3, 7):
        readings = Readings(small_cluster(), seed=seed, end=START + 2 * HOUR)
        for metric in ("node_infiniband_symbol_error_total", "node_infiniband_out_of_buffer_drops_total"):
            grown = [np.diff(values).clip(0).sum() for _, values in readings.series(metric)]
            assert max(grown) <= 3
            events += int(sum(grown))
    assert 1 <= events <= 40


def test_congestion_bursts_hit_all_nodes_of_a_job_together(quiet: Readings) -> None:
    job = small_cluster().jobs[0]
    one, other = (
        np.diff(quiet.one("node_ethtool_received_prio3_pause", instance=f"{node}:9100", device="rdma0"))[:80]
        for node in (job.nodes[0], job.nodes[-1])
    )
    assert np.corrcoef(one, other)[0, 1] > 0.6


def test_up_is_there_for_every_target(quiet: Readings) -> None:
    found = quiet.series("up")
    assert len(found) == 4 * 16
    assert {labels["job"] for labels, _ in found} == {"dcgm-exporter", "node-exporter", "juicefs", "training"}
    missed = [labels["job"] for labels, values in found if (values == 0).any()]
    assert len(missed) <= 6
    whole = [labels["instance"].split(":")[0] for labels, values in found if (values == 0).any()]
    assert max(whole.count(node) for node in whole) < 4, "a scrape missed now and then, never a host"


def test_a_job_ends_and_another_starts_on_its_nodes_when_asked() -> None:
    cluster = make_cluster(5, nodes=12, gpus=2, jobs=2, churn_after=20 * MINUTE)
    first, successor = cluster.jobs[0], cluster.jobs[-1]
    assert first.nodes == successor.nodes
    readings = Readings(cluster)
    util = readings.one(UTIL, Hostname=first.nodes[0], gpu="0")
    assert readings.level(util, START + 15 * MINUTE, START + 19 * MINUTE) > 80
    assert readings.level(util, START + 22 * MINUTE, START + 29 * MINUTE) == 0
    assert readings.level(util, END - 5 * MINUTE, END) > 60
    holders = [labels.get("hpc_job") for labels, _ in readings.series(UTIL, Hostname=first.nodes[0], gpu="0")]
    assert holders == [first.name, None, successor.name]
    fresh = [values for _, values in readings.series(XID, hpc_job=successor.name)]
    assert max(np.nanmax(values) for values in fresh) in (13, 31), "its first attempt left a code behind"


def test_an_idle_node_holds_no_job() -> None:
    cluster = small_cluster()
    readings = Readings(cluster)
    busy = {name for job in cluster.jobs for name in job.nodes}
    for node in cluster.nodes:
        holders = {labels.get("hpc_job") for labels, _ in readings.series(UTIL, Hostname=node.name)}
        assert (holders == {None}) == (node.name not in busy)


def test_jobs_are_spread_over_leaves_and_racks_on_one_sku_and_storage() -> None:
    cluster = make_cluster(1)
    assert len(cluster.nodes) == 32
    assert len({node.leaf for node in cluster.nodes}) == 4
    for job in cluster.jobs:
        assert len(job.nodes) >= 6
        homes = [cluster.nodes[cluster.index[name]] for name in job.nodes]
        assert len({node.leaf for node in homes}) >= 2 and len({node.rack for node in homes}) >= 2
        assert len({node.storage for node in homes}) == 1
        assert len({node.sku.name for node in homes}) == 1
