"""Habits: what is usual for a row, and what never becomes so."""

import numpy as np

from anomaly.detect.habit import BUCKETS, Habit, bucket_length, close_bucket, no_habit, usual
from anomaly.records import Bools, Floats

BUCKET = 300_000
NAN = float("nan")


def close(habit: Habit, end: int, values: dict[str, float], flagged: str = "", forget: str = "") -> Habit:
    """Close the bucket that ends at BUCKET × `end` with one value per row."""
    keys = tuple(values)
    held, _ = usual(habit, keys, end * BUCKET, BUCKET)
    table: Floats = np.array([[value] * 3 for value in values.values()])

    def marks(names: str) -> Bools:
        return np.array([key in names.split() for key in keys], bool)

    return close_bucket(habit, keys, table, held, marks(flagged), end * BUCKET, BUCKET, marks(forget))


def usually(habit: Habit, key: str, end: int) -> float:
    return float(usual(habit, (key,), end * BUCKET, BUCKET)[0][0])


def lived(buckets: int, value: float = 10.0) -> Habit:
    habit = no_habit()
    for end in range(1, buckets + 1):
        habit = close(habit, end, {"a": value})
    return habit


def test_four_closed_buckets_and_a_newest_one_left_out_make_the_usual() -> None:
    assert np.isnan(usually(lived(4), "a", 4))
    assert usually(lived(5), "a", 5) == 10.0


def test_a_bucket_is_the_median_of_its_steps_and_the_usual_the_median_of_buckets() -> None:
    habit = no_habit()
    for end, values in enumerate([[1.0, 9.0, 2.0], [3.0, NAN, 3.0], [4.0, 4.0, 4.0], [9.0, 9.0, 9.0], [0.0] * 3], 1):
        nothing = np.zeros(1, bool)
        habit = close_bucket(habit, ("a",), np.array([values]), np.full(1, NAN), nothing, end * BUCKET, BUCKET, nothing)
    assert habit.values[0].tolist() == [2.0, 3.0, 4.0, 9.0, 0.0]
    assert usually(habit, "a", 5) == 3.5


def test_the_newest_bucket_does_not_count_so_that_a_ramp_is_no_habit() -> None:
    habit = close(lived(5), 6, {"a": 99.0})
    assert usually(habit, "a", 6) == 10.0


def test_a_flagged_row_keeps_its_habit_for_as_long_as_it_is_flagged() -> None:
    """As in online-ml/river#260."""
    habit = lived(8)
    for end in range(9, 60):
        habit = close(habit, end, {"a": 50.0}, flagged="a")
    assert usually(habit, "a", 60) == 10.0


def test_an_unflagged_change_is_learnt() -> None:
    habit = lived(8)
    for end in range(9, 9 + BUCKETS):
        habit = close(habit, end, {"a": 50.0})
    assert usually(habit, "a", 9 + BUCKETS) == 50.0


def test_a_row_to_forget_starts_a_new_life() -> None:
    habit = close(lived(10), 11, {"a": 50.0}, forget="a")
    assert np.isnan(usually(habit, "a", 11))
    for end in range(12, 17):
        habit = close(habit, end, {"a": 50.0})
    assert usually(habit, "a", 16) == 50.0


def test_a_row_without_samples_keeps_what_it_has() -> None:
    habit = lived(10)
    for end in range(11, 16):
        habit = close(habit, end, {"a": NAN})
    assert usually(habit, "a", 15) == 10.0


def test_a_row_unheard_of_for_the_whole_memory_is_forgotten() -> None:
    habit = lived(6)
    for end in range(7, 40):
        habit = close(habit, end, {"b": 1.0})
    assert habit.keys == ("b",)


def test_rows_may_come_in_any_order_and_new_ones_join() -> None:
    habit = no_habit()
    for end in range(1, 8):
        values = {"a": 1.0, "b": 2.0, "c": 3.0}
        order = ["b", "c", "a"] if end % 2 else ["c", "a", "b"]
        habit = close(habit, end, {key: values[key] for key in order})
    found, _ = usual(habit, ("c", "x", "a", "b"), 7 * BUCKET, BUCKET)
    np.testing.assert_array_equal(found, [3.0, NAN, 1.0, 2.0])


def test_the_memory_does_not_grow() -> None:
    """As in AICoE/prometheus-anomaly-detector#163, AICoE/prometheus-anomaly-detector#115."""
    habit = lived(200)
    assert len(habit.ends) <= BUCKETS + 2


def test_a_bucket_is_ten_steps_and_five_minutes_at_least() -> None:
    assert bucket_length(15_000) == 300_000
    assert bucket_length(60_000) == 600_000
