"""Each fault leaves the marks that the literature gives it, on the culprit, and the shared ones on its victims."""

import numpy as np
import pytest

from anomaly.clock import MINUTE
from anomaly.records import Query
from anomaly.source.simulated import Cluster, Fault
from tests.source.simulated.readings import END, ONSET, OVER, START, Readings, small_cluster

GPU_TEMP, POWER, CLOCK = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK"
UTIL, TENSOR, XID = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_XID_ERRORS"
RECEIVED = "node_infiniband_port_data_received_bytes_total"
BEFORE = (ONSET - 12 * MINUTE, ONSET)
LATE = (ONSET + 9 * MINUTE, OVER)
"""When every fault has grown to its full size."""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return small_cluster()


@pytest.fixture(scope="module")
def culprit(cluster: Cluster) -> str:
    return cluster.jobs[0].nodes[2]


@pytest.fixture(scope="module")
def peer(cluster: Cluster) -> str:
    return cluster.jobs[0].nodes[0]


@pytest.fixture(scope="module")
def bystander(cluster: Cluster) -> str:
    return cluster.jobs[1].nodes[0]


@pytest.fixture(scope="module")
def hot(cluster: Cluster, culprit: str) -> Readings:
    return Readings(cluster, Fault("thermal_throttle", (culprit,), ONSET, OVER, 0.25, device="1"))


def change(readings: Readings, metric: str, **labels: str) -> float:
    """The level late in the fault relative to the level before it."""
    values = readings.one(metric, **labels)
    return readings.level(values, *LATE) / readings.level(values, *BEFORE)


def test_a_throttling_gpu_is_hot_slow_and_draws_less(hot: Readings, culprit: str) -> None:
    struck = {"Hostname": culprit, "gpu": "1"}
    temperature = hot.one(GPU_TEMP, **struck)
    assert hot.level(temperature, *LATE) - hot.level(temperature, *BEFORE) > 10
    assert 85 <= hot.level(temperature, *LATE) <= 91
    assert change(hot, CLOCK, **struck) == pytest.approx(1 / 1.25, abs=0.02)
    assert change(hot, POWER, **struck) < 0.75
    violation = hot.one("DCGM_FI_DEV_THERMAL_VIOLATION", **struck)
    assert hot.grown(violation, *BEFORE) == 0
    throttled = hot.grown(violation, *LATE) / 1e6 / (LATE[1] - LATE[0])
    assert throttled == pytest.approx(1.0, abs=0.1), "nanoseconds throttled, of all nanoseconds"


def test_heat_comes_over_minutes_before_the_clock_falls(hot: Readings, culprit: str) -> None:
    temperature, clock = (hot.one(metric, Hostname=culprit, gpu="1") for metric in (GPU_TEMP, CLOCK))
    slow = hot.grid[int(np.argmax((clock < 0.97 * np.nanmedian(clock[:80])) & (hot.grid > ONSET)))]
    assert 2 * MINUTE <= slow - ONSET <= 6 * MINUTE
    assert np.abs(np.diff(temperature)).max() <= 10


def test_one_slow_gpu_slows_its_job_but_not_its_peers_clocks(
    hot: Readings, cluster: Cluster, culprit: str, peer: str, bystander: str
) -> None:
    victim = {"Hostname": peer, "gpu": "1"}
    assert change(hot, "train_step_seconds", node=peer, rank="0") == pytest.approx(1.25, abs=0.02)
    assert change(hot, TENSOR, **victim) == pytest.approx(0.8, abs=0.03)
    assert 0.8 < change(hot, POWER, **victim) < 0.95
    assert change(hot, CLOCK, **victim) == pytest.approx(1.0, abs=0.01)
    assert change(hot, UTIL, **victim) == pytest.approx(1.0, abs=0.02)
    temperature = hot.one(GPU_TEMP, **victim)
    assert hot.level(temperature, *LATE) < hot.level(temperature, *BEFORE) - 1
    # The slow GPU computes while the others wait.
    assert change(hot, TENSOR, Hostname=culprit, gpu="1") > 0.95
    assert change(hot, TENSOR, Hostname=bystander, gpu="1") == pytest.approx(1.0, abs=0.03)


def test_traffic_of_the_whole_job_falls_with_its_pace(hot: Readings, peer: str, bystander: str) -> None:
    def pace(node: str) -> float:
        carried = hot.one(RECEIVED, instance=f"{node}:9100", device="mlx5_0")
        return hot.pace(carried, *LATE) / hot.pace(carried, *BEFORE)

    assert pace(peer) / pace(bystander) == pytest.approx(0.8, abs=0.06)


