"""VUS-PR as published: small surfaces worked out by hand, and the published figure of a detector on public data."""

import csv

import numpy as np
import pytest

from anomaly.records import Floats
from tests.needs import public_data
from tests.quality.multivariate import STEPS, read
from tests.quality.vus import period, vus_pr


def labels(*places: int, n: int = 10) -> np.ndarray:
    out = np.zeros(n, bool)
    out[list(places)] = True
    return out


def test_without_tolerance_it_is_average_precision_by_rank() -> None:
    """Two events, ranks: hit, miss, hit. Recall 1/2 of half the events at precision 1, then all at precision 2/3."""
    score = np.array([9.0, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    assert vus_pr(labels(0, 2), score, window=0, thresholds=10) == pytest.approx(0.25 * 1 + 0.75 * 2 / 3)


def test_a_perfect_score_is_one_where_nothing_is_tolerated() -> None:
    assert vus_pr(labels(4, 5), labels(4, 5).astype(float), window=0, thresholds=10) == 1.0


def test_a_near_miss_counts_as_much_as_its_distance_says() -> None:
    """Width 2 reaches one point on either side, worth sqrt(1 - 1/2) each. One alarm just beside a single event, then
    the event: of 1 + 0.7071 / 2 that could be found 0.7071 at precision 0.7071, then all at (1 + 0.7071) / 2."""
    score = np.zeros(9)
    score[5], score[4] = 2.0, 1.0
    near = np.sqrt(0.5)
    first = near / (1 + near / 2)
    narrow = 0.5  # widths 0 and 1 reach nobody: the event is found second, at precision 1/2
    wide = first * near + (1 - first) * (1 + near) / 2
    assert vus_pr(labels(4, n=9), score, window=2, thresholds=9) == pytest.approx((narrow + narrow + wide) / 3)


def test_events_that_are_not_met_at_all_take_recall_away() -> None:
    """One of two events of the same length: recall 1/2 times half of the events met; the other comes last."""
    score = np.array([5.0, 0, 0, 0, 0, 0, 0, 0, 0, -1])
    all_last = vus_pr(labels(0, 9), score, window=0, thresholds=10)
    assert all_last == pytest.approx(0.25 * 1 + 0.75 * 2 / 10)


@pytest.mark.parametrize("cycle", [24, 60])
def test_the_period_of_a_cycle_is_its_length(cycle: int) -> None:
    noise = np.random.default_rng(1).normal(0, 0.05, 3000)
    assert period(np.sin(2 * np.pi * np.arange(3000) / cycle) + noise) == pytest.approx(cycle, abs=1)
    assert period(np.ones(3000)) == 125


def copod(rows: Floats) -> Floats:
    """COPOD (Li et al., 2020), which has no parameters, on rows standardised one by one as the published run did."""
    rows = (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True, ddof=1)
    left, right = (-np.log(_shares(side)) for side in (rows, -rows))
    centred = rows - rows.mean(axis=0)
    skew = np.sign((centred**3).mean(axis=0))
    tails = np.where(skew == 0, left + right, np.where(skew > 0, right, left))
    return np.asarray(np.maximum(tails, (left + right) / 2).sum(axis=1))


def _shares(rows: Floats) -> Floats:
    out = np.empty_like(rows)
    for column in range(rows.shape[1]):
        out[:, column] = np.searchsorted(np.sort(rows[:, column]), rows[:, column], side="right") / len(rows)
    return out


def test_it_gives_the_published_figures() -> None:
    folder = public_data("tsb_ad_published")
    with (folder / "multi_mergedTable_VUS-PR.csv").open(newline="") as table:
        known = {row["file"]: float(row["COPOD"]) for row in csv.DictReader(table)}
    with (folder / "smd_mapping.csv").open(newline="") as table:
        pairs = [(row["smd_machine"], known[row["tsb_file"]]) for row in csv.DictReader(table)]
    here = [(public_data("smd8") / "open" / f"{machine}.parquet", figure) for machine, figure in pairs]
    compared = [(path, figure) for path, figure in here if path.exists()]
    assert compared
    for path, figure in compared:
        file = read(path, STEPS["smd8"])
        rows = file.values[:, file.learnt :].T
        assert vus_pr(file.labels, copod(rows), period(rows[:, 0])) == pytest.approx(figure, abs=1e-9)
