"""Rates, intervals and what they mean in the field."""

import json
import math

import pytest

from anomaly.truth.figures import binomial_interval, poisson_interval
from tests.truth.parts import judged, line, throttle


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(0, 0.0, 3.6889), (1, 0.0253, 5.5716), (3, 0.6187, 8.7673), (10, 4.7954, 18.3904), (100, 81.3640, 121.6268)],
)
def test_poisson_intervals_are_those_of_the_published_tables(count: int, low: float, high: float) -> None:
    """Garwood 1936: half the chi-square quantiles with 2n and 2n + 2 degrees of freedom."""
    assert poisson_interval(count) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("count", "trials", "low", "high"),
    [(0, 10, 0.0, 0.3085), (5, 10, 0.1871, 0.8129), (10, 10, 0.6915, 1.0), (1, 20, 0.0013, 0.2487), (1, 1, 0.025, 1)],
)
def test_binomial_intervals_are_those_of_the_published_tables(count: int, trials: int, low: float, high: float) -> None:
    """Clopper and Pearson 1934: quantiles of the beta distribution; for all of n, the n-th root of 0.025."""
    assert binomial_interval(count, trials) == pytest.approx((low, high), abs=1e-4)


def test_rates_are_per_hundred_node_days() -> None:
    report = judged([], [line("a", 20, node="gpu-20")], end=24 * 60)
    rate = report.rate(1)
    assert report.node_days == 32
    assert rate.count == 1
    assert rate.per_100_node_days == pytest.approx(3.125)
    assert rate.high == pytest.approx(5.5716 * 3.125, abs=1e-3)


def test_nothing_to_stand_on_gives_no_figure() -> None:
    report = judged([], [])
    assert (report.recall, report.precision, report.f1, report.cause_accuracy) == (None, None, None, None)
    assert (report.recall_interval, report.precision_interval) == (None, None)
    assert report.delay_seconds(0.5) is None
    assert report.precision_in_the_field == (None, None, None)


def test_precision_in_the_field_falls_with_rare_faults() -> None:
    """One false alert in 32 node-days beside a found fault: half right here, one in eight where faults are rare."""
    report = judged([throttle(onset=30)], [line("a", 34, node="gpu-03"), line("b", 90, node="gpu-20")], end=24 * 60)
    at, worst, best = report.precision_in_the_field
    assert report.precision == 0.5
    assert at == pytest.approx(0.42 / (0.42 + 3.125))
    assert worst is not None and best is not None and at is not None and worst < at < best


def test_victims_come_with_faults_not_with_time() -> None:
    report = judged([throttle(onset=30)], [line("a", 34, node="gpu-03"), line("b", 35, node="gpu-05")])
    at, _, best = report.precision_in_the_field
    assert at == pytest.approx(0.5)
    assert best == pytest.approx(0.5)


def test_delays_are_median_and_ninetieth_percentile_of_the_found() -> None:
    faults = [throttle("gpu-03", onset, onset + 20) for onset in range(0, 300, 30)]
    lines = [line(f"a{i}", 30 * i + 1 + i * 0.5, node="gpu-03") for i in range(10)]
    report = judged(faults, lines, end=400)
    assert (report.delay_seconds(0.5), report.delay_seconds(0.9)) == (180, 300)


def test_the_report_is_plain_json() -> None:
    lines = [line("a", 34, node="gpu-03"), line("b", 35, "warning", node="gpu-05"), line("c", 90, node="gpu-20")]
    body = judged([throttle(onset=30)], lines).to_json()
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert (body["found"], body["victims_blamed"], body["false_pages"], body["false_tickets"]) == (1, 1, 1, 0)
    assert (body["pages"], body["tickets"], body["pages_per_fault"]) == (2, 1, 2)
    assert (body["recall"], body["precision"], body["f1"]) == (1.0, pytest.approx(1 / 3), 0.5)
    assert body["recall_interval"] == pytest.approx([0.025, 1.0])
    assert body["precision_interval"] == pytest.approx([0.0084, 0.9057], abs=1e-4)
    assert body["delay_seconds"] == {"median": 240, "p90": 240}
    assert body["outcomes"][0]["by"]["incident"] == "a"
    assert {wrong["kind"] for wrong in body["wrong"]} == {"victim", "false"}
    assert math.isclose(body["per_100_node_days"]["false_pages"]["rate"], 100 / report_days(body))


def report_days(body: dict[str, float]) -> float:
    return body["node_days"]
