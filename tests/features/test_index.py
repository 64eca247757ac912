"""Rows: duplicates of one thing and its parts, brought together."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.features.index import Directory, merge, rows_of
from anomaly.records import SeriesRow
from tests.features.builders import NAN, index, series, signal

PFC = signal("pfc_pause_transmitted")
UP = signal("up")


def test_the_larger_of_duplicates_counts() -> None:
    known = [series(1, "gpu_temp", "a", "0"), series(2, "gpu_temp", "a", "0"), series(3, "gpu_temp", "b", "0")]
    places, values = merge(
        signal("gpu_temp"),
        index(Directory(), known),
        np.array([1, 2, 3], np.int32),
        np.array([[50.0, NAN], [55.0, 51.0], [40.0, NAN]]),
    )
    assert places.tolist() == [0, 1]
    np.testing.assert_array_equal(values, [[55.0, 51.0], [40.0, NAN]])


def test_a_target_is_down_when_either_copy_says_so() -> None:
    known = [series(1, "up", "a", "dcgm"), series(2, "up", "a", "dcgm")]
    _, values = merge(UP, index(Directory(), known), np.array([1, 2], np.int32), np.array([[1.0], [0.0]]))
    assert values.tolist() == [[0.0]]


def test_priorities_of_one_port_are_summed_and_their_duplicates_are_not() -> None:
    known = [
        series(1, "pfc", "a", "rdma0", "prio3"),
        series(2, "pfc", "a", "rdma0", "prio4"),
        series(3, "pfc", "a", "rdma0", "prio3"),
    ]
    _, values = merge(
        PFC, index(Directory(), known), np.array([1, 2, 3], np.int32), np.array([[5.0, NAN], [7.0, NAN], [6.0, NAN]])
    )
    np.testing.assert_array_equal(values, [[13.0, NAN]])


series_lists = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("01"), st.sampled_from(["p", "q"])), min_size=1, max_size=12
)
cells = st.one_of(st.just(NAN), st.integers(0, 1000).map(float))


@pytest.mark.parametrize("name", ["pfc_pause_transmitted", "thermal_violation", "up"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_merging_is_what_a_loop_over_names_gives(name: str, data: st.DataObject) -> None:
    about = signal(name)
    known: list[SeriesRow] = [
        series(number, name, node, device, part)
        for number, (node, device, part) in enumerate(data.draw(series_lists), 1)
    ]
    table = np.array([[data.draw(cells) for _ in range(3)] for _ in known])
    found = index(Directory(), known)
    places, values = merge(about, found, found.series, table)
    rows = rows_of(found, places)
    assert len(set(rows.keys)) == len(rows)
    pick = min if about.duplicates == "min" else max
    for i, (entity, device) in enumerate(zip(rows.entities, rows.devices, strict=True)):
        for j in range(3):
            parts: dict[str, list[float]] = {}
            for row, value in zip(known, table[:, j].tolist(), strict=True):
                if (row.entity, row.device) == (entity, device) and not math.isnan(value):
                    parts.setdefault(row.part, []).append(value)
            wholes = [pick(copies) for copies in parts.values()]
            wanted = NAN if not wholes else sum(wholes) if about.parts == "sum" else max(wholes)
            assert values[i, j] == wanted or (math.isnan(wanted) and math.isnan(values[i, j]))


def test_old_rows_keep_their_place_when_new_ones_join() -> None:
    directory = Directory()
    known = [series(4, "gpu_temp", "b", "0"), series(7, "gpu_temp", "a", "0")]
    before = index(directory, known).rows
    after = index(directory, [*known, series(9, "gpu_temp", "a", "1")]).rows
    assert after.keys[: len(before)] == before.keys
    assert after.entity_code[: len(before)].tolist() == before.entity_code.tolist()


def test_a_row_that_has_no_series_now_is_left_out() -> None:
    known = [series(1, "gpu_temp", "a", "0"), series(2, "gpu_temp", "b", "0"), series(3, "gpu_temp", "c", "0")]
    found = index(Directory(), known)
    places, values = merge(signal("gpu_temp"), found, np.array([1, 3], np.int32), np.array([[1.0], [3.0]]))
    assert [str(entity) for entity in rows_of(found, places).entities] == ["node/a", "node/c"]
    assert values.tolist() == [[1.0], [3.0]]
