"""The ring: what a dictionary of samples would hold, as a matrix."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.features.ring import Ring, empty_ring, extend, grid
from tests.features.builders import samples

STEP = 10
Triple = tuple[int, int, float]

triples = st.lists(
    st.tuples(st.integers(1, 5), st.integers(-5, 32).map(lambda n: n * 5), st.floats(-1e6, 1e6)),
    max_size=40,
    unique_by=lambda item: (item[0], item[1]),
)


def held(ring: Ring) -> dict[tuple[int, int], float]:
    there = np.argwhere(~np.isnan(ring.raw))
    return {(int(ring.series[i]), int(ring.times[j])): float(ring.raw[i, j]) for i, j in there}


def alike(a: Ring, b: Ring) -> bool:
    return (
        np.array_equal(a.series, b.series)
        and np.array_equal(a.times, b.times)
        and np.array_equal(a.raw, b.raw, equal_nan=True)
    )


@given(triples)
@settings(max_examples=80, deadline=None)
def test_it_holds_what_a_dictionary_would(items: list[Triple]) -> None:
    ring = extend(empty_ring(STEP), samples(items), 0, 120, 80)
    ring = extend(ring, samples(items), 120, 150, 80)
    wanted = {(s, t): v for s, t, v in items if t % STEP == 0 and 150 - 80 < t <= 150}
    assert held(ring) == wanted
    assert list(ring.times) == list(range(80, 151, STEP))


@given(triples, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_order_of_samples_does_not_matter(items: list[Triple], random: object) -> None:
    mixed = list(items)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert alike(
        extend(empty_ring(STEP), samples(items), 0, 150, 200), extend(empty_ring(STEP), samples(mixed), 0, 150, 200)
    )


@given(triples, st.lists(st.integers(1, 14), max_size=5, unique=True))
@settings(max_examples=80, deadline=None)
def test_in_pieces_is_at_once(items: list[Triple], cuts: list[int]) -> None:
    """Whatever the pieces, the last 80 time units are the same."""
    ring = empty_ring(STEP)
    bounds = [0, *(cut * STEP for cut in sorted(cuts)), 150]
    for start, end in itertools.pairwise(bounds):
        ring = extend(ring, samples(items), start, end, 80)
    at_once = extend(empty_ring(STEP), samples(items), 0, 150, 200)
    assert alike(extend(ring, samples([]), 150, 150, 80), extend(at_once, samples([]), 150, 150, 80))


def test_of_two_samples_at_one_place_the_last_counts() -> None:
    ring = extend(empty_ring(STEP), samples([(1, 10, 1.0), (1, 10, 2.0)]), 0, 10, 50)
    assert held(ring) == {(1, 10): 2.0}


def test_a_series_without_a_sample_left_is_forgotten_and_comes_back_as_new() -> None:
    """As in AICoE/prometheus-anomaly-detector#163, AICoE/prometheus-anomaly-detector#115."""
    ring = extend(empty_ring(STEP), samples([(1, 10, 1.0), (2, 50, 2.0)]), 0, 50, 30)
    assert list(ring.series) == [1, 2]
    ring = extend(ring, samples([(2, 60, 2.0)]), 50, 60, 30)
    assert list(ring.series) == [2]
    ring = extend(ring, samples([(1, 70, 5.0)]), 60, 70, 30)
    assert list(ring.series) == [1, 2]
    assert held(ring) == {(1, 70): 5.0, (2, 50): 2.0, (2, 60): 2.0}


def test_nothing_at_all_still_moves_time() -> None:
    ring = extend(extend(empty_ring(STEP), samples([]), 0, 20, 30), samples([]), 20, 50, 30)
    assert ring.raw.shape == (0, 3)
    assert list(ring.times) == [30, 40, 50]


def test_the_grid_is_counted_from_the_epoch() -> None:
    assert list(grid(7, 31, 10)) == [10, 20, 30]
    assert list(grid(10, 30, 10)) == [20, 30]
    assert list(grid(30, 30, 10)) == []
