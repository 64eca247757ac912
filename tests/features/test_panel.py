"""Hygiene: values that cannot be true are nobody's, counted by reason; counters become rates."""

import numpy as np
import pytest

from anomaly.features.index import Directory
from anomaly.features.panel import build_panel, clean, presence_panel
from anomaly.features.ring import Ring
from tests.features.builders import NAN, STEP, index, ring, series, signal


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        pytest.param("gpu_temp", 9223372036854775794.0, "sentinel", id="INT64 blank"),
        pytest.param("memory_temp", 9223372036854776000.0, "sentinel", id="T4 memory temperature"),
        pytest.param("gpu_util", 4294967295.0, "sentinel", id="32-bit minus one"),
        pytest.param("gpu_util", 808334905.0, "sentinel", id="ASCII read as a number"),
        pytest.param("gpu_power", 2147483634.0, "sentinel", id="INT32 blank"),
        pytest.param("gpu_power", 140737488355330.0, "sentinel", id="FP64 blank"),
        pytest.param("gpu_util", 101.0, "out_of_range", id="more than all"),
        pytest.param("gpu_temp", 0.0, "out_of_range", id="freezing GPU"),
        pytest.param("gpu_temp", 255.0, "out_of_range", id="melting GPU"),
        pytest.param("gpu_power", -5.0, "out_of_range", id="GPU as generator"),
        pytest.param("gpu_power", np.inf, "infinite", id="infinite power"),
        pytest.param("symbol_errors", 9.3e18, "sentinel", id="blank counter"),
    ],
)
def test_what_cannot_be_true_is_set_aside_and_counted(name: str, value: float, reason: str) -> None:
    """As in NVIDIA/DCGM#199, NVIDIA/dcgm-exporter#418, NVIDIA/gpu-monitoring-tools#97."""
    values, dropped = clean(signal(name), np.array([[value, 50.0]]))
    assert np.isnan(values[0, 0])
    assert dropped == {reason: 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [("gpu_temp", 149.0), ("gpu_util", 0.0), ("gpu_util", 100.0), ("symbol_errors", 4294967295.0), ("gpu_power", 1.0)],
)
def test_what_can_be_true_stays(name: str, value: float) -> None:
    values, dropped = clean(signal(name), np.array([[value, NAN]]))
    np.testing.assert_array_equal(values, [[value, NAN]])
    assert not dropped


def test_an_empty_ring_is_clean() -> None:
    assert clean(signal("gpu_temp"), np.empty((0, 0)))[1] == {}


def counter(*rows: list[float]) -> Ring:
    return ring(rows, step=15_000, start=15_000)


def test_counters_are_rated_before_duplicates_are_merged() -> None:
    """Two exporters' copies that lag each other: merged first, they would fall and rise at every step."""
    known = [series(1, "symbol_errors", "a", "mlx5_0"), series(2, "symbol_errors", "a", "mlx5_0")]
    found = build_panel(
        signal("symbol_errors"),
        counter([100, 115, 130, 145, 160], [85, 100, 115, 130, 145]),
        index(Directory(), known),
        0,
        15_000,
    )
    np.testing.assert_allclose(found.values[0, 1:], 1.0)
    assert "counter_ambiguous" not in found.dropped


def test_a_fall_that_nobody_explains_is_no_rate_at_that_step_and_counted() -> None:
    known = [series(1, "symbol_errors", "a", "mlx5_0")]
    found = build_panel(signal("symbol_errors"), counter([1000, 1000, 990, 1000]), index(Directory(), known), 0, 15_000)
    assert np.isnan(found.values[0, 2])
    assert found.dropped == {"counter_ambiguous": 1}


def test_a_step_without_a_sample_has_no_rate() -> None:
    known = [series(1, "symbol_errors", "a", "mlx5_0")]
    found = build_panel(signal("symbol_errors"), counter([0, 15, NAN, 45]), index(Directory(), known), 0, 15_000)
    np.testing.assert_allclose(found.values[0], [NAN, 1.0, NAN, 1.0])


def test_parts_are_summed_as_rates() -> None:
    known = [
        series(1, "pfc_pause_transmitted", "a", "rdma0", "prio3"),
        series(2, "pfc_pause_transmitted", "a", "rdma0", "prio4"),
    ]
    found = build_panel(
        signal("pfc_pause_transmitted"), counter([0, 15, 30], [0, 30, 60]), index(Directory(), known), 0, 15_000
    )
    np.testing.assert_allclose(found.values[0, 1:], 3.0)


def test_context_lies_before_first() -> None:
    known = [series(1, "gpu_temp", "a", "0")]
    found = build_panel(signal("gpu_temp"), ring([[50, 51, 52, 53]]), index(Directory(), known), 2 * STEP, STEP)
    assert found.first == 2
    assert found.new_times.tolist() == [3 * STEP, 4 * STEP]
    assert found.new_values.tolist() == [[52.0, 53.0]]


def test_an_impossible_reading_is_still_a_device_that_answers() -> None:
    known = [series(1, "gpu_temp", "a", "0")]
    blank = ring([[50, 9.3e18]])
    found = index(Directory(), known)
    assert np.isnan(build_panel(signal("gpu_temp"), blank, found, 0, STEP).values[0, 1])
    assert not np.isnan(presence_panel(signal("gpu_temp"), blank, found, 0).values[0, 1])
