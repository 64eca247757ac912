"""What the packs read and never read: names, units, kinds and intervals that the field has learnt about."""

import re

import pytest

from anomaly.detect.profiles import detectors_of
from anomaly.features.index import Directory
from anomaly.features.panel import build_panel
from anomaly.signals.catalogue import load_catalogue, pack_names
from anomaly.signals.model import Signal
from tests.features.builders import STEP, index, ring, series

SIGNALS = [signal for pack in pack_names() for signal in load_catalogue([pack]).signals.values()]
IPMI = load_catalogue(["ipmi"]).signals

GAUGES_CALLED_COUNTERS = (
    *("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"),
    *("DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES", "DCGM_FI_DEV_PCIE_TX_THROUGHPUT"),
    *("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_CLOCK_EVENTS_COUNT"),
    *("sonic_queue_watermark_bytes_total", "sonic_queue_shared_watermark_bytes_total"),
)


def reads(signal: Signal) -> set[str]:
    """Names of metrics that the signal asks for."""
    return {*signal.metrics, *re.findall(r"\b[a-zA-Z_:][\w:]*(?=[{\[ )]|$)", signal.query or "")}


def readers(*words: str) -> list[Signal]:
    return [signal for signal in SIGNALS if any(word in name for name in reads(signal) for word in words)]


@pytest.mark.parametrize("metric", GAUGES_CALLED_COUNTERS)
def test_no_rate_is_taken_of_what_is_only_called_a_counter(metric: str) -> None:
    """NVIDIA/dcgm-exporter#417, #87, PR#658, guilbaults/slurm-job-exporter#11: typed counter, is a rate already."""
    for signal in readers(metric):
        assert signal.kind != "counter", signal.name
        assert not re.search(rf"(?:rate|increase)\s*\(\s*{metric}", signal.query or ""), signal.name


def test_a_signal_of_ones_own_is_the_kind_that_it_says_and_not_what_the_exporter_declares() -> None:
    """KempnerInstitute/kempnerpulse#10: `rate()` of NVLINK_BANDWIDTH_TOTAL was blank most of the time."""
    own = {"metrics": ["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"], "unit": "megabytes/s", "bad": "none", "layer": "hardware"}
    signal = load_catalogue(["dcgm"], {"nvlink_bandwidth": own})["nvlink_bandwidth"]
    known = [series(1, signal.name, "a", "0")]
    raw = [320.0, 290.0, 310.0, 0.0]
    found = build_panel(signal, ring([raw]), index(Directory(), known), 0, STEP)
    assert found.values.tolist() == [raw]


def test_names_are_named() -> None:
    """prometheus/node_exporter#2096: 674 ethtool entries a device; a wildcard takes ten thousand series of one host."""
    for signal in SIGNALS:
        text = signal.promql(15_000)
        assert not re.search(r'__name__\s*=~\s*"[^"]*[.*+\[]', text), signal.name
        assert "__name__!" not in text, signal.name


def test_bytes_of_switch_ports_are_the_wide_counters() -> None:
    """ChameleonCloud/chi-in-a-box#102: 32-bit octets wrap within seconds at 10 GbE."""
    assert readers("ifHCInOctets")
    assert [name for signal in SIGNALS for name in reads(signal) if name in ("ifInOctets", "ifOutOctets")] == []


def test_killed_processes_are_counted_by_the_node() -> None:
    """kubernetes-sigs/kubernetes-mixin#822: cAdvisor does not see the killed children of a container."""
    assert readers("node_vmstat_oom_kill")
    assert [signal.name for signal in SIGNALS if "OOMKilling" in (signal.query or "")] == ["kernel_oom_kills"]
    assert readers("container_oom_events") == []


def test_boards_are_asked_once_a_minute_at_most() -> None:
    """prometheus-community/ipmi_exporter#95: several readers pile up ipmi processes."""
    assert all(signal.interval >= 60_000 for signal in IPMI.values())


def test_boards_are_judged_by_the_vendors_own_state_only() -> None:
    """prometheus-community/ipmi_exporter#108, #139, #30, #54, PR#374: readings are NaN, N/A or discrete."""
    judged = [signal for signal in IPMI.values() if detectors_of(signal)]
    assert judged
    assert all(metric.endswith("_state") for signal in judged for metric in signal.metrics)


def test_an_own_flag_of_dcgm_is_no_verdict() -> None:
    """NVIDIA/DCGM#285: DCGM_EXP_GPU_HEALTH_STATUS warns of power at normal load."""
    assert [signal.name for signal in readers("GPU_HEALTH_STATUS") if detectors_of(signal)] == []


def test_link_speed_and_width_are_no_verdict() -> None:
    """NVIDIA/open-gpu-kernel-modules#731: the generation is low at idle; slots may have fewer lanes than the card."""
    found = readers("pcidevice_current_link", "PCIE_LINK_GEN", "PCIE_LINK_WIDTH", "pcie_link_gen")
    assert [signal.name for signal in found if detectors_of(signal)] == []
