"""Error counters: rates against peers, single events, counters that wrap, links that never were."""

import numpy as np
import pytest

from anomaly.features.rates import increases
from tests.field.stage import AT, NODES, Change, counted, happens, on_every_gpu, play, series, while_it_lasts
from tests.scenarios.cluster import STEP, Cluster

SICK = ("node-2", "1")


def replays(per_minute: float, others: float = 0.0) -> Change:
    def change(cluster: Cluster) -> None:
        for key in cluster.gpu_keys(NODES):
            cluster.rates["pcie_replay"][key] += while_it_lasts(cluster, (per_minute if key == SICK else others) / 60)

    return change


def test_replays_that_the_link_is_made_for_are_nothing() -> None:
    """NVIDIA/DCGM#184: healthy nodes were replaced for a few replays; Gen4 x16 has up to 16 a minute."""
    assert play(replays(15)).stories == []


def test_replays_that_all_peers_show_are_nothing() -> None:
    """NVIDIA/DCGM#184: a whole instance type replays more."""
    assert play(replays(130, others=120)).stories == []


def test_replays_far_above_the_peers_are_a_ticket_and_no_page() -> None:
    """NVIDIA/DCGM#184: a page only once a job suffers."""
    assert play(replays(90)).loud == ["node/node-2 pcie warning"]


def test_a_gpu_without_nvlink_has_no_nvlink_fault() -> None:
    """NVIDIA/NVSentinel#1481: NVLINK_DOWN on PCIe cards; their counters are blank or stand still."""

    def blank(cluster: Cluster, node: str, gpu: str) -> np.ndarray:
        return np.full(len(cluster.times), 9223372036854775794.0 if node in NODES[:3] else 0.0)

    told = play(on_every_gpu("nvlink_errors", blank, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"))
    assert told.stories == []


def test_nvlink_errors_that_grow_are_found() -> None:
    """NVIDIA/NVSentinel#1481, the other way round."""

    def growing(cluster: Cluster, node: str, gpu: str) -> np.ndarray:
        return counted(cluster, while_it_lasts(cluster, 5.0 if (node, gpu) == SICK else 0.0, until=None))

    told = play(on_every_gpu("nvlink_errors", growing, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"))
    assert told.loud == ["node/node-2 nvlink warning"]


def flap(times: int) -> Change:
    def change(cluster: Cluster) -> None:
        for i in range(times):
            cluster.rates["link_downed"]["node-2", "0"][cluster.columns(AT + i).start] += 1000 / STEP

    return change


def test_a_link_that_flapped_once_keeps_nobody_drained() -> None:
    """leptonai/gpud#1247: one flap, and healthy nodes stayed drained."""
    assert play(flap(1)).loud == []


def test_a_link_that_flapped_for_a_while_is_told_and_forgotten() -> None:
    """leptonai/gpud#1247: what stopped ends."""
    told = play(flap(8))
    assert told.loud == []
    assert told.notes == ["node/node-2 network info"]
    assert told.story("node/node-2").ended is not None


def test_a_kernel_finding_ends_by_itself() -> None:
    """kubernetes/node-problem-detector#673, kubernetes/node-problem-detector#1078: a condition that never returns."""
    labels = {"node": "node-2", "reason": "MemoryReadError"}
    told = play(
        series("kernel_hardware_errors", labels, lambda c: counted(c, while_it_lasts(c, 1 / 15, until=AT + 0.25))),
        packs=["npd"],
    )
    assert told.loud == []
    ended = told.story("node/node-2").ended
    assert ended is not None
    assert ended < AT + 10


def test_a_service_that_is_down_for_long_grows_into_a_ticket() -> None:
    """NVIDIA/NVSentinel#883, NVIDIA/NVSentinel#891: a fabric manager was down for twenty days, and nobody was told."""
    own = {
        "fabric_manager": {
            "query": 'node_systemd_unit_state{name="nvidia-fabricmanager.service",state="active"}',
            "unit": "bool", "kind": "state", "bad": "low", "layer": "system", "symptom": "nvlink", "cause": "nvlink",
            "threshold": {"below": 0, "persist": "15m"},
        }
    }  # fmt: skip

    def active(node: str, down: float) -> Change:
        def values(cluster: Cluster) -> np.ndarray:
            return while_it_lasts(cluster, 0.0 if node == "node-2" else 1.0, until=down, rest=1.0)

        return series("fabric_manager", {"instance": f"{node}:9100"}, values)

    assert play(*[active(node, AT + 10) for node in NODES], signals=own).loud == []
    assert play(*[active(node, 60) for node in NODES], signals=own).loud == ["node/node-2 nvlink warning"]


def test_processes_killed_for_memory_are_a_note() -> None:
    """netdata/netdata#11359: containers at their limit are killed all day on Kubernetes."""

    def kills(node: str) -> Change:
        return series("oom_kills", {"instance": f"{node}:9100"}, lambda c: counted(c, while_it_lasts(c, 0.2)))

    told = play(kills("node-2"), kills("node-5"))
    assert told.loud == []
    assert told.notes == ["node/node-2 software info", "node/node-5 software info"]


def test_processes_killed_where_a_job_slows_are_no_note_any_more() -> None:
    """netdata/netdata#11359: loud once the node's job agrees."""
    kills = series("oom_kills", {"instance": "node-2:9100"}, lambda c: counted(c, while_it_lasts(c, 0.2, until=35)))
    told = play(kills, happens("job slows", at=AT + 1, until=35, job="train-a", by=0.3))
    assert told.loud == ["node/node-2 software critical"]


def test_a_counter_of_32_bits_that_wraps_is_no_burst() -> None:
    """ChameleonCloud/chi-in-a-box#102: if_mib's 32-bit counters wrap; ifInDiscards has no wider one."""
    near = 2.0**32
    change, _, ambiguous = increases(np.array([[near - 300, near - 100, 100.0, 300.0]]), STEP * np.arange(4))
    assert np.nan_to_num(change).max() <= 200
    assert np.nan_to_num(change).min() >= 0
    assert not ambiguous.any()


@pytest.mark.parametrize("per_second", [0.01, 0.1])
def test_corrected_bits_here_and_there_are_nothing(per_second: float) -> None:
    """NVIDIA/NVSentinel#1748: a storm of single-bit errors comes under load; stray bits come always."""
    told = play(happens("corrected errors", node="node-2", gpu=1, per_second=per_second))
    assert told.stories == []
