"""Peers: the arithmetic of "everybody but this one"."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.detect import peers
from anomaly.detect.habit import Habit, no_habit
from anomaly.records import Floats
from anomaly.signals.model import Peers

TEMP = Peers(effect=7, cold=15, floor=1.3)
CLOCK = Peers(effect=0.03, cold=0.08, floor=0.005, scale="log")
ERRORS = Peers(effect=0.1, cold=0.1, floor=0.01, offset=False)
TRAFFIC = Peers(effect=0.3, cold=0.8, floor=0.06, scale="log", least=1e7)
BUCKET = 300_000
AT = 100 * BUCKET


def habit_of(keys: tuple[str, ...], values: Sequence[float]) -> Habit:
    """Eight closed buckets in which each row was as given."""
    ends = np.array([AT - (8 - i) * BUCKET for i in range(8)], np.int64)
    return Habit(keys, ends, np.repeat(np.array(values, float)[:, None], 8, axis=1))


def score(values: Floats, spec: Peers, bad: str = "high", usual: Sequence[float] | None = None) -> Floats:
    keys = tuple(f"row{i}" for i in range(len(values)))
    scaled = peers.to_scale(values, spec)
    residual, spread = peers.residuals(scaled, [np.zeros(len(values), np.int64)], spec)
    habit = no_habit() if usual is None else habit_of(keys, usual)
    return peers.judge(residual, spread, habit, keys, AT, BUCKET, spec, bad)[0]


def column(*values: float) -> Floats:
    return np.array(values, float)[:, None]


def test_fewer_than_five_are_no_peers() -> None:
    assert np.isnan(score(column(50, 50, 50, 90), TEMP)).all()
    assert not np.isnan(score(column(50, 50, 50, 50, 90), TEMP)).any()


def test_the_closest_level_with_enough_members_is_used() -> None:
    scaled = column(50, 50, 50, 50, 60, 70, 70)
    job = np.array([0, 0, 0, 0, 0, 1, 1], np.int64)
    residual, _ = peers.residuals(scaled, [job, np.zeros(7, np.int64)], TEMP)
    assert residual[:, 0].tolist() == [0, 0, 0, 0, 10, 20, 20]


def test_a_row_in_no_group_has_no_verdict() -> None:
    groups = np.array([0, 0, 0, 0, 0, -1], np.int64)
    residual, spread = peers.residuals(column(1, 1, 1, 1, 1, 9), [groups], TEMP)
    assert np.isnan(residual[5, 0])
    assert np.isnan(spread[5, 0])


def test_in_lock_step_the_spread_is_zero_and_the_floor_holds() -> None:
    """Twelve identical clocks and one 15 MHz lower: no division by zero, no alarm."""
    assert score(column(*[1755] * 12, 1740), CLOCK, "low").max() < 1.0


def test_in_lock_step_a_real_fall_is_seen() -> None:
    """As in twitter/AnomalyDetection#58, twitter/AnomalyDetection#57, netdata/netdata#12967."""
    assert score(column(*[1755] * 12, 1300), CLOCK, "low")[-1, 0] > 1.0


def test_constant_and_equal_is_never_an_alarm() -> None:
    """As in twitter/AnomalyDetection#58, twitter/AnomalyDetection#57, netdata/netdata#12967."""
    assert (score(np.full((8, 20), 3.5), TEMP) == 0.0).all()
    assert (score(np.zeros((8, 20)), ERRORS) == 0.0).all()


def test_a_known_offset_is_no_deviation_and_its_growth_is() -> None:
    values = column(50, 50, 50, 50, 50, 59)
    assert score(values, TEMP, usual=[0, 0, 0, 0, 0, 9])[-1, 0] == 0.0
    grown = column(50, 50, 50, 50, 50, 67)
    assert score(grown, TEMP, usual=[0, 0, 0, 0, 0, 9])[-1, 0] >= 1.0


def test_a_row_whose_habit_is_not_known_needs_the_larger_deviation() -> None:
    warm, hot = column(*[50] * 7, 60), column(*[50] * 7, 66)
    assert score(warm, TEMP)[-1, 0] < 1.0 <= score(hot, TEMP)[-1, 0]
    assert score(warm, TEMP, usual=[0] * 8)[-1, 0] >= 1.0


