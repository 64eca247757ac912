"""Tables keep to their width, whatever names a cluster has."""

from typing import Any

import click
import pytest

from anomaly.cli.tables import incident_table, latest, span, table
from anomaly.clock import DAY, HOUR, MINUTE, SECOND
from tests.cli.parts import widest
from tests.truth.parts import line


def shown(**more: Any) -> str:
    entry = line("0123456789abcdef", 30, **more)
    entry = {"impact_ratio": 0.18, "evidence": [{"signal": "gpu_temp"}], "signals": ["gpu_temp", "sm_clock"], **entry}
    return click.unstyle(incident_table([entry]))


def test_an_incident_is_one_row() -> None:
    text = shown(node="gpu-17", resolved_at="2026-11-30T10:50:00Z", victims=["gpu-18"])
    assert text == (
        "SINCE (UTC)  FOUND  LASTED  LEVEL  WHERE   CAUSE    IMPACT  VICTIMS  EVIDENCE\n"
        "11-30 10:27  +3m    23m     page   gpu-17  thermal  18%     1        gpu_temp +1"
    )


def test_what_is_open_lost_or_of_unknown_impact_says_so() -> None:
    assert shown(node="gpu-17").splitlines()[1].split()[3] == "open"
    assert shown(node="gpu-17", phase="lost_sight").splitlines()[1].split()[3] == "lost"
    assert " ? " in shown(node="gpu-17", impact_ratio=None)


def test_a_shared_incident_says_how_many_nodes_it_is_on() -> None:
    assert "leaf-2 ×3" in shown(group="leaf-2", nodes=["a", "b", "c"])


@pytest.mark.parametrize("ids", [True, False])
def test_long_names_are_cut_rather_than_the_table_wider(ids: bool) -> None:
    entry = line("0123456789abcdef", 30, node="gpu-node-0017.rack-12.cluster-a.example", cause="memory_ecc")
    entry = {"impact_ratio": 0.18, "evidence": [{"signal": "s" * 60}], "signals": ["b"], **entry}
    text = click.unstyle(incident_table([entry], ids=ids))
    assert widest(text) <= 100
    assert "gpu-node-00" in text and "…" in text
    assert ("0123456789abcdef" in text) == ids


def test_a_table_that_can_be_cut_no_further_keeps_its_headers() -> None:
    text = click.unstyle(table(["AAAA", "BBBB"], [["a" * 50, "b" * 50]], width=12))
    assert text.splitlines()[0].split() == ["AAAA", "BBBB"]
    assert widest(text) <= 12


def test_control_characters_of_a_label_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in click.unstyle(shown(node="gpu\x1b]0;evil\x07"))


def test_levels_are_coloured_and_nothing_else_is() -> None:
    text = incident_table([{"impact_ratio": None, "evidence": [], "signals": [], **line("a", 30, node="page")}])
    assert text.count("\x1b[31m") == 1


def test_the_newest_line_of_an_incident_stands_for_it() -> None:
    lines = [line("b", 40, node="x"), line("a", 30, "warning", "y"), line("a", 31, "critical", "y", onset=None)]
    lines[2]["onset"] = lines[1]["onset"]
    assert [(entry["id"], entry["severity"]) for entry in latest(lines)] == [("a", "critical"), ("b", "critical")]


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (-5, "0s"),
        (999, "1s"),
        (59 * SECOND, "59s"),
        (5 * MINUTE + 15 * SECOND, "5m15s"),
        (HOUR, "1h"),
        (HOUR + 20 * MINUTE + 59 * SECOND, "1h20m"),
        (3 * DAY + 4 * HOUR, "3d4h"),
    ],
)
def test_durations_are_told_in_two_units(duration: int, text: str) -> None:
    assert span(duration) == text
