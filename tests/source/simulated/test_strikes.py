"""The wider fault library: each fault leaves its marks where the literature has them, and none where it does not."""

from dataclasses import dataclass

import numpy as np
import pytest

from anomaly.clock import MINUTE, SECOND
from anomaly.records import Floats
from anomaly.source.simulated import FAULT_TYPES, Cluster, Fault, Scenario, make_cluster, place_faults, truth
from anomaly.source.simulated.faults import KINDS
from anomaly.source.simulated.limits import DUE
from tests.source.simulated.readings import END, ONSET, OVER, START, Readings, small_cluster

BEFORE = (ONSET - 12 * MINUTE, ONSET)
LATE = (ONSET + 10 * MINUTE, OVER)
CLOCK, POWER, TEMP = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP"
UTIL, TENSOR, MEMORY = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_FB_USED"
XID, STEP = "DCGM_FI_DEV_XID_ERRORS", "train_step_seconds"
RECEIVED, DOWNED = "node_infiniband_port_data_received_bytes_total", "node_infiniband_link_downed_total"
SENT, PAUSED = "node_ethtool_transmitted_prio3_pause", "node_ethtool_received_prio3_pause"


@dataclass(frozen=True)
class Struck:
    """A cluster with one fault in it, seen from its culprit, a peer and a bystander of another job."""

    readings: Readings
    cluster: Cluster
    culprit: str
    peer: str
    bystander: str
    idle: str

    def change(self, metric: str, **labels: str) -> float:
        values = self.readings.one(metric, **labels)
        return self.readings.level(values, *LATE) / self.readings.level(values, *BEFORE)

    def late(self, metric: str, **labels: str) -> float:
        return self.readings.level(self.readings.one(metric, **labels), *LATE)

    def per_minute(self, metric: str, **labels: str) -> float:
        return self.readings.grown(self.readings.one(metric, **labels), *LATE) / ((LATE[1] - LATE[0]) / MINUTE)

    def gpu(self, metric: str, node: str, gpu: str = "1") -> Floats:
        return self.readings.one(metric, Hostname=node, gpu=gpu)


def strike(type_: str, effect: float = 0.2, device: str | None = None) -> Struck:
    cluster = small_cluster()
    job = cluster.jobs[0]
    busy = {name for each in cluster.jobs for name in each.nodes}
    idle = next(node.name for node in cluster.nodes if node.name not in busy)
    kind = KINDS[type_]
    culprit = idle if kind.idle else job.nodes[2]
    nodes: tuple[str, ...] = (culprit,)
    group = None
    if kind.scope == "job":
        nodes, group = job.nodes, job.name
    elif kind.group_kind:
        group = str(getattr(cluster.nodes[cluster.index[culprit]], kind.group_kind))
        nodes = cluster.members(kind.group_kind, group)
    fault = Fault(type_, nodes, ONSET, OVER, effect, device, group)
    return Struck(Readings(cluster, fault), cluster, culprit, job.nodes[0], cluster.jobs[1].nodes[0], idle)


def test_every_type_has_all_it_needs() -> None:
    assert set(KINDS) == set(DUE) == set(FAULT_TYPES)
    for name, kind in KINDS.items():
        assert DUE[name].limit_s * SECOND <= kind.lasts[1], f"{name} lasts as long as it may take to be found"
        assert (kind.scope == "group") == (kind.group_kind is not None)
        assert kind.edit.__doc__


@pytest.mark.parametrize("name", FAULT_TYPES)
def test_every_type_can_be_placed_and_told(name: str) -> None:
    cluster = make_cluster(11, nodes=16, gpus=2, jobs=2, rails=2)
    [fault] = place_faults(cluster, 3, [name], START, START + 90 * MINUTE)
    [entry] = truth(Scenario(cluster, (fault,), START, START + 90 * MINUTE))["faults"]
    assert entry["scope"] == KINDS[name].scope
    assert entry["culprit_nodes"] == (list(fault.nodes) if entry["scope"] == "node" else [])
    assert entry["expect"] in (DUE[name].expect, "ticket", "none")


def test_what_slows_a_job_by_less_than_a_tenth_is_not_due() -> None:
    cluster = small_cluster()
    job = cluster.jobs[0]
    faults = (
        Fault("software_drift", job.nodes, ONSET, OVER, 0.05, group=job.name),
        Fault("power_brake", job.nodes[:1], ONSET, OVER, 0.05),
        Fault("power_brake", job.nodes[:1], ONSET, OVER, 0.1),
    )
    told = truth(Scenario(cluster, faults, START, END))["faults"]
    expects = {(entry["type"], entry["effect"]): entry["expect"] for entry in told}
    assert expects[("software_drift", 0.05)] == "none"
    assert expects[("power_brake", 0.05)] == "ticket"
    assert expects[("power_brake", 0.1)] == "node_alert"


