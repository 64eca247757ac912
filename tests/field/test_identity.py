"""Who a series is about, and with whom it may be compared: slices, duplicates, renumbered ports, sensor names."""

import numpy as np
import pytest

from anomaly.features.index import Directory, merge
from anomaly.features.levels import peer_levels
from anomaly.records import Labels
from anomaly.signals.catalogue import load_catalogue
from anomaly.signals.identity import Aliases, identify
from tests.features.builders import index, rows, series
from tests.field.stage import happens, on_every_gpu, play
from tests.scenarios.cluster import Cluster

HEALTH, SWITCH, RDMA = (load_catalogue([pack]).signals for pack in ("node_health", "switch", "rdma"))


def test_a_slice_is_compared_with_slices_only() -> None:
    """NVIDIA/dcgm-exporter#726: MIG changes what a device is; half of its metrics go."""
    found = rows([("a", "0"), ("a", "1/7"), ("b", "0"), ("b", "1/7"), ("b", "1/8")])
    whole, slices = [0, 2], [1, 3, 4]
    for groups in peer_levels("gpu", found, np.zeros(len(found), np.int32), np.zeros(len(found), np.int64)):
        assert not set(groups[whole]) & set(groups[slices])


def test_slices_beside_full_gpus_are_no_outliers() -> None:
    """NVIDIA/dcgm-exporter#726: a node in MIG mode in a job of full GPUs."""

    def sliced(cluster: Cluster) -> None:
        for key in cluster.gpu_keys(["node-6"]):
            for name in ("gpu_temp", "gpu_power", "sm_clock", "gpu_util"):
                values = cluster.gauges[name].pop(key)
                for part in ("1", "2"):
                    cool = {"gpu_temp": 0.6, "gpu_power": 0.3, "sm_clock": 0.5, "gpu_util": 1.0}[name]
                    labels = {"instance": "node-6:9400", "Hostname": "node-6", "gpu": key[1], "GPU_I_ID": part}
                    cluster.further.setdefault(name, []).append(({**labels, "hpc_job": "train-a"}, values * cool))

    assert play(sliced).stories == []


def test_a_gpu_that_two_exporters_report_is_one() -> None:
    """NVIDIA/gpu-monitoring-tools#174: each GPU twice, once with pod labels; a sum would be twice the watts."""

    def twice(cluster: Cluster, node: str, gpu: str) -> np.ndarray:
        return cluster.gauges["gpu_power"][node, gpu]

    also = on_every_gpu("gpu_power", twice, pod="train-a-worker-0", container="pytorch")
    told = play(happens("gpu clocks low", until=35, node="node-2", gpu=1, clock=0.6, power=0.5), also)
    assert told.loud == ["node/node-2 power warning"]
    [power] = [item for item in told.story("node/node-2").incident.evidence if item.signal == "gpu_power"]
    assert power.observed is not None
    assert 150 < power.observed < 250


def test_a_port_keeps_its_name_when_its_number_changes() -> None:
    """sonic-net/sonic-snmpagent#207: ifIndex was numbered anew."""
    before: Labels = {"instance": "leaf-1", "ifIndex": "49", "ifName": "Ethernet0", "ifDescr": "etp1"}
    for signal in SWITCH.values():
        after = {**before, "ifIndex": "1"}
        assert identify(signal, before, Aliases()) == identify(signal, after, Aliases())
        assert identify(signal, before, Aliases()) != identify(signal, {**before, "ifName": "Ethernet4"}, Aliases())


def test_a_sensor_keeps_its_name_whatever_its_label_says() -> None:
    """prometheus/node_exporter#2664, prometheus/node_exporter#2374: `temp1`; what it is is a join away."""
    base: Labels = {"instance": "n", "chip": "platform_coretemp_0", "sensor": "temp1"}
    signal = HEALTH["board_temperature"]
    assert identify(signal, base, Aliases()) == identify(signal, {**base, "label": "Package id 0"}, Aliases())
    assert identify(signal, base, Aliases()) != identify(signal, {**base, "sensor": "temp2"}, Aliases())


def test_sensors_of_one_chip_are_its_maximum_and_duplicates_change_nothing() -> None:
    """prometheus/node_exporter#3673: the same hwmon series twice."""
    signal = HEALTH["board_temperature"]
    known = [
        series(1, signal.name, "a", "chip-0", "temp1"),
        series(2, signal.name, "a", "chip-0", "temp1"),
        series(3, signal.name, "a", "chip-0", "temp2"),
    ]
    found = index(Directory(), known)
    _, values = merge(signal, found, found.series, np.array([[50.0], [50.0], [60.0]]))
    assert values.tolist() == [[60.0]]


@pytest.mark.parametrize("name", ["buffer_drops", "cnp_sent"])
def test_hardware_counters_have_one_identity_from_either_exporter(name: str) -> None:
    """prometheus/node_exporter#2827, #3472: hw_counters came late, so older fleets run rdma_exporter."""
    signal = RDMA[name]
    assert {metric.split("_")[0] for metric in signal.metrics} == {"node", "rdma"}
    labels: Labels = {"instance": "n:9100", "device": "mlx5_0", "port": "1"}
    kinds = {identify(signal, {**labels, "__name__": metric}, Aliases())[:2] for metric in signal.metrics}  # type: ignore[index]
    assert len(kinds) == 1
