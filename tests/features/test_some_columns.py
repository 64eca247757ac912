"""What a column says does not depend on how many others are worked out with it, or on what a ring grew out of."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.features.align import row_lookup
from anomaly.features.index import Directory
from anomaly.features.panel import build_panel
from anomaly.features.rates import increases, increases_from, windowed_rate
from anomaly.features.ring import Ring, empty_ring, extend
from anomaly.panels import Rows
from anomaly.records import Floats
from tests.features.builders import NAN, STEP, index, ring, rows, samples, series, signal

counters = st.lists(st.sampled_from([NAN, 0.0, 5.0, 7.0, 100.0, 96.0, 1e12]), min_size=1, max_size=14)


@settings(deadline=None)
@given(st.lists(counters, min_size=1, max_size=4), st.integers(0, 14), st.integers(1, 5))
def test_increases_and_rates_of_the_newest_columns_are_those_of_all(
    lists: list[list[float]], first: int, gap: int
) -> None:
    width = min(len(one) for one in lists)
    raw = np.array([one[:width] for one in lists])
    first = min(first, width)
    times = STEP * np.arange(1, width + 1, dtype=np.int64)
    whole = increases(raw, times, gap=gap * STEP)
    for part, all_of_it in zip(increases_from(raw, times, first, gap=gap * STEP), whole, strict=True):
        np.testing.assert_array_equal(part, all_of_it[:, first:])
    change, elapsed, _ = whole
    rates = windowed_rate(change, elapsed, 3)
    np.testing.assert_array_equal(windowed_rate(change, elapsed, 3, first), rates[:, first:])


@pytest.mark.parametrize("name", ["gpu_temp", "pcie_replay", "nvlink_errors"])
def test_a_panel_with_less_context_says_the_same(name: str) -> None:
    rng = np.random.default_rng(3)
    table = np.cumsum(rng.integers(0, 3, (6, 40)), axis=1).astype(float) + 20
    table[rng.random(table.shape) < 0.2] = NAN
    table[2, 20:] -= 15
    known = [series(i + 1, name, f"n{i % 3}", "0", f"p{i}") for i in range(6)]
    found = index(Directory(), known)
    held = ring(table.tolist())
    since = int(held.times[34])
    whole = build_panel(signal(name), held, found, since, STEP)
    for back in (0, 3, 20, 34):
        part = build_panel(signal(name), held, found, since, STEP, since - back * STEP)
        assert part.times.tolist() == whole.times[-len(part.times) :].tolist()
        assert part.rows.keys == whole.rows.keys
        assert part.new_times.tolist() == whole.new_times.tolist()
        np.testing.assert_array_equal(part.values, whole.values[:, -len(part.times) :])


def grown(held: Ring, column: int, *values: float) -> Ring:
    at = STEP * column
    given_ = samples([(i + 1, at, value) for i, value in enumerate(values)])
    return extend(held, given_, at - STEP, at, 4 * STEP)


def test_a_ring_that_grew_into_another_keeps_what_it_had() -> None:
    held = grown(grown(empty_ring(STEP), 1, 1.0, 2.0), 2, 3.0, 4.0)
    before = held.raw.copy()
    one = grown(held, 3, 5.0, 6.0)
    other = grown(held, 3, 50.0, NAN)
    np.testing.assert_array_equal(held.raw, before)
    np.testing.assert_array_equal(one.raw[:, -1], [5.0, 6.0])
    np.testing.assert_array_equal(other.raw[:, -1], [50.0, NAN])


def test_a_ring_grows_as_if_it_were_made_anew() -> None:
    rng = np.random.default_rng(5)
    held = empty_ring(STEP)
    table: list[Floats] = []
    for column in range(1, 40):
        values = np.where(rng.random(5) < 0.3, NAN, rng.random(5))
        if 10 < column < 20:
            values[1] = NAN  # gone for longer than the ring remembers
        if column < 15:
            values[4] = NAN  # comes late
        table.append(values)
        known = [(i + 1, STEP * column, value) for i, value in enumerate(values.tolist()) if value == value]
        held = extend(held, samples(known), STEP * (column - 1), STEP * column, 4 * STEP)
        recent = np.array(table[-4:]).T
        alive = ~np.isnan(recent).all(axis=1)
        assert held.series.tolist() == (1 + np.flatnonzero(alive)).tolist()
        np.testing.assert_array_equal(held.raw, recent[alive])


@settings(deadline=None)
@given(st.data())
def test_rows_are_found_by_name(data: st.DataObject) -> None:
    pairs = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("01")), max_size=6)
    have, want = data.draw(pairs), data.draw(pairs)
    names = sorted({node for node, _ in have + want})

    def coded(of: list[tuple[str, str]]) -> Rows:
        codes = np.array([names.index(node) for node, _ in of], np.int32)
        return replace(rows(of), entity_code=codes, device_code=np.array([int(device) for _, device in of], np.int32))

    last = {pair: i for i, pair in enumerate(have)}
    first = {node: i for i, (node, _) in reversed(list(enumerate(have)))}
    assert row_lookup(coded(have), coded(want), per_device=True).tolist() == [last.get(pair, -1) for pair in want]
    assert row_lookup(coded(have), coded(want), per_device=False).tolist() == [first.get(node, -1) for node, _ in want]
