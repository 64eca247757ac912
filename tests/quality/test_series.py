"""Our kernels on plain series: they see a step, look at nothing that comes later, and need no tool of their own."""

import numpy as np
import pytest

from anomaly.clock import MINUTE
from anomaly.records import Floats
from tests.needs import public_tools
from tests.quality.multivariate import File, figures
from tests.quality.nab import CLEAR, alarms, judged, scorer
from tests.quality.nab import File as NabFile
from tests.quality.plain import PLAIN, windows
from tests.quality.series import forest_scores, scaled, shifts

LEARNT, STEPS = 1500, 2400


def metrics(event: bool = True) -> Floats:
    """Four noisy metrics that have been at 0 and at 1 before; two of them step up for half an hour at 2000."""
    values = np.random.default_rng(3).normal(0.5, 0.02, (4, STEPS))
    values[:, 10], values[:, 20] = 0.0, 1.0
    if event:
        values[:2, 2000:2030] += 0.4
    return values


def test_a_step_is_past_the_boundary_and_noise_is_not() -> None:
    score = shifts(scaled(metrics(), LEARNT), MINUTE).score
    assert (score[:2, 2000:2030] >= 1.0).mean() > 0.8
    assert np.nanmax(score[2:, :]) < 1.0
    assert np.isnan(score[:, :30]).all(), "nothing is usual before four buckets are closed"


def test_nothing_later_changes_what_was_said() -> None:
    calm, struck = shifts(scaled(metrics(False), LEARNT), MINUTE), shifts(scaled(metrics(), LEARNT), MINUTE)
    np.testing.assert_array_equal(calm.score[:, :2000], struck.score[:, :2000])
    for name, judge in PLAIN.items():
        one, other = judge(metrics(False).T, LEARNT), judge(metrics().T, LEARNT)
        np.testing.assert_array_equal(one[:2000], other[:2000], err_msg=name)


def test_the_forest_points_at_the_event() -> None:
    score = forest_scores(shifts(scaled(metrics(), LEARNT), MINUTE).change, LEARNT)
    assert np.nanmin(score[2006:2028]) > np.nanquantile(score[LEARNT:1990], 0.99)
    assert np.isnan(score[:40]).all()


def test_every_detector_gets_a_figure_and_random_the_least() -> None:
    labels = np.zeros(STEPS - LEARNT, bool)
    labels[2000 - LEARNT : 2030 - LEARNT] = True
    found = figures(File("made", metrics(), LEARNT, labels, MINUTE))
    assert set(PLAIN) < set(found)
    assert all(0.0 <= figure <= 1.0 for figure in found.values())
    assert min(found, key=lambda who: found[who]) == "random"


def test_windows_end_at_their_own_step() -> None:
    rows = windows(np.arange(5.0), 3)
    np.testing.assert_array_equal(rows[[0, 4]], [[0, 0, 0], [2, 3, 4]])


def test_an_alarm_is_one_step_and_the_next_waits_for_calm() -> None:
    score = np.zeros(60)
    score[[10, 11, 10 + CLEAR, 40]] = 2.0
    assert np.flatnonzero(alarms(score, 1.0)).tolist() == [10, 40]


def test_a_threshold_comes_from_the_other_files() -> None:
    """Four files whose detector is right at 5 and cries wolf at 3; a fifth, where 3 would have been right, gets 5."""
    nab = scorer(public_tools("nab_score.py"))
    files = [_nab_file(name, 5.0) for name in ("one", "two", "three", "four")] + [_nab_file("odd", 3.0)]
    found = judged(files, "it", nab)
    assert found.per_file["one"] == pytest.approx(1.0, abs=0.02), "found at the beginning of its window"
    assert found.per_file["odd"] == -1.0, "missed"
    assert judged(files[:4], "it", nab).score == pytest.approx(100.0, abs=2.0)


def _nab_file(name: str, height: float) -> NabFile:
    import pandas as pd

    times = list(pd.date_range("2026-01-01", periods=1000, freq="5min"))
    score = np.zeros(1000)
    score[600] = height
    score[200:600:45] = height - 2.0
    window = [[str(times[600]), str(times[650])]]
    return NabFile(name, times, np.zeros(1000), window, {"it": score})
