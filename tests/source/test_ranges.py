"""Cutting ranges and putting answers together: no point lost, none twice."""

from collections.abc import Mapping
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anomaly.records import Pulled
from anomaly.source import ranges


def pulled(series: list[tuple[Mapping[str, str], list[int], list[float]]], *warnings: str) -> Pulled:
    return Pulled(
        tuple(labels for labels, _, _ in series),
        np.array([len(ts) for _, ts, _ in series], np.int64),
        np.array([t for _, ts, _ in series for t in ts], np.int64),
        np.array([v for _, _, values in series for v in values], np.float64),
        warnings,
    )


@given(st.integers(0, 10**6), st.integers(-5, 5_000), st.integers(1, 60), st.integers(1, 50))
def test_the_parts_of_a_range_are_its_points_once_each(start: int, length: int, step: int, limit: int) -> None:
    """As in robusta-dev/krr PR#53, robusta-dev/krr PR#97."""
    parts = ranges.split(start, start + length, step, limit)
    points = [list(range(first, last + 1, step)) for first, last in parts]
    assert list(chain(*points)) == list(range(start, start + length + 1, step))
    assert all(1 <= len(part) <= limit for part in points)


@given(st.integers(0, 10**6), st.integers(0, 500), st.integers(1, 60))
def test_halves_are_the_whole(start: int, length: int, step: int) -> None:
    halves = ranges.halve(start, start + length, step)
    whole = list(range(start, start + length + 1, step))
    if halves is None:
        assert len(whole) == 1
    else:
        parts = [list(range(first, last + 1, step)) for first, last in halves]
        assert list(chain(*parts)) == whole and all(parts)


def test_a_grid_without_a_step_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="positive step"):
        ranges.split(0, 10, 0, 5)


def test_timestamps_near_the_grid_move_onto_it() -> None:
    """As in arundo/adtk#115, arundo/adtk#146, arundo/adtk#60, twitter/AnomalyDetection#22,
    twitter/AnomalyDetection#45."""
    ts = np.array([1_000, 14_000, 16_000, 29_900, 37_500], np.int64)
    assert ranges.snap(ts, 1_000, 15_000).tolist() == [1_000, 16_000, 16_000, 31_000, 31_000]
    assert ranges.snap(np.array([37_500 + 1_000], np.int64), 1_000, 15_000).tolist() == [46_000]  # a tie: the later


def test_sub_ranges_merge_by_label_set_whatever_the_order_of_series() -> None:
    a, b, c = {"gpu": "0"}, {"gpu": "1"}, {"gpu": "2"}
    whole = ranges.merge(
        [
            pulled([(a, [1, 2], [10, 20]), (b, [1], [11])], "late"),
            pulled([(c, [3], [32]), (a, [3, 4], [30, 40])], "late", "partial"),
        ]
    )
    assert whole.labels == (a, b, c)
    assert whole.lengths.tolist() == [4, 1, 1]
    assert whole.ts.tolist() == [1, 2, 3, 4, 1, 3]
    assert whole.values.tolist() == [10, 20, 30, 40, 11, 32]
    assert whole.warnings == ("late", "partial")


def test_one_label_set_twice_becomes_one_series_and_the_first_sample_wins() -> None:
    whole = ranges.merge(
        [pulled([({"a": "x"}, [1, 3], [1, 3]), ({"b": "y"}, [1], [9]), ({"a": "x"}, [2, 3], [2, 99])])]
    )
    assert whole.labels == ({"a": "x"}, {"b": "y"})
    assert whole.ts.tolist() == [1, 2, 3, 1]
    assert whole.values.tolist() == [1, 2, 3, 9]


def test_timestamps_that_do_not_rise_are_put_in_order() -> None:
    whole = ranges.merge([pulled([({}, [3, 1, 1], [3, 1, 2])])])
    assert (whole.ts.tolist(), whole.values.tolist()) == ([1, 3], [1, 3])


def test_a_tidy_answer_is_handed_on_as_it_is() -> None:
    one = pulled([({"a": "x"}, [5, 6], [1, 2]), ({"a": "y"}, [1, 2], [3, 4])])
    assert ranges.merge([one]).values is one.values


def test_no_answer_at_all_is_empty() -> None:
    whole = ranges.merge([])
    assert (whole.labels, len(whole.lengths), len(whole.ts), len(whole.values)) == ((), 0, 0, 0)


def test_points_outside_the_range_go_and_series_left_empty_with_them() -> None:
    kept = ranges.within(pulled([({"a": "x"}, [1, 2, 3], [1, 2, 3]), ({"a": "y"}, [9], [9])]), 2, 4)
    assert (kept.labels, kept.lengths.tolist(), kept.ts.tolist()) == (({"a": "x"},), [2], [2, 3])