def test_who_was_better_and_becomes_like_the_others_is_not_at_fault() -> None:
    """A GPU that ran 10 °C cooler and now is as warm as its peers."""
    assert score(column(*[50] * 7, 50), TEMP, usual=[0] * 7 + [-10])[-1, 0] < 1.0


def test_a_noisy_group_raises_the_boundary() -> None:
    calm = column(50, 50, 51, 49, 50, 50, 59)
    noisy = column(40, 62, 55, 43, 50, 58, 59)
    assert score(calm, TEMP, usual=[0] * 7)[-1, 0] >= 1.0
    assert score(noisy, TEMP, usual=[0] * 7)[-1, 0] < 1.0


def test_without_traffic_there_is_no_comparison() -> None:
    assert np.isnan(score(column(1e3, 1e3, 1e3, 1e3, 1e3, 1.0), TRAFFIC, "low")).all()
    assert score(column(4e9, 4e9, 4e9, 4e9, 4e9, 1e9), TRAFFIC, "low")[-1, 0] >= 1.0


def test_a_rail_that_carries_nothing_among_busy_ones_is_judged_not_lost() -> None:
    """The logarithm of zero must not turn the worst case into "no verdict". As in opensearch-project/project-website
    PR#4006. As in opensearch-project/project-website PR#4006."""
    found = score(column(4e9, 4e9, 4e9, 4e9, 4e9, 0.0), TRAFFIC, "low")[-1, 0]
    assert found >= 1.0


@pytest.mark.parametrize("spec", [TEMP, CLOCK, TRAFFIC])
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_order_of_rows_does_not_matter(spec: Peers, data: st.DataObject) -> None:
    values = np.array(data.draw(st.lists(st.floats(1e7, 1e10), min_size=5, max_size=12)))[:, None]
    order = np.array(data.draw(st.permutations(range(len(values)))))
    np.testing.assert_array_equal(score(values, spec, "low")[order], score(values[order], spec, "low"))


@given(st.lists(st.integers(20, 90), min_size=5, max_size=15), st.integers(-20, 20))
@settings(max_examples=60, deadline=None)
def test_what_all_share_makes_no_difference(values: list[int], shift: int) -> None:
    a, b = column(*values), column(*[value + shift for value in values])
    np.testing.assert_allclose(score(a, TEMP), score(b, TEMP), atol=1e-9)


@given(st.lists(st.floats(100, 3000), min_size=5, max_size=15), st.floats(0.2, 5))
@settings(max_examples=60, deadline=None)
def test_on_a_logarithmic_scale_a_common_factor_makes_no_difference(values: list[float], factor: float) -> None:
    """As in NVIDIA/dcgm-exporter#472, NVIDIA/DCGM#221."""
    a, b = column(*values), column(*[value * factor for value in values])
    np.testing.assert_allclose(score(a, CLOCK, "low"), score(b, CLOCK, "low"), atol=1e-6)


@given(st.integers(1, 11))
@settings(max_examples=11, deadline=None)
def test_a_score_uses_nothing_after_its_time(cut: int) -> None:
    values = np.random.default_rng(4).normal(50, 3, (8, 12))
    np.testing.assert_array_equal(score(values, TEMP)[:, :cut], score(values[:, :cut], TEMP))


def test_scores_are_never_negative_and_nan_only_without_a_verdict() -> None:
    values = np.random.default_rng(4).normal(50, 30, (8, 50))
    values[2, 10:20] = np.nan
    found = score(values, TEMP)
    assert np.nanmin(found) >= 0.0
    np.testing.assert_array_equal(np.isnan(found), np.isnan(values))


def test_a_fall_does_not_count_where_high_is_bad() -> None:
    assert score(column(*[50] * 7, 20), TEMP)[-1, 0] == 0.0


def test_segments_end_where_any_row_changes_its_job() -> None:
    codes = np.array([[0, 0, 1, 1, 1], [0, 0, 0, 0, 2]], np.int32)
    assert peers.segments(codes) == [(0, 2), (2, 4), (4, 5)]
    assert peers.segments(np.empty((3, 0), np.int32)) == []
    assert peers.segments(np.empty((0, 4), np.int32)) == [(0, 4)]
