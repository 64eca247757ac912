"""Shift (a row against its own past) and threshold (a value against a fixed boundary)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.detect import shift, threshold
from anomaly.detect.habit import Habit, no_habit
from anomaly.records import Floats
from anomaly.signals.model import Shift, Threshold

NAN = float("nan")
BUCKET = 300_000
AT = 100 * BUCKET
STEP_TIME = Shift(effect=0.045, floor=0.008, scale="log")
P99 = Shift(effect=0.65, floor=0.12, scale="log", least=0.02)


def habit(spec: Shift, *values: float) -> Habit:
    ends = np.array([AT - (len(values) - i) * BUCKET for i in range(len(values))], np.int64)
    return Habit(("a",), ends, shift.to_scale(np.array([values], float), spec))


def score(spec: Shift, now: float, *past: float) -> float:
    return float(shift.judge(np.array([[now]]), habit(spec, *past), ("a",), AT, BUCKET, spec, "high")[0][0, 0])


def test_a_step_that_takes_a_tenth_longer_is_past_the_boundary() -> None:
    assert score(STEP_TIME, 11.0, *[10.0] * 8) >= 1.0
    assert score(STEP_TIME, 10.2, *[10.0] * 8) < 1.0


def test_faster_than_usual_is_nothing() -> None:
    assert score(STEP_TIME, 7.0, *[10.0] * 8) == 0.0


def test_a_job_whose_steps_vary_needs_a_larger_change() -> None:
    assert score(STEP_TIME, 11.0, 9.0, 11.5, 8.5, 11.0, 9.5, 10.5, 10.0, 12.0) < 1.0


def test_below_what_matters_a_change_is_of_no_consequence() -> None:
    assert score(P99, 0.015, *[0.003] * 8) == 0.0
    assert score(P99, 0.030, *[0.003] * 8) >= 1.0


def test_without_a_past_there_is_no_verdict() -> None:
    values: Floats = np.array([[10.0]])
    assert np.isnan(shift.judge(values, no_habit(), ("a",), AT, BUCKET, STEP_TIME, "high")[0]).all()
    assert np.isnan(score(STEP_TIME, 11.0, *[10.0] * 3))


def test_without_a_value_there_is_no_verdict() -> None:
    assert np.isnan(score(STEP_TIME, NAN, *[10.0] * 8))
    assert np.isnan(score(P99, NAN, *[0.05] * 8))


def test_the_expected_value_is_in_the_signals_unit() -> None:
    _, expected = shift.judge(np.array([[11.0]]), habit(STEP_TIME, *[10.0] * 8), ("a",), AT, BUCKET, STEP_TIME, "high")
    np.testing.assert_allclose(expected, 10.0)


@pytest.mark.parametrize(
    ("value", "past"), [(0.0, False), (1e-7, False), (1e-6, True), (5.0, True)], ids=["none", "less", "at", "many"]
)
def test_above_is_past_at_the_boundary_and_beyond(value: float, past: bool) -> None:
    found, boundary = threshold.judge(np.array([[value]]), Threshold(above=1e-6))
    assert bool(found[0, 0] >= 1.0) is past
    assert boundary == 1e-6


@pytest.mark.parametrize(("value", "past"), [(0.5, False), (0.0301, False), (0.03, True), (0.0, True)])
def test_below_is_past_at_the_boundary_and_under_it(value: float, past: bool) -> None:
    found, _ = threshold.judge(np.array([[value]]), Threshold(below=0.03))
    assert bool(found[0, 0] >= 1.0) is past


@given(st.one_of(st.just(NAN), st.floats(-1e12, 1e12)), st.sampled_from([-1.0, 0.0, 1e-6, 3.0]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_one_is_exactly_the_boundary(value: float, boundary: float, above: bool) -> None:
    spec = Threshold(above=boundary) if above else Threshold(below=boundary)
    found = float(threshold.judge(np.array([[value]]), spec)[0][0, 0])
    if np.isnan(value):
        assert np.isnan(found)
    else:
        assert 0.0 <= found <= 10.0
        assert (found >= 1.0) == (value >= boundary if above else value <= boundary)