def test_after_the_fault_everything_is_as_before(hot: Readings, culprit: str) -> None:
    for metric in (CLOCK, POWER, GPU_TEMP):
        values = hot.one(metric, Hostname=culprit, gpu="1")
        recovered = hot.level(values, END - 6 * MINUTE, END)
        assert recovered == pytest.approx(hot.level(values, *BEFORE), rel=0.12)


def test_a_bad_nic_port_counts_errors_and_pauses_others(cluster: Cluster, culprit: str, peer: str) -> None:
    readings = Readings(cluster, Fault("nic_degradation", (culprit,), ONSET, OVER, 0.25, device="mlx5_2"))
    here, there = f"{culprit}:9100", f"{peer}:9100"

    def grown(metric: str, instance: str, device: str) -> float:
        return readings.grown(readings.one(metric, instance=instance, device=device), *LATE)

    minutes = (LATE[1] - LATE[0]) / MINUTE
    for metric, device in (
        ("node_infiniband_symbol_error_total", "mlx5_{}"),
        ("node_infiniband_port_errors_received_total", "mlx5_{}"),
        ("node_infiniband_out_of_buffer_drops_total", "mlx5_{}"),
        ("node_ethtool_received_discards_phy", "rdma{}"),
    ):
        assert grown(metric, here, device.format(2)) > 30 * minutes
        assert grown(metric, here, device.format(1)) <= 1
        assert grown(metric, there, device.format(2)) <= 1
    sent = "node_ethtool_transmitted_prio3_pause"
    assert grown(sent, here, "rdma2") > 8 * grown(sent, there, "rdma2")
    assert grown(RECEIVED, here, "mlx5_2") < 0.75 * grown(RECEIVED, here, "mlx5_1")
    assert change(readings, "train_step_seconds", node=peer, rank="0") == pytest.approx(1.25, abs=0.02)


def lost_gpu(cluster: Cluster, culprit: str, *, freezes: bool) -> Readings:
    """The variant follows from the fault's own onset: try onsets until it is the one wanted."""
    for second in range(60):
        fault = Fault("gpu_lost", (culprit,), ONSET - second * 1000, OVER, device="1")
        readings = Readings(cluster, fault)
        end = readings.one(POWER, Hostname=culprit, gpu="1")[readings.window(*LATE)]
        if bool(np.isnan(end).all()) != freezes:
            return readings
    raise AssertionError("one variant never comes")


def test_a_lost_gpu_reports_its_xid_then_vanishes(cluster: Cluster, culprit: str) -> None:
    readings = lost_gpu(cluster, culprit, freezes=False)
    codes = readings.one(XID, Hostname=culprit, gpu="1")
    assert 79 in codes
    assert np.isnan(codes[readings.window(*LATE)]).all()
    assert codes[-1] == 0
    assert not np.isnan(readings.one(POWER, Hostname=culprit, gpu="0")).any()


def test_or_it_freezes_while_some_families_vanish(cluster: Cluster, culprit: str) -> None:
    readings = lost_gpu(cluster, culprit, freezes=True)
    span, struck = readings.window(*LATE), {"Hostname": culprit, "gpu": "1"}
    assert (readings.one(XID, **struck)[span] == 79).all()
    for metric in (GPU_TEMP, POWER, UTIL, CLOCK):
        assert np.ptp(readings.one(metric, **struck)[span]) == 0
    assert readings.one(UTIL, **struck)[span][0] > 90
    assert np.isnan(readings.one("DCGM_FI_DEV_FB_USED", **struck)[span]).all()


def test_its_peers_spin_then_the_job_is_aborted_and_comes_back(cluster: Cluster, culprit: str, peer: str) -> None:
    readings = Readings(cluster, Fault("gpu_lost", (culprit,), ONSET, OVER, device="1"))
    util, power, clock = (readings.one(metric, Hostname=peer, gpu="0") for metric in (UTIL, POWER, CLOCK))
    hung, aborted = (ONSET + MINUTE, ONSET + 3 * MINUTE), (OVER - 5 * MINUTE, OVER)
    assert readings.level(util, *hung) == 100
    assert 200 < readings.level(power, *hung) < 300
    assert readings.level(clock, *hung) > 1800
    assert readings.level(util, *aborted) == 0
    assert readings.level(power, *aborted) < 100
    assert readings.level(util, END - 6 * MINUTE, END) > 90
    job = cluster.jobs[0].name
    holding = [values for labels, values in readings.series(UTIL, Hostname=peer, gpu="0") if "hpc_job" in labels]
    assert np.isnan(holding[0][readings.window(*aborted)]).all(), "an aborted job holds no GPU"
    steps = readings.one("train_global_step", node=peer, job_name=job)
    last, resumed = np.nanmax(steps[readings.window(START, OVER)]), np.nanmin(steps[readings.window(OVER, END)])
    assert resumed < last, "it goes on from its newest checkpoint"