def test_a_power_brake_drops_clock_and_power_at_once_and_cools() -> None:
    struck = strike("power_brake", device="1")
    clock, temperature = struck.gpu(CLOCK, struck.culprit), struck.gpu(TEMP, struck.culprit)
    r = struck.readings
    plateau = r.level(clock, ONSET + MINUTE, ONSET + 3 * MINUTE)
    assert plateau / r.level(clock, *BEFORE) == pytest.approx(1 / 1.2, abs=0.01)
    assert r.level(temperature, *LATE) < r.level(temperature, *BEFORE) - 5
    violation = r.grown(struck.gpu("DCGM_FI_DEV_POWER_VIOLATION", struck.culprit), *LATE)
    assert violation / 1e6 / (LATE[1] - LATE[0]) > 0.8
    assert struck.change(STEP, node=struck.peer, rank="0") == pytest.approx(1.2, abs=0.02)
    assert struck.change(CLOCK, Hostname=struck.peer, gpu="1") == pytest.approx(1.0, abs=0.01)


def test_a_shared_brake_holds_its_whole_power_domain_and_nobody_else() -> None:
    struck = strike("power_brake_shared")
    pdu = struck.cluster.nodes[struck.cluster.index[struck.culprit]].pdu
    for node in struck.cluster.nodes:
        if node.name != struck.idle:
            slower = struck.change(CLOCK, Hostname=node.name, gpu="0") < 0.9
            assert slower == (node.pdu == pdu)


def test_a_wrong_cap_makes_a_flat_top() -> None:
    struck = strike("wrong_power_cap", device="1")
    span = struck.readings.window(*LATE)

    def headroom(node: str) -> float:
        """How far the highest readings lie above the median: next to nothing under a cap."""
        power = struck.gpu(POWER, node)[span]
        return float(np.quantile(power, 0.95) / np.median(power)) - 1

    assert headroom(struck.culprit) < 0.005 < headroom(struck.peer)
    assert struck.change(CLOCK, Hostname=struck.culprit, gpu="1") == pytest.approx(1 / 1.2, abs=0.02)
    assert struck.late(POWER, Hostname=struck.culprit, gpu="1") < 0.8 * struck.late(
        POWER, Hostname=struck.peer, gpu="1"
    )


def test_a_clock_lock_gives_no_reason() -> None:
    struck = strike("clock_lock", device="1")
    assert struck.change(CLOCK, Hostname=struck.culprit, gpu="1") == pytest.approx(1 / 1.2, abs=0.01)
    for counter in ("DCGM_FI_DEV_THERMAL_VIOLATION", "DCGM_FI_DEV_POWER_VIOLATION"):
        assert struck.per_minute(counter, Hostname=struck.culprit, gpu="1") < 3e9


def test_lost_coolant_warms_a_rack_until_it_throttles() -> None:
    struck = strike("coolant_loss")
    rack = struck.cluster.nodes[struck.cluster.index[struck.culprit]].rack
    inside = [n.name for n in struck.cluster.nodes if n.rack == rack and n.name != struck.idle]
    for name in inside:
        assert struck.late(TEMP, Hostname=name, gpu="0") > 80
    outside = next(n.name for n in struck.cluster.nodes if n.rack != rack and n.name != struck.idle)
    assert struck.late(TEMP, Hostname=outside, gpu="0") < 75


def test_a_swing_is_a_swing() -> None:
    struck = strike("power_swing", device="1")
    clock, peer = struck.gpu(CLOCK, struck.culprit), struck.gpu(CLOCK, struck.peer)
    span = struck.readings.window(*LATE)
    assert np.ptp(clock[span]) > 8 * np.ptp(peer[span])


def test_contended_cpus_hold_all_gpus_of_their_host_and_no_clock() -> None:
    struck = strike("cpu_contention")
    host = {"instance": f"{struck.culprit}:9100"}
    assert struck.late("node_load1", **host) > 2 * struck.late("node_load1", instance=f"{struck.peer}:9100")
    for gpu in "0123":
        assert struck.change(UTIL, Hostname=struck.culprit, gpu=gpu) < 0.9
        assert struck.change(CLOCK, Hostname=struck.culprit, gpu=gpu) == pytest.approx(1.0, abs=0.01)
    assert struck.change(UTIL, Hostname=struck.peer, gpu="0") > 0.95
    assert struck.change(STEP, node=struck.peer, rank="0") == pytest.approx(1.2, abs=0.02)


