"""XID: a gauge that keeps the last code, of which only the changes are events."""

from collections.abc import Sequence

import numpy as np
import pytest

from anomaly.clock import MINUTE
from anomaly.detect.codes import Seen, judge
from anomaly.panels import Panel
from tests.features.builders import NAN, STEP, panel, signal

CODES = signal("xid").codes
assert CODES is not None
KEY = "node/a|0"


def scores(
    values: Sequence[float], first: int = 0, seen: dict[str, Seen] | None = None, watched: int = 0
) -> list[float]:
    assert CODES is not None
    found: list[float] = judge(_panel(values, first), CODES, seen or {}, np.array([watched]))[0][0].tolist()
    return found


def _panel(values: Sequence[float], first: int = 0) -> Panel:
    return panel("xid", [("a", "0")], [values], first)


def test_a_change_to_a_hard_code_is_an_event() -> None:
    assert scores([0, 0, 79, 79], watched=2 * STEP) == [0, 0, 1, 1]


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 68, 94])
def test_application_and_contained_codes_are_none(code: int) -> None:
    assert scores([0, code, code]) == [0, 0, 0]


def test_79_stays_for_as_long_as_the_gauge_shows_it_and_48_for_half_an_hour() -> None:
    steps = 31 * MINUTE // STEP
    assert scores([0] + [79] * steps)[-1] == 1
    found = scores([0] + [48] * steps)
    assert found[1] == 1
    assert found[-1] == 0
    assert sum(found) == 30 * MINUTE / STEP


def test_back_to_zero_is_the_end() -> None:
    assert scores([0, 79, 79, 0, 0]) == [0, 1, 1, 0, 0]


def test_a_code_that_stood_there_when_watching_began_is_no_event() -> None:
    assert scores([79, 79, 79], watched=STEP) == [0, 0, 0]


def test_a_code_with_which_the_series_begins_later_is_one() -> None:
    """Exporters that leave the series out until the first error."""
    assert scores([NAN, NAN, NAN, 79, 79], watched=STEP)[-2:] == [1, 1]


def test_no_sample_is_no_verdict_and_forgets_nothing() -> None:
    np.testing.assert_array_equal(scores([0, 79, NAN, NAN, 79]), [0, 1, NAN, NAN, 1])


def test_one_code_after_another_is_an_event_of_its_own() -> None:
    """As in aws/random-cut-forest-by-aws#410, aws/random-cut-forest-by-aws#411, aws/random-cut-forest-by-aws#359."""
    assert scores([0, 31, 48, 48]) == [0, 0, 1, 1]
    assert scores([0, 79, 45, 45]) == [0, 1, 0, 0]


def test_a_code_seen_before_a_restart_is_not_seen_again() -> None:
    """State from before, panel with or without the old samples: the same verdicts, and the same state."""
    assert CODES is not None
    values = [0.0, 0, 48, 48, 48, 48, 0, 48, 48]
    at_once, state_at_once = judge(_panel(values), CODES, {}, np.zeros(2, np.int64))
    for cut in range(1, len(values)):
        before, seen = judge(_panel(values[:cut]), CODES, {}, np.zeros(2, np.int64))
        after, state = judge(_panel(values, first=cut), CODES, seen, np.zeros(2, np.int64))
        np.testing.assert_array_equal(np.concatenate([before, after], axis=1), at_once)
        assert state == state_at_once


def test_only_what_shows_a_code_is_remembered() -> None:
    assert CODES is not None
    _, seen = judge(panel("xid", [("a", "0"), ("b", "0")], [[0, 79], [0, 0]]), CODES, {}, np.zeros(2, np.int64))
    assert seen == {KEY: Seen(79, 2 * STEP, True)}
