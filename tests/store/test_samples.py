"""Samples in and out: reading twice is reading once, and history never changes."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.store import Committed, Store, open_store
from tests.store.parts import STEP, T0, chunk, series_of, stored

GRID = 12


@st.composite
def worlds(draw: st.DrawFn) -> dict[tuple[int, int], float]:
    """What the source holds: values at some (series, step) of 3 series × 12 steps."""
    keys = st.tuples(st.integers(0, 2), st.integers(0, GRID - 1))
    return draw(st.dictionaries(keys, st.floats(allow_nan=False, width=32), max_size=30))


ranges = st.tuples(st.integers(0, GRID - 1), st.integers(0, GRID - 1)).map(lambda pair: (min(pair), max(pair)))


@settings(max_examples=25, deadline=None)
@given(worlds(), st.lists(ranges, max_size=4))
def test_any_reading_again_leaves_what_the_source_holds(
    world: dict[tuple[int, int], float], again: list[tuple[int, int]]
) -> None:
    with open_store(Path("unused"), memory=True) as store:
        ids = series_of(store, "gpu_temp", 3)
        for low, high in [*again, (0, GRID - 1), *again]:
            points = [(ids[s], T0 + k * STEP, value) for (s, k), value in world.items() if low <= k <= high]
            store.commit_chunk(chunk(T0 + low * STEP, T0 + high * STEP, {"gpu_temp": points}))
        assert stored(store, "gpu_temp") == sorted((ids[s], T0 + k * STEP, value) for (s, k), value in world.items())
        assert store.watermark("gpu_temp") == store.watermark("collected") == T0 + (GRID - 1) * STEP


@settings(max_examples=25, deadline=None)
@given(worlds(), worlds(), st.integers(0, GRID))
def test_scored_samples_never_change_and_every_difference_is_late_once(
    first: dict[tuple[int, int], float], second: dict[tuple[int, int], float], scored: int
) -> None:
    with open_store(Path("unused"), memory=True) as store:
        ids = series_of(store, "gpu_temp", 3)
        end = T0 + (GRID - 1) * STEP

        def place(key: tuple[int, int]) -> tuple[int, int]:
            return ids[key[0]], T0 + key[1] * STEP

        store.commit_chunk(chunk(T0, end, {"gpu_temp": [(*place(key), value) for key, value in first.items()]}))
        history = T0 + scored * STEP - 1
        later = chunk(
            T0, end, {"gpu_temp": [(*place(key), value) for key, value in second.items()]}, scored_through=history
        )
        counts = store.commit_chunk(later)
        expected = {key: value for key, value in first.items() if key[1] < scored}
        expected |= {key: value for key, value in second.items() if key[1] >= scored}
        late = {key: value for key, value in second.items() if key[1] < scored and first.get(key) != value}
        assert stored(store, "gpu_temp") == sorted((*place(key), value) for key, value in expected.items())
        assert store.commit_chunk(later).late == 0
        assert store.late_samples(T0, end) == sorted((*place(key), value, end) for key, value in late.items())
        assert counts.late == len(late)


def test_a_sample_that_vanished_at_the_source_vanishes_here(store: Store) -> None:
    a, b = series_of(store, "gpu_temp", 2)
    store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(a, T0, 1.0), (b, T0, 2.0)]}))
    counts = store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(a, T0, 1.0)]}))
    assert counts == Committed(inserted=1, replaced=2, late=0, nan=0)
    assert stored(store, "gpu_temp") == [(a, T0, 1.0)]


def test_a_failed_signal_keeps_its_samples_and_its_watermark(store: Store) -> None:
    (a,), (b,) = series_of(store, "gpu_temp", 1), series_of(store, "sm_clock", 1)
    store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(a, T0, 1.0)], "sm_clock": [(b, T0, 2.0)]}))
    later = T0 + STEP
    store.commit_chunk(chunk(T0, later, {"gpu_temp": [(a, later, 1.0)]}, failed=[("sm_clock", "503")]))
    assert stored(store, "sm_clock") == [(b, T0, 2.0)]
    assert stored(store, "gpu_temp") == [(a, later, 1.0)]
    assert store.watermarks() == {"collected": later, "gpu_temp": later, "sm_clock": T0}


def test_reading_an_old_range_again_does_not_turn_watermarks_back(store: Store) -> None:
    series_of(store, "gpu_temp", 1)
    store.commit_chunk(chunk(T0, T0 + STEP, {"gpu_temp": []}))
    store.commit_chunk(chunk(T0, T0, {"gpu_temp": []}))
    assert store.watermarks() == {"collected": T0 + STEP, "gpu_temp": T0 + STEP}


def test_what_this_store_has_scored_is_history_even_for_a_caller_who_forgot(store: Store) -> None:
    (a,) = series_of(store, "gpu_temp", 1)
    store.set_watermark("scored", T0)
    assert store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(a, T0, 1.0)]})).late == 1
    assert stored(store, "gpu_temp") == []


def test_nan_is_no_sample_and_infinity_is_one(store: Store) -> None:
    """As in prometheus-community/ipmi_exporter#108 (sensors without a reading), prometheus/prometheus#6645
    (quantiles without traffic)."""
    (a,) = series_of(store, "gpu_temp", 1)
    points = [(a, T0, math.nan), (a, T0 + 1, math.inf), (a, T0 + 2, -math.inf)]
    assert store.commit_chunk(chunk(T0, T0 + 2, {"gpu_temp": points})) == Committed(2, 0, 0, 1)
    assert stored(store, "gpu_temp") == [(a, T0 + 1, math.inf), (a, T0 + 2, -math.inf)]


def test_samples_outside_the_range_that_was_read_are_refused(store: Store) -> None:
    (a,) = series_of(store, "gpu_temp", 1)
    with pytest.raises(ValueError, match="outside the range"):
        store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(a, T0 + 1, 1.0)]}))


def test_many_signals_read_in_one_scan_are_what_each_gives_alone(store: Store) -> None:
    signals = ["gpu_temp", "sm_clock", "gpu_power"]
    ids = {signal: series_of(store, signal, 4) for signal in signals}
    for k in range(6):
        at = T0 + k * STEP
        store.commit_chunk(chunk(at, at, {s: [(i, at, float(i + k)) for i in ids[s]] for s in signals}))
    low, high = T0 + STEP, T0 + 4 * STEP
    many = store.read_many([*signals, "nothing"], low, high)
    assert list(many) == [*signals, "nothing"]
    assert len(many["nothing"]) == 0
    for signal in signals:
        alone = store.read(signal, low, high)
        assert len(alone) == 16
        rows = [sorted(zip(x.series_id, x.ts, x.values, strict=True)) for x in (alone, many[signal])]
        assert rows[0] == rows[1]
        assert [str(x.dtype) for x in (many[signal].series_id, many[signal].ts)] == ["int32", "int64"]


def test_labels_are_attributes_valid_while_samples_carried_them(store: Store) -> None:
    (a,) = series_of(store, "gpu_temp", 1)
    store.commit_chunk(chunk(T0, T0 + STEP, {"gpu_temp": [(a, T0, 1.0), (a, T0 + STEP, 1.0)]}))
    found = store._session.rows("SELECT * FROM attributes WHERE key = 'Hostname'")
    assert found == [(a, "Hostname", "gpu-00", T0, T0 + STEP)]
