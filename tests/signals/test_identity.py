"""From labels to identity: the same thing keeps its name, whatever the exporter calls it."""

import pytest

from anomaly.records import Entity, Labels
from anomaly.signals.identity import Aliases, aliases_from, host_part, identify, job_of
from tests.features.builders import signal


@pytest.mark.parametrize(
    ("raw", "host"),
    [
        ("gpu-17:9400", "gpu-17"),
        ("gpu-17", "gpu-17"),
        ("gpu-17.cluster.local:9100", "gpu-17.cluster.local"),
        ("10.0.0.7:9400", "10.0.0.7"),
        ("[fe80::1]:9400", "fe80::1"),
        ("[fe80::1]", "fe80::1"),
        ("fe80::1", "fe80::1"),
        ("", ""),
    ],
)
def test_ports_and_brackets_are_no_part_of_a_host(raw: str, host: str) -> None:
    assert host_part(raw) == host


def test_every_exporter_of_a_node_is_one_entity() -> None:
    aliases = aliases_from([{"instance": "10.0.0.7:9100", "nodename": "gpu-17"}])
    for name, labels in {
        "gpu_temp": {"Hostname": "gpu-17", "instance": "10.0.0.7:9400", "gpu": "3"},
        "symbol_errors": {"instance": "10.0.0.7:9100", "device": "mlx5_0", "port": "1"},
        "up": {"instance": "10.0.0.7:9400", "job": "dcgm-exporter"},
        "storage_p99": {"instance": "10.0.0.7:9567", "vol_name": "train-data"},
    }.items():
        found = identify(signal(name), labels, aliases)
        assert found is not None
        assert found[0] == Entity("node", "gpu-17")


def test_a_qualified_name_is_the_short_one_when_uname_says_so() -> None:
    aliases = aliases_from([{"instance": "gpu-17.example.org:9100", "nodename": "gpu-17"}])
    assert aliases.canonical("gpu-17.example.org:9400") == "gpu-17"
    assert aliases.canonical("gpu-18.example.org:9400") == "gpu-18.example.org"


def test_a_pods_own_host_name_is_no_alias_of_the_node() -> None:
    """node_exporter without hostNetwork: nodename is the node's, instance another node's name."""
    assert aliases_from([{"instance": "other:9100", "nodename": "gpu-17"}]).names == {}


def test_the_pipeline_file_wins() -> None:
    aliases = aliases_from([{"instance": "10.0.0.7:9100", "nodename": "a"}], {"10.0.0.7": "b"})
    assert aliases.canonical("10.0.0.7:9400") == "b"


def test_an_ipv6_instance_finds_its_alias() -> None:
    aliases = aliases_from([{"instance": "[fd00::7]:9100", "nodename": "gpu-17"}])
    assert aliases.canonical("[fd00::7]:9400") == "gpu-17"


def gpu(**labels: str) -> tuple[Entity, str, str] | None:
    return identify(signal("gpu_temp"), {"Hostname": "n", **labels}, Aliases())


def test_a_gpu_is_named_by_its_index_and_not_by_what_may_change() -> None:
    """As in NVIDIA/dcgm-exporter#428."""
    a = gpu(gpu="3", UUID="GPU-old", pod="x", DCGM_FI_DRIVER_VERSION="550")
    b = gpu(gpu="3", UUID="GPU-new", hpc_job="train", DCGM_FI_DRIVER_VERSION="560")
    assert a == b == (Entity("node", "n"), "3", "")


def test_a_mig_slice_is_a_device_of_its_own() -> None:
    assert gpu(gpu="3", GPU_I_ID="7") == (Entity("node", "n"), "3/7", "")


def test_a_series_that_names_no_entity_has_no_identity() -> None:
    assert identify(signal("gpu_temp"), {"gpu": "3"}, Aliases()) is None
    assert identify(signal("gpu_temp"), {"Hostname": "", "gpu": "3"}, Aliases()) is None


def test_two_counters_of_one_signal_are_two_parts() -> None:
    replay: Labels = {"Hostname": "n", "gpu": "0", "__name__": "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"}
    crc: Labels = {**replay, "__name__": "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"}
    a, b = (identify(signal("nvlink_errors"), labels, Aliases()) for labels in (replay, crc))
    assert a is not None
    assert b is not None
    assert a[:2] == b[:2]
    assert a[2] != b[2]


@pytest.mark.parametrize(
    ("labels", "job"),
    [
        ({"hpc_job": "4711"}, "4711"),
        ({"job": "dcgm-exporter"}, None),
        ({"exported_pod": "train-a-worker-3"}, "train-a"),
        ({"exported_pod": "train-a-worker-0"}, "train-a"),
        ({"exported_pod": "train-a-master-0"}, "train-a"),
        ({"exported_pod": "train-a-7"}, "train-a"),
        ({"pod": "dcgm-exporter-x7k2p"}, None),
        ({"pod": "nvidia-dcgm-exporter-x7k2p", "container": "nvidia-dcgm-exporter"}, None),
        ({"pod": "gpu-metrics-x7k2p", "container": "exporter"}, None),
        ({"pod": "train-a-worker-3"}, None),
        ({"pod": "train-a-worker-3", "container": "pytorch"}, "train-a"),
        ({"pod": "dcgm-exporter-x7k2p", "exported_pod": "train-a-worker-3"}, "train-a"),
        ({"exported_job": "llm", "exported_pod": "llm-worker-3"}, "llm"),
        ({"hpc_job": ""}, None),
        ({}, None),
    ],
)
def test_which_job_labels_name(labels: Labels, job: str | None) -> None:
    """As in NVIDIA/dcgm-exporter#85."""
    assert job_of(labels) == job


def test_a_job_is_the_entity_of_its_own_series() -> None:
    labels = {"job": "training", "job_name": "train-a", "node": "n", "rank": "3"}
    assert identify(signal("iteration_seconds"), labels, Aliases()) == (Entity("job", "train-a"), "", "")


@pytest.mark.parametrize("nobody", ["NOT_SET", "unknown", "none"])
def test_what_exporters_write_for_no_job_is_no_job(nobody: str) -> None:
    assert job_of({"job_name": nobody}) is None
    assert job_of({"job_name": nobody, "hpc_job": "train-a"}) == "train-a"
