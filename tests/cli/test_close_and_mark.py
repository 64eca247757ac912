"""`anomaly close` and `anomaly mark`: notes for whoever owns the database, and what comes of them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from anomaly.jobs.carry import Live
from anomaly.jobs.parts import INBOX, open_pipeline_store
from anomaly.jobs.publish import publish
from anomaly.jobs.score import score
from tests.cli.conftest import OPEN, Lived
from tests.cli.parts import anomaly, paragraph
from tests.jobs.parts import T0, at, collect_to, score_to, small_cluster

Copy = Callable[[Path], Path]


def notes(state: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted((state / "inbox").glob("*.json"))]


def test_a_note_is_left_and_said_when_it_takes_effect(lived: Lived, copied: Copy) -> None:
    state = copied(lived.open)
    told = json.loads(anomaly("explain", lived.hot, "--state", state, "--format", "json").stdout)["incident"]
    result = anomaly("close", told["id"][:8], "--reason", "fan is known", "--state", state)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"{told['id']} ({lived.hot}, thermal) ends with the next tick" in result.stderr
    (note,) = notes(state)
    assert note["kind"] == "close"
    payload = note["payload"]
    assert isinstance(payload, dict)
    assert (payload["incident"], payload["note"]) == (told["id"], "fan is known")
    assert "for the next tick: close" in anomaly("explain", told["id"], "--state", state).stdout
    again = anomaly("close", told["id"], "--state", state)
    assert (again.exit_code, "is to be closed already" in paragraph(again)) == (2, True)


def test_what_has_ended_cannot_be_closed_but_labelled(lived: Lived, copied: Copy) -> None:
    state = copied(lived.over)
    result = anomaly("close", _id(state, lived.hot), "--state", state)
    assert (result.exit_code, "has ended already: resolved" in paragraph(result)) == (2, True)
    assert anomaly("mark", _id(state, lived.hot), "--label", "real", "--state", state).exit_code == 0
    assert [note["kind"] for note in notes(state)] == ["mark"]


@pytest.mark.parametrize("words", [["--label", "bogus"], []])
def test_a_label_is_one_of_four(words: list[str], lived: Lived) -> None:
    result = anomaly("mark", "x", *words, "--state", lived.over)
    assert result.exit_code == 2
    assert "--label" in paragraph(result)


def test_an_inbox_that_cannot_be_written_says_so(lived: Lived, copied: Copy) -> None:
    state = copied(lived.over)
    (state / "inbox").write_text("a file")
    result = anomaly("mark", _id(state, lived.hot), "--label", "real", "--state", state)
    assert (result.exit_code, "nothing can be left in" in paragraph(result)) == (1, True)


def test_closed_and_labelled_shows_in_explain_incidents_and_report(tmp_path: Path) -> None:
    parts = small_cluster(tmp_path, OPEN + 3)
    with open_pipeline_store(parts.pipeline) as store:
        collect_to(parts, store, at(OPEN + 3))
        score_to(parts, store, at(OPEN))
        publish(store, parts.pipeline, at(OPEN))
        first, second = (each.id for each in store.incidents())
        assert anomaly("close", first, "--reason", "swapped", "--state", tmp_path).exit_code == 0
        assert anomaly("mark", first, "--label", "false", "--state", tmp_path).exit_code == 0
        score(parts, store, Live(), (), at(OPEN + 3), start=T0, end=at(OPEN + 3), inbox=tmp_path / INBOX)
        publish(store, parts.pipeline, at(OPEN + 3))
    text = anomaly("explain", first, "--state", tmp_path).stdout
    assert "closed by a person" in text and "asked to close it: swapped" in text and "labelled it false" in text
    assert second in anomaly("incidents", "--open", "--state", tmp_path).stdout
    assert first not in anomaly("incidents", "--open", "--state", tmp_path).stdout
    report = json.loads(anomaly("report", "--state", tmp_path, "--format", "json").stdout)
    assert report["labels"] == {"false": 1, "none": 1}
    assert sum(each["a_week"]["count"] for each in report["false"].values()) == 1
    assert report["dropped"]["closed"] > 0
    offenders = json.loads(anomaly("offenders", "--state", tmp_path, "--format", "json").stdout)
    assert [len(each["ids"]) for each in offenders] == [1], "what was labelled false counts for nobody"
    node = json.loads(anomaly("explain", first, "--state", tmp_path, "--format", "json").stdout)["incident"]["node"]
    why = anomaly("why", node, "--state", tmp_path).stdout
    assert "set aside, closed: a person has closed the incident that it belongs to" in why


def _id(state: Path, node: str) -> str:
    body = json.loads(anomaly("explain", node, "--state", state, "--format", "json").stdout)
    return str(body["incident"]["id"])
