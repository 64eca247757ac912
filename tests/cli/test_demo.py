"""The demo: the whole thing, always the same, at most 100 columns wide."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from anomaly.cli.demo import LENGTH, START, Demo
from anomaly.cli.demo import _json as as_json
from anomaly.truth import judge, read_truth
from tests.cli.parts import anomaly, golden, widest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo")]


class Shown(NamedTuple):
    folder: Path
    out: str
    alerts: str
    table: str
    truth: str


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """One demo for all: over what an earlier one left, beside a file that is none of its business."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "var/demo/published").mkdir(parents=True)
    (folder / "var/demo/anomaly.duckdb").write_text("left by a version long ago")
    (folder / "var/demo/published/manifest.json").write_text("{}")
    (folder / "var/demo/mine.txt").write_text("mine")
    with contextlib.chdir(folder):
        result = anomaly("demo")
        assert result.exit_code == 0, result.stderr
        _, alerts, _, table, truth, *_ = result.stdout.split("\n\n")
        yield Shown(folder, result.stdout, alerts, table, truth)


def test_the_table_of_incidents_is_as_recorded(demo: Shown) -> None:
    """A changed table is a changed verdict: say so in the changelog."""
    golden("demo_table.txt", demo.table + "\n")


def test_nothing_but_the_json_is_wider_than_a_hundred_columns(demo: Shown) -> None:
    assert widest(demo.table) <= 100
    assert widest(demo.out.replace(demo.alerts, "")) <= 110


def test_alertmanagers_json_holds_one_alert_of_the_last_fault_firing_and_the_ended_ones_resolved(demo: Shown) -> None:
    alerts = json.loads(demo.alerts)
    assert {alert["labels"]["cluster"] for alert in alerts} == {"demo"}
    ends = [alert["endsAt"] > alerts[-1]["startsAt"] for alert in alerts]
    assert ends[-1], "the newest is firing"
    assert not all(ends), "older ones have ended"


def test_every_fault_is_found_and_no_victim_blamed(demo: Shown) -> None:
    assert demo.truth.startswith("Against the truth: 6 of 6 faults found, no victim blamed")


def test_what_it_left_is_readable_without_it_and_others_files_stay(demo: Shown) -> None:
    state = demo.folder / "var/demo"
    assert "Next: anomaly incidents --state var/demo" in demo.out
    listed = json.loads(anomaly("incidents", "--state", state, "--format", "json").stdout)
    lines = [json.loads(line) for line in (state / "incidents.jsonl").read_text().splitlines()]
    assert {incident["id"] for incident in listed} == {line["id"] for line in lines}
    assert len(json.loads((state / "truth.json").read_text())["faults"]) == 6
    assert (state / "mine.txt").read_text() == "mine"


def test_as_json_it_is_one_object() -> None:
    report = judge(read_truth('{"faults": []}', "truth.json"), [], start=START, end=START + LENGTH, nodes=32)
    found = Demo(Path("demo.yaml"), Path("var/demo"), START + LENGTH, [], report, "[]", START)
    body = json.loads(as_json(found))
    assert (body["start"], body["end"]) == ("2026-06-01T07:30:00Z", "2026-06-01T10:00:00Z")
    assert (body["incidents"], body["alerts"], body["truth"]["pages"]) == ([], [], 0)