def test_a_slow_pcie_link_pauses_others_and_mostly_counts_replays() -> None:
    struck = strike("pcie_degraded", device="1")
    own = {"instance": f"{struck.culprit}:9100", "device": "rdma1"}
    others = {"instance": f"{struck.peer}:9100", "device": "rdma1"}
    assert struck.per_minute(SENT, **own) > 5 * struck.per_minute(SENT, **others)
    assert struck.change(STEP, node=struck.peer, rank="0") == pytest.approx(1.2, abs=0.02)


def test_corrected_bits_come_under_load_only_and_end_in_a_remapped_row() -> None:
    struck = strike("ecc_storm", device="1")
    assert struck.per_minute("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", Hostname=struck.culprit, gpu="1") > 3000
    assert struck.per_minute("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", Hostname=struck.culprit, gpu="0") < 1
    rows = struck.gpu("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", struck.culprit)
    assert np.nanmax(rows) == rows[0] + 1
    assert struck.change(STEP, node=struck.peer, rank="0") == pytest.approx(1.0, abs=0.01)
    growing = strike("ecc_growth", device="1")
    counted = growing.gpu("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", growing.culprit)
    half = ONSET + (OVER - ONSET) // 2
    assert growing.readings.grown(counted, half, OVER) > 2 * growing.readings.grown(counted, ONSET, half)