def test_a_lost_node_is_down_on_every_target_and_boots(cluster: Cluster, culprit: str, peer: str) -> None:
    readings = Readings(cluster, Fault("node_lost", (culprit,), ONSET, OVER))
    away = readings.window(ONSET + MINUTE, OVER)
    ups = [values for labels, values in readings.series("up") if labels["instance"].startswith(f"{culprit}:")]
    assert len(ups) == 4
    assert all((values[away] == 0).all() and values[0] == values[-1] == 1 for values in ups)
    for _, values in readings.series(UTIL, Hostname=culprit):
        assert np.isnan(values[away]).all()
    boot = readings.one("node_boot_time_seconds", instance=f"{culprit}:9100")
    assert np.isnan(boot[away]).all()
    assert boot[0] < START / 1000 and ONSET / 1000 < boot[-1] < OVER / 1000
    assert (
        readings.one("node_infiniband_port_data_received_bytes_total", instance=f"{culprit}:9100", device="mlx5_0")[-1]
        < 1e14
    ), "kernel counters start anew"
    assert (readings.one(UTIL, Hostname=peer, gpu="0")[readings.window(OVER - 5 * MINUTE, OVER)] == 0).all()


def test_slow_storage_hits_all_its_users_and_nobody_else(cluster: Cluster) -> None:
    system = cluster.nodes[cluster.index[cluster.jobs[0].nodes[0]]].storage
    users = cluster.members("storage", system)
    readings = Readings(cluster, Fault("storage_latency", users, ONSET, OVER, 0.25, group=system))
    step = 30_000
    pulled = readings.source.pull(Query("storage_p99", "x[2m]", START + 5 * MINUTE, END, step))
    at = 0
    for labels, length in zip(pulled.labels, pulled.lengths, strict=True):
        ts, values = pulled.ts[at : at + length], pulled.values[at : at + length]
        at += int(length)
        if np.isnan(values).all():
            continue  # an idle node reads nothing
        before = np.median(values[(ts >= BEFORE[0]) & (ts < BEFORE[1])])
        late = np.median(values[(ts >= LATE[0]) & (ts < LATE[1])])
        if labels["vol_name"] == system:
            assert 3 <= late / before <= 10
        else:
            assert late / before == pytest.approx(1.0, abs=0.35)
    slowed = change(readings, "train_step_seconds", node=cluster.jobs[0].nodes[0], rank="0")
    assert 1.05 < slowed < 1.25


def test_a_congested_leaf_pauses_its_hosts_whatever_their_job(cluster: Cluster) -> None:
    leaf = cluster.nodes[0].leaf
    members = cluster.members("leaf", leaf)
    assert len(cluster.jobs_of(members)) > 1
    readings = Readings(cluster, Fault("leaf_congestion", members, ONSET, OVER, 0.6, group=leaf))
    outsiders = {node.name for node in cluster.nodes} - set(members)
    idle = {node.name for node in cluster.nodes} - {name for job in cluster.jobs for name in job.nodes}

    def gain(metric: str, node: str) -> float:
        values = readings.one(metric, instance=f"{node}:9100", device="rdma0" if "ethtool" in metric else "mlx5_0")
        return readings.pace(values, *LATE) / readings.pace(values, *BEFORE)

    for metric in ("node_ethtool_received_prio3_pause", "node_infiniband_np_cnp_packets_sent_total"):
        assert min(gain(metric, node) for node in set(members) - idle) > 3 * max(
            gain(metric, node) for node in outsiders - idle
        )
    for job in cluster.jobs:
        assert change(readings, "train_step_seconds", node=job.nodes[0], rank="0") == pytest.approx(1.6, abs=0.04)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"type": "meteor"}, "no fault is called"),
        ({"nodes": ()}, "needs nodes"),
        ({"end": ONSET}, "end after its onset"),
        ({"effect": 0.0}, "share of the step time"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(fault: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"type": "node_lost", "nodes": ("gpu-01",), "onset": ONSET, "end": OVER, **fault}
    with pytest.raises(ValueError, match=message):
        Fault(**given)  # type: ignore[arg-type]
