"""The causes table: every family has a tier, steps from soft to hard, and commands that can be pasted."""

import re

import pytest

from anomaly.causes import FAMILIES, advice, commands, default_severity, family, symptom_of
from anomaly.records import Severity

AGREED = [
    *("thermal", "power", "pcie", "network", "memory_ecc", "gpu_lost", "node_lost", "nvlink"),
    *("storage", "cpu", "software", "hang", "config", "driver", "telemetry"),
]


def test_the_families_are_the_agreed_ones() -> None:
    assert list(FAMILIES) == AGREED


@pytest.mark.parametrize("cause", AGREED)
def test_every_family_advises_without_a_first_reboot_and_leaves_no_placeholder(cause: str) -> None:
    for text in (advice(cause, ("gpu3", "mlx5_0", "rdma0"), "gpu-17"), advice(cause)):
        assert not re.search(r"\{\w+\}", text)
        assert "`" in text
    first = family(cause).steps[0].lower()
    assert "reboot" not in first
    assert "power-cycle" not in first
    assert default_severity(cause).rank >= Severity.WARNING.rank
    assert default_severity(cause, hard=True).rank >= default_severity(cause).rank
    assert symptom_of(cause)


def test_commands_name_the_device_that_the_evidence_names() -> None:
    assert commands("thermal", ("gpu3",))[0] == "nvidia-smi -i 3 -q -d TEMPERATURE,CLOCK,PERFORMANCE"
    assert commands("thermal")[0] == "nvidia-smi -q -d TEMPERATURE,CLOCK,PERFORMANCE"
    assert commands("nvlink", ("nvidia5",))[0] == "nvidia-smi nvlink -s -i 5"
    assert commands("network", ("mlx5_2", "rdma2"))[:2] == (
        "ibstat mlx5_2",
        "ethtool -S rdma2 | grep -E 'discard|pause|symbol'",
    )
    assert commands("network")[0] == "ibstat"


def test_what_is_lost_or_hangs_is_a_page_and_a_soft_deviation_is_a_ticket() -> None:
    pages = {cause for cause in AGREED if default_severity(cause) is Severity.CRITICAL}
    assert pages == {"gpu_lost", "node_lost", "hang"}
    assert default_severity("memory_ecc", hard=True) is Severity.CRITICAL
    assert default_severity("network", hard=True) is Severity.CRITICAL


def test_a_shared_cause_drains_nobody_and_a_monitoring_fault_accuses_no_hardware() -> None:
    assert "Drain no member" in advice("network")
    assert "nothing about the hardware" in advice("telemetry", (), "gpu-17")
    assert "management controller of gpu-3" in advice("node_lost", (), "gpu-3")


def test_an_unknown_cause_still_gets_an_answer() -> None:
    assert family("gremlins").name == "unknown"
    assert "healthy peer" in advice("gremlins", (), "gpu-17")
