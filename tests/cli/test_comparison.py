"""The comparison with the truth as a person reads it, against figures worked out by hand."""

import click

from anomaly.cli.comparison import comparison
from tests.cli.parts import widest
from tests.truth.parts import judged, line, throttle


def test_every_figure_of_a_day_is_printed() -> None:
    """A day of 32 nodes: four faults, of which three are found after 4, 6 and 8 minutes, one of them as something else;
    a fellow of the first is blamed, one page and one ticket are about nothing."""
    faults = [throttle("gpu-03", onset, onset + 20) for onset in (60, 120, 180, 240)]
    lines = [
        line("a", 64, node="gpu-03"),
        line("b", 126, "warning", node="gpu-03"),
        line("c", 188, node="gpu-03", cause="power"),
        line("victim", 66, node="gpu-05"),
        line("nothing", 600, node="gpu-20"),
        line("doubt", 700, "warning", node="gpu-21"),
    ]
    text = click.unstyle(comparison(judged(faults, lines, end=24 * 60)))
    assert text.startswith("Against the truth: 3 of 4 faults found, 1 victim blamed, 1 false page and 1 false ticket")
    figures = text.split("\n\n")[-1].splitlines()
    assert figures == [
        "recall 75 % (19 to 99 %), precision 50 % (12 to 88 %), F1 0.60",
        "found after 6m (median), 8m (p90); cause right 2 of 3",
        "4 pages and 2 tickets in all, 1.0 pages a fault",
        "false pages per 100 node-days: 3.12 (95 % interval 0.08 to 17.41) in 32.00 node-days",
        "false tickets per 100 node-days: 3.12 (95 % interval 0.08 to 17.41) in 32.00 node-days",
        # 0.42 x 3/4 found, 0.42 x 1/4 victims, 2 false in 32 node-days: 0.315 / (0.315 + 0.105 + 6.25).
        "precision where faults are as rare as in the field (0.42 per 100 node-days): 5 %, 95 % interval 1 % to 27 %",
    ]
    assert widest(text) <= 110
