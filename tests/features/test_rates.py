"""Counters: increases that are believed, and rates over a window."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.clock import MINUTE
from anomaly.features.rates import increases, windowed_rate
from anomaly.records import Floats
from tests.features.builders import NAN

STEP = 15_000


def times(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return STEP * np.arange(1, count + 1, dtype=np.int64)


def increases_of(*values: float) -> tuple[list[float], list[bool]]:
    change, _, ambiguous = increases(np.array([values]), times(len(values)))
    return change[0].tolist(), ambiguous[0].tolist()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        pytest.param([5, 8, 8, 9], [NAN, 3, 0, 1], id="the first sample is no increase"),
        pytest.param([1000, 40, 50], [NAN, 40, 10], id="a restart starts small"),
        pytest.param([1000, 0, 0], [NAN, 0, 0], id="a restart from zero"),
        pytest.param([1000, 990, 1000], [NAN, NAN, 10], id="a small fall is nothing that can be said"),
        pytest.param([4294967295, 10, 30], [NAN, 10, 20], id="a 32-bit counter that wraps"),
        pytest.param([5, NAN, NAN, 11], [NAN, NAN, NAN, 6], id="a gap is bridged"),
        pytest.param([NAN, NAN], [NAN, NAN], id="nothing"),
        pytest.param([0, 0, 1], [NAN, 0, 1], id="the first error ever"),
    ],
)
def test_increases(values: list[float], wanted: list[float]) -> None:
    np.testing.assert_array_equal(increases_of(*values)[0], wanted)


def test_an_ambiguous_fall_is_counted_as_such() -> None:
    assert increases_of(1000, 990, 1000)[1] == [False, True, False]


def test_known_restarts_make_any_fall_a_reset() -> None:
    raw = np.array([[1000.0, 990.0]])
    change, _, ambiguous = increases(raw, times(2), np.array([[False, True]]))
    assert change[0, 1] == 990.0
    assert not ambiguous.any()


def test_an_increase_over_a_long_hole_is_not_attributed_to_its_end() -> None:
    raw = np.array([[5.0, *[NAN] * 60, 900.0, 901.0]])
    change, _, _ = increases(raw, times(raw.shape[1]), gap=10 * MINUTE)
    assert math.isnan(change[0, -2])
    assert change[0, -1] == 1.0


def test_seconds_are_those_since_the_previous_sample() -> None:
    _, elapsed, _ = increases(np.array([[5.0, NAN, 11.0, 12.0]]), times(4))
    np.testing.assert_array_equal(elapsed, [[NAN, NAN, 30.0, 15.0]])


def rate(*values: float, columns: int = 4) -> Floats:
    change, elapsed, _ = increases(np.array([values]), times(len(values)))
    found: Floats = windowed_rate(change, elapsed, columns)[0]
    return found


def test_a_steady_counter_has_its_rate() -> None:
    np.testing.assert_allclose(rate(*np.arange(0, 300, 30.0))[1:], 2.0)


def test_a_gap_neither_lowers_nor_raises_the_rate() -> None:
    np.testing.assert_allclose(rate(0, 30, 60, NAN, NAN, 150, 180)[-1], 2.0)


def test_a_value_set_aside_never_becomes_a_zero_rate() -> None:
    """Between two copies that fall against each other nothing is known, and nothing is not zero."""
    assert np.isnan(rate(1000, 990, 980, 970, columns=2)).all()


def test_a_spike_leaves_the_window_after_its_length() -> None:
    found = rate(0, 0, 60, 60, 60, 60, 60, columns=4)
    assert found[5] == 60 / 60
    assert found[6] == 0.0


cells = st.one_of(st.just(NAN), st.floats(0, 1e9))


@given(st.lists(st.lists(cells, min_size=12, max_size=12), min_size=1, max_size=4), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_a_block_of_steps_gives_bit_for_bit_what_single_steps_give(raw: list[list[float]], columns: int) -> None:
    table = np.array(raw)
    change, elapsed, _ = increases(table, times(12))
    block = windowed_rate(change, elapsed, columns)
    for last in range(1, 13):
        change, elapsed, _ = increases(table[:, :last], times(last))
        single = windowed_rate(change, elapsed, columns)[:, -1]
        assert single.tobytes() == block[:, last - 1].tobytes()


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_counter_that_only_rises_loses_nothing(steps: list[int]) -> None:
    raw = np.cumsum(steps).astype(float)[None, :]
    change, _, ambiguous = increases(raw, times(len(steps)))
    assert np.nansum(change) == raw[0, -1] - raw[0, 0]
    assert not ambiguous.any()


@given(st.lists(st.one_of(st.just(NAN), st.floats(0, 1e12)), min_size=1, max_size=15))
@settings(max_examples=80, deadline=None)
def test_an_increase_is_never_negative(values: list[float]) -> None:
    change, _, _ = increases(np.array([values]), times(len(values)))
    assert not (change < 0).any()