def test_an_uncorrectable_error_kills_one_process_and_its_peers_spin() -> None:
    struck = strike("ecc_uncorrectable", device="1")
    soon = (ONSET + 45 * SECOND, ONSET + 60 * SECOND + 45 * SECOND)
    r = struck.readings
    assert {48, 94, 95} & set(struck.gpu(XID, struck.culprit))
    assert r.level(struck.gpu(MEMORY, struck.culprit), *soon) < 1000
    assert r.level(struck.gpu(POWER, struck.culprit), *soon) < 100
    assert np.nanmax(np.diff(struck.gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", struck.culprit))) >= 1


def test_nvlink_errors_stay_on_their_gpu_or_hit_the_whole_node() -> None:
    one = strike("nvlink_link", device="1")
    flit = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"
    assert one.per_minute(flit, Hostname=one.culprit, gpu="1") > 60
    assert one.per_minute(flit, Hostname=one.culprit, gpu="0") < 1
    whole = strike("nvlink_all")
    for gpu in "0123":
        assert 74 in whole.gpu(XID, whole.culprit, gpu)


def test_a_link_down_counts_once_and_carries_nothing() -> None:
    struck = strike("link_down", device="mlx5_2")
    port = {"instance": f"{struck.culprit}:9100", "device": "mlx5_2"}
    assert struck.readings.grown(struck.readings.one(DOWNED, **port), ONSET - MINUTE, OVER) == 1
    assert struck.per_minute(RECEIVED, **port) == 0
    flap = strike("link_flap", device="mlx5_2")
    assert flap.readings.grown(flap.readings.one(DOWNED, **port), ONSET - MINUTE, OVER) >= 3
    assert flap.per_minute(RECEIVED, **port) > 0


def test_a_pfc_storm_holds_the_leaf_back() -> None:
    struck = strike("pfc_storm", device="mlx5_2")
    own = struck.per_minute(SENT, instance=f"{struck.culprit}:9100", device="rdma2")
    assert own > 100 * struck.per_minute(SENT, instance=f"{struck.peer}:9100", device="rdma2")
    leaf = struck.cluster.nodes[struck.cluster.index[struck.culprit]].leaf
    mates = [name for name in struck.cluster.members("leaf", leaf) if name not in (struck.culprit, struck.idle)]
    outside = [n.name for n in struck.cluster.nodes if n.leaf != leaf and n.name != struck.idle]
    paused = [struck.per_minute(PAUSED, instance=f"{name}:9100", device="rdma0") for name in (*mates, *outside)]
    assert min(paused[: len(mates)]) > 3 * max(paused[len(mates) :])


def test_a_wrong_threshold_lets_drops_grow_on_all_ports() -> None:
    struck = strike("wrong_pfc_threshold")
    for port in "0123":
        counted = {"instance": f"{struck.culprit}:9100", "device": f"mlx5_{port}"}
        assert struck.per_minute("node_infiniband_out_of_buffer_drops_total", **counted) > 20


def test_a_stalled_loader_waits_for_io_on_every_host_of_its_job() -> None:
    struck = strike("data_stall")
    util = struck.gpu(UTIL, struck.peer)[struck.readings.window(*LATE)]
    assert np.ptp(util) > 20
    assert struck.change(STEP, node=struck.peer, rank="0") == pytest.approx(1.2, abs=0.03)
    assert struck.change(STEP, node=struck.bystander, rank="0") == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("type_", ["gradient_sync_slow", "software_drift"])
def test_slow_software_slows_its_job_and_moves_no_counter(type_: str) -> None:
    struck = strike(type_)
    assert struck.change(STEP, node=struck.peer, rank="0") == pytest.approx(1.2, abs=0.06)
    assert struck.change(CLOCK, Hostname=struck.peer, gpu="0") == pytest.approx(1.0, abs=0.01)


def test_in_a_hang_all_spin_and_only_a_stuck_rank_does_not() -> None:
    hang, stuck = strike("collective_hang"), strike("hung_rank", device="1")
    for struck in (hang, stuck):
        assert struck.late(UTIL, Hostname=struck.peer, gpu="1") == 100
        assert struck.late(TENSOR, Hostname=struck.peer, gpu="1") < 0.01
        assert 180 < struck.late(POWER, Hostname=struck.peer, gpu="1") < 300
        assert struck.per_minute(RECEIVED, instance=f"{struck.peer}:9100", device="mlx5_0") == 0
        assert struck.late(MEMORY, Hostname=struck.peer, gpu="1") > 50_000
    assert hang.late(UTIL, Hostname=hang.culprit, gpu="1") == 100
    assert stuck.late(UTIL, Hostname=stuck.culprit, gpu="1") == 0
    assert stuck.late(POWER, Hostname=stuck.culprit, gpu="1") < 120


def test_memory_leaks_and_is_held() -> None:
    leak, held = strike("memory_leak"), strike("memory_held", device="1")
    assert leak.change(MEMORY, Hostname=leak.peer, gpu="0") > 1.03
    assert held.late(MEMORY, Hostname=held.idle, gpu="1") > 20_000
    assert held.late(UTIL, Hostname=held.idle, gpu="1") == 0


def test_memory_runs_out_and_processes_are_killed() -> None:
    struck = strike("oom_kills")
    host = {"instance": f"{struck.culprit}:9100"}
    assert struck.per_minute("node_vmstat_oom_kill", **host) >= 1
    assert struck.late("node_memory_MemAvailable_bytes", **host) < 0.05 * 2 * 2**40


def test_what_stands_still_stands_still_and_what_is_silent_is_down() -> None:
    gpu, node = strike("gpu_stuck", device="1"), strike("telemetry_frozen")
    span = gpu.readings.window(ONSET + MINUTE, OVER)
    for metric in (POWER, TEMP, UTIL, MEMORY):
        assert np.ptp(gpu.gpu(metric, gpu.culprit)[span]) == 0
        assert np.ptp(node.gpu(metric, node.culprit, "3")[span]) == 0
    assert node.change(STEP, node=node.peer, rank="0") == pytest.approx(1.0, abs=0.01)
    dead = strike("exporter_dead")
    ups = {labels["job"]: values for labels, values in dead.readings.series("up", instance=f"{dead.culprit}:9400")}
    assert (ups["dcgm-exporter"][span] == 0).all()
    assert (dead.readings.one("up", instance=f"{dead.culprit}:9100")[span] == 1).all()


def test_versions_and_slices_are_labels() -> None:
    other, mig = strike("driver_mismatch"), strike("mig_lost")
    versions = {labels["DCGM_FI_DRIVER_VERSION"] for labels, _ in other.readings.series(POWER, Hostname=other.culprit)}
    assert len(versions) == 2
    assert len({labels["DCGM_FI_DRIVER_VERSION"] for labels, _ in other.readings.series(POWER)}) == 2
    sliced = [values for labels, values in mig.readings.series(POWER, Hostname=mig.idle) if "GPU_I_ID" in labels]
    assert sliced and all(np.isnan(values[mig.readings.window(ONSET + MINUTE, OVER)]).all() for values in sliced)


def test_a_fault_changes_nothing_for_those_it_does_not_touch() -> None:
    cluster = small_cluster()
    calm = Readings(cluster)
    struck = strike("ecc_storm", device="1")
    for metric in (POWER, CLOCK, TEMP, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"):
        np.testing.assert_array_equal(
            calm.one(metric, Hostname=struck.bystander, gpu="0"), struck.gpu(metric, struck.bystander, "0")
        )
