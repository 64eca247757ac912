"""Runs: how long past the boundary means something, and how long below it is the end."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.clock import HOUR, MINUTE, Ms
from anomaly.detect.runs import Run, advance, finding
from anomaly.detect.scored import Profile, Scored
from anomaly.records import Entity

STEP: Ms = 30_000
NAN = float("nan")
SOFT = Profile(
    "gpu_temp", "peers", "high", "celsius", "thermal", "thermal", False, True, 3 * MINUTE, 6 * MINUTE, 3, STEP
)
FACT = replace(SOFT, detector="codes", hard=True, persist=0, clear=0, least=1)
A = Entity("node", "a")


def scored(values: list[float], profile: Profile = SOFT) -> Scored:
    score = np.array([values], float)
    times = STEP * np.arange(1, len(values) + 1, dtype=np.int64)
    return Scored(profile, ("a|0",), (A,), ("0",), times, score, score * 10, np.full(score.shape, 7.0))


def run_of(values: list[float], profile: Profile = SOFT) -> Run | None:
    return advance({}, scored(values, profile), 0, len(values)).get("a|0")


def confirmed(values: list[float], profile: Profile = SOFT) -> bool:
    run = run_of(values, profile)
    return run is not None and run.confirmed is not None


def test_three_minutes_past_the_boundary_mean_something() -> None:
    assert not confirmed([2.0] * 6)
    assert confirmed([2.0] * 7)


def test_the_onset_is_the_first_score_past_the_boundary() -> None:
    run = run_of([0.2, 0.9, *[2.0] * 7])
    assert run is not None
    assert (run.start, run.confirmed) == (3 * STEP, 9 * STEP)


def test_one_sample_below_is_forgiven_and_half_are_not() -> None:
    assert confirmed([2.0, 2, 2, 0.5, 2, 2, 2, 2])
    assert not confirmed([2.0, 0.5] * 10)


def test_a_missing_sample_neither_confirms_nor_heals() -> None:
    assert confirmed([2.0, 2, NAN, NAN, NAN, NAN, 2.0])
    assert not confirmed([2.0, 2, *[NAN] * 30])
    assert confirmed([*[2.0] * 7, *[NAN] * 200])


def test_a_fact_needs_one_sample() -> None:
    assert confirmed([0.0, 1.0], FACT)


def test_a_device_that_answers_in_between_is_not_gone() -> None:
    gone = replace(SOFT, detector="lost", hard=True, persist=45_000, clear=MINUTE, least=2)
    assert not confirmed([1.0, 0.0, 1.0], gone)
    assert confirmed([1.0, 0.0, 1.0, 1.0, 1.0], gone)


def test_six_minutes_below_are_the_end() -> None:
    fault = [2.0] * 8
    assert confirmed([*fault, *[0.1] * 12])
    assert not confirmed([*fault, *[0.1] * 13])


def test_a_relapse_starts_the_end_again() -> None:
    fault = [2.0] * 8
    assert confirmed([*fault, *[0.1] * 8, 2.0, 2.0, 2.0, *[0.1] * 12])
    assert not confirmed([*fault, *[0.1] * 8, 2.0, 2.0, 2.0, *[0.1] * 16])


def test_a_single_relapse_is_forgiven() -> None:
    assert not confirmed([*[2.0] * 8, *[0.1] * 6, 2.0, *[0.1] * 8])


def test_a_fault_that_flaps_stays_one() -> None:
    assert confirmed([*[2.0] * 8, *([0.1] * 4 + [2.0] * 3) * 12])


def test_an_unconfirmed_run_without_a_sample_for_an_hour_is_forgotten() -> None:
    values = [2.0, 2.0, *[NAN] * (HOUR // STEP - 1)]
    assert run_of(values) is not None
    assert run_of([*values, NAN, NAN]) is None


def test_the_finding_says_what_was_seen_at_the_peak() -> None:
    run = run_of([2.0, 2, 2, 5.0, 2, 2, 2, 2])
    assert run is not None
    found = finding(run, SOFT, "thermal", "")
    assert (found.peak, found.score, found.observed, found.expected) == (5.0, 2.0, 50.0, 7.0)
    assert (found.onset, found.confirmed, found.last) == (STEP, 7 * STEP, 8 * STEP)


score_lists = st.lists(st.sampled_from([NAN, 0.0, 0.5, 0.99, 1.0, 3.0]), min_size=1, max_size=60)


@given(score_lists, st.lists(st.integers(1, 59), max_size=6))
@settings(max_examples=120, deadline=None)
def test_in_pieces_is_at_once(values: list[float], cuts: list[int]) -> None:
    whole = scored(values)
    bounds = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    runs: dict[str, Run] = {}
    for first, last in itertools.pairwise(bounds):
        runs = advance(runs, whole, first, last)
    assert runs == advance({}, whole, 0, len(values))


@given(score_lists)
@settings(max_examples=120, deadline=None)
def test_nothing_is_found_without_enough_real_samples_past_the_boundary(values: list[float]) -> None:
    run = run_of(values)
    if run is not None and run.confirmed is not None:
        assert sum(value >= 1.0 for value in values) >= SOFT.least
        assert run.confirmed - run.start >= SOFT.persist


@pytest.mark.parametrize("count", [0, 1])
def test_a_row_that_vanished_from_the_panel_keeps_its_run(count: int) -> None:
    runs = advance({}, scored([2.0] * 8), 0, 8)
    other = replace(scored([0.0]), keys=("b|0",) * 1)
    after = advance(runs, other, 0, count)
    assert after == runs
