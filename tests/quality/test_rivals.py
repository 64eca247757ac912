"""The plain rivals do what they are said to do, on readings written by hand: four nodes, an hour at 15 s."""

from dataclasses import replace

import numpy as np
import pytest

from anomaly.clock import MINUTE, parse_time
from anomaly.records import Bools, Floats
from anomaly.truth import judge
from anomaly.truth.facts import Fault, Truth
from tests.quality.rivals import Causes, Readings, alert_rules, lines_of, node_forest, rolling_band

T0 = parse_time("2026-06-01T08:00:00Z")
NODES = ("a", "b", "c", "d")
STEPS = 240
_GPU = (
    "gpu_temp", "power", "sm_clock", "gpu_util", "tensor", "fb_used", "xid", "ecc_sbe", "ecc_dbe", "row_remap_failure",
    "remapped_rows", "pcie_replay", "nvlink_crc_flit", "nvlink_replay",
)  # fmt: skip
_NIC = ("symbol", "discards", "drops", "receive_errors", "link_downed", "recovery", "received", "pause_sent",
        "pause_received")  # fmt: skip


def calm() -> Readings:
    rng = np.random.default_rng(5)

    def flat(level: float) -> Floats:
        return level + 0.002 * level * rng.standard_normal((4, 2, STEPS))

    gpu = {name: np.zeros((4, 2, STEPS)) for name in _GPU}
    gpu |= {"gpu_temp": flat(65), "power": flat(500), "sm_clock": flat(1900), "gpu_util": flat(98)}
    nic = {name: np.zeros((4, 2, STEPS)) for name in _NIC}
    nic["received"] = np.cumsum(flat(1e9), axis=-1)
    up = {name: np.ones((4, STEPS)) for name in ("node-exporter", "dcgm-exporter")}
    times = T0 + 15_000 * np.arange(1, STEPS + 1, dtype=np.int64)
    return Readings(NODES, times, gpu, nic, up, flat(5.0))


def fires(causes: Causes, cause: str) -> Bools:
    return np.asarray(np.any([where for name, where in causes if name == cause], axis=0))


def first(where: Bools, node: int) -> int:
    """The first scrape at which it fires."""
    return int(np.flatnonzero(where[node])[0])


def test_calm_fires_no_rule_and_no_band() -> None:
    for causes in (alert_rules(calm()), rolling_band(calm())):
        assert not any(where.any() for _, where in causes)


def test_heat_waits_two_minutes_and_an_xid_does_not_wait() -> None:
    seen = calm()
    seen.gpu["gpu_temp"][1, 0, 100:] = 88.0
    seen.gpu["xid"][2, 1, 120:] = 79.0
    causes = alert_rules(seen)
    assert first(fires(causes, "thermal"), 1) == 107
    assert first(fires(causes, "gpu_lost"), 2) == 120
    assert not fires(causes, "gpu_lost")[2, 140:].any(), "a code that stays is no change"
    assert not fires(causes, "thermal")[[0, 2, 3]].any()


def test_an_xid_that_was_there_before_is_none() -> None:
    seen = calm()
    seen.gpu["xid"][0, 0, :] = 79.0
    assert not fires(alert_rules(seen), "gpu_lost").any()


def test_a_silent_host_is_lost_and_a_short_gap_is_not() -> None:
    seen = calm()
    seen.up["node-exporter"][0, 100:] = 0.0
    seen.up["node-exporter"][1, 100:104] = 0.0
    lost = fires(alert_rules(seen), "node_lost")
    assert first(lost, 0) == 107
    assert not lost[1].any()


@pytest.mark.parametrize(("each", "fired"), [(10.0, True), (0.5, False)])
def test_error_rates_count_and_single_errors_do_not(each: float, fired: bool) -> None:
    seen = calm()
    seen.nic["symbol"][3, 1, 100:] = each * np.arange(1, STEPS - 99)
    assert bool(fires(alert_rules(seen), "network")[3].any()) is fired


def test_the_band_sees_a_step_of_one_series_and_forgets_it() -> None:
    seen = calm()
    seen.gpu["sm_clock"][1, 0, 150:] *= 0.8
    outside = fires(rolling_band(seen), "power")
    assert 150 <= first(outside, 1) <= 160
    assert not outside[1, 200:].any(), "the step is in the band's own width by then"
    assert not outside[[0, 2, 3]].any()


def test_the_forest_sees_a_node_leave_what_it_was() -> None:
    seen = calm()
    for name in ("gpu_temp", "power", "sm_clock"):
        seen.gpu[name][1, :, 150:] *= 0.7
    [(_, odd)] = node_forest(seen, 1)
    assert odd[1, 160:].mean() > 0.9
    assert not odd[:, :150].any()


def test_what_fires_is_one_alert_a_node_until_it_has_been_quiet() -> None:
    seen = calm()
    where = np.zeros((4, STEPS), bool)
    where[1, 100:110] = where[1, 120:125] = where[1, 200] = True
    lines = lines_of(seen, (("thermal", where), ("power", where)))
    assert [(line["node"], line["cause"]) for line in lines] == [("b", "thermal")] * 2
    fault = Fault("f", "thermal_throttle", "node", NODES, ("b",), None, int(seen.times[98]), int(seen.times[130]),
                  "node_alert", 10 * MINUTE, "thermal", 0.2)  # fmt: skip
    report = judge(Truth((fault,)), lines, start=T0, end=int(seen.times[-1]), nodes=4)
    assert (len(report.found), len(report.false("page"))) == (1, 1)


def test_gaps_are_no_values() -> None:
    seen = calm()
    gap = replace(seen, gpu={name: values.copy() for name, values in seen.gpu.items()})
    for values in gap.gpu.values():
        values[0, :, 100:110] = np.nan
    for causes in (alert_rules(gap), rolling_band(gap)):
        assert not any(where.any() for _, where in causes)
