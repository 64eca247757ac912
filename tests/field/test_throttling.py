"""Throttling: counters that tick at normal load, flags that most of a fleet shows, clocks that nobody sees."""

from collections.abc import Callable

import numpy as np
import pytest

from anomaly.features.index import Directory
from anomaly.features.panel import build_panel
from anomaly.signals.catalogue import load_catalogue, pack_names
from anomaly.signals.model import Signal
from tests.features.builders import STEP, index, ring, series, signal
from tests.field.stage import AT, NODES, Change, counted, happens, on_every_gpu, play, while_it_lasts
from tests.scenarios.cluster import Cluster, JobPlan

SICK = ("node-2", "1")


def power_limited(of: Callable[[str, str], float]) -> Change:
    """The share of time, per (node, gpu), for which the power counter runs."""

    def count(cluster: Cluster, node: str, gpu: str) -> np.ndarray:
        return counted(cluster, while_it_lasts(cluster, of(node, gpu) * 1e9, until=None))

    return on_every_gpu("power_violation", count, "DCGM_FI_DEV_POWER_VIOLATION")


def heat_counter(nanoseconds: float, until: float) -> Change:
    def change(cluster: Cluster) -> None:
        cluster.rates["thermal_violation"][SICK] += while_it_lasts(cluster, nanoseconds, until=until)

    return change


def test_power_capping_at_full_load_is_normal() -> None:
    """NVIDIA/DCGM#285: a zero threshold calls every busy GPU power-violating."""
    assert play(power_limited(lambda node, gpu: 0.5 if (node, gpu) == SICK else 0.35)).stories == []


def test_power_capping_far_above_the_peers_names_nobody_by_itself() -> None:
    """NVIDIA/DCGM#285: the clock says who is slow; the counter only joins in."""
    told = play(power_limited(lambda node, gpu: 0.99 if (node, gpu) == SICK else 0.01))
    assert told.stories == []
    assert ("node/node-2", "power_violation", "symptom_only") in told.dropped


def test_one_tick_of_the_heat_counter_is_nothing() -> None:
    """NVIDIA/DCGM#270: a thermal warning below 75 °C, for two milliseconds of violation."""
    assert play(heat_counter(2e6, until=AT + 0.25)).stories == []


def test_a_heat_counter_that_runs_on_a_cool_gpu_at_full_clock_is_a_note() -> None:
    """NVIDIA/DCGM#270: below 75 °C a violation needs the temperature or the clock to agree."""
    told = play(heat_counter(2e8, until=35))
    assert told.loud == []
    assert told.notes == ["node/node-2 thermal info"]


def test_a_heat_counter_that_the_temperature_confirms_is_a_ticket() -> None:
    """NVIDIA/DCGM#270, the other way round."""
    told = play(happens("gpu overheats", until=35, node="node-2", gpu=1, heat=18, clock=0.7))
    assert told.loud == ["node/node-2 thermal warning"]
    assert "thermal_violation" in told.story("node/node-2").incident.signals


def test_braked_gpus_are_found_where_most_of_the_fleet_shows_the_power_flag() -> None:
    """NVIDIA/NVSentinel#1666: the flag on 69 % of the fleet, GPUs at their lowest clock unseen for days."""

    def flagged(node: str, gpu: str) -> float:
        return 0.4 if node in NODES[:4] else 0.0

    slow = [happens("gpu clocks low", until=None, node=node, gpu=1, clock=0.5, power=0.5) for node in NODES[1:5:3]]
    told = play(power_limited(flagged), *slow)
    assert told.loud == ["node/node-2 power warning", "node/node-5 power warning"]


def test_a_throttle_without_any_counter_is_seen_by_its_clock() -> None:
    """NVIDIA/NVSentinel#890: silent throttling, no reason given."""
    told = play(happens("gpu clocks low", until=None, node="node-2", gpu=1, clock=0.7))
    assert told.loud == ["node/node-2 power warning"]


def test_idle_gpus_clock_down_as_they_like() -> None:
    """NVIDIA/NVSentinel#890: asked for with idle GPUs left out."""
    idle = happens("gpu clocks low", until=None, node="node-6", gpu=1, clock=0.3)
    assert play(idle, jobs=[JobPlan("train-a", NODES[:5])]).stories == []


def test_violations_are_nanoseconds_whatever_help_says() -> None:
    """NVIDIA/dcgm-exporter#589, NVIDIA/DCGM#266: microseconds in HELP, nanoseconds in the counter."""
    known = [series(1, "thermal_violation", "a", "0")]
    fifth = ring([[0.2e9 * STEP / 1000 * i for i in range(8)]])
    rate = build_panel(signal("thermal_violation"), fifth, index(Directory(), known), 0, STEP).values[0, 1:]
    assert rate / 1e9 == pytest.approx(0.2)
    assert signal("thermal_violation").unit == "nanoseconds"
    boundary = signal("thermal_violation").peers
    assert boundary is not None
    assert 0.01 < boundary.effect / 1e9 < 1, "a share of time"


JUDGED = ("threshold", "peers", "shift")


@pytest.mark.parametrize("pack", pack_names())
def test_what_falls_at_idle_is_judged_at_load_only(pack: str) -> None:
    """NVIDIA/open-gpu-kernel-modules#731, Syllo/nvtop#6: clocks and PCIe generation are low at idle."""

    def falls(item: Signal) -> bool:
        text = " ".join([item.name, *item.metrics, item.query or ""]).lower()
        words = ("sm_clock", "power_usage", "power_draw", "link_gen", "link_speed", "link_width", "gpu_power")
        return any(word in text for word in words)

    low = [item for item in load_catalogue([pack]).signals.values() if falls(item) and item.bad in ("low", "both")]
    assert [item.name for item in low if item.gate != "load" and any(getattr(item, part) for part in JUDGED)] == []
