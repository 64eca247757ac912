"""`anomaly explain` and `anomaly why` on what a service has published."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from anomaly.clock import format_time
from anomaly.store.published import read_incidents
from tests.cli.conftest import OPEN, OVER, Lived
from tests.cli.parts import anomaly, paragraph, widest
from tests.jobs.parts import at


def when(minute: float) -> str:
    return format_time(at(minute))


def incident_id(state: Path, node: str) -> str:
    return next(each.id for each in read_incidents(state / "published") if each.entity.name == node)


def shown(*words: str | Path, state: Path) -> str:
    result = anomaly(*words, "--state", state)
    assert result.exit_code == 0, result.stderr
    assert widest(result.stdout) <= 100
    return result.stdout


def as_json(*words: str | Path, state: Path) -> Any:
    return json.loads(anomaly(*words, "--state", state, "--format", "json").stdout)


# ── explain ──


def test_explain_tells_who_since_when_why_and_what_next(lived: Lived) -> None:
    text = shown("explain", lived.hot, state=lived.open)
    facts = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert f"node {lived.hot}" in facts["where"]
    assert "thermal" in facts["cause"] and "±" in facts["since"]
    assert "still open" in facts["incident"]
    assert facts["level"].split()[1] in ("page:", "ticket:")
    assert "gpu_temp" in facts and "sm_clock" in facts, "evidence"
    assert "  $ nvidia-smi -i 1 -q -d TEMPERATURE,CLOCK,PERFORMANCE" in text
    assert "Next:" in text


def test_a_short_id_is_enough_and_the_end_is_told(lived: Lived) -> None:
    known = incident_id(lived.over, lived.lost)
    text = shown("explain", known[:6], state=lived.over)
    assert f"{known}, resolved 2026-11-30T10:" in text
    assert "gpu_lost" in text and "what gpu_lost (GPU lost) is by itself" in text
    assert text.count("  resolved") == 1


def test_explain_as_json_has_the_incident_its_life_and_commands(lived: Lived) -> None:
    body = as_json("explain", lived.hot, state=lived.over)
    assert body["incident"]["node"] == lived.hot
    assert [line["phase"] for line in body["events"]][-1] == "resolved"
    assert body["commands"][0].startswith("nvidia-smi -i 1")
    assert (body["label"], body["waiting"]) == (None, [])


def test_a_node_that_only_waits_stands_for_what_it_waits_for(lived: Lived) -> None:
    victim = as_json("explain", lived.hot, state=lived.over)["incident"]["victims"][0]
    assert as_json("explain", victim, state=lived.over)["incident"]["node"] == lived.hot


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ffffffff"], "there is no incident 'ffffffff'; the newest are"),
        (["gpu-1"], "did you mean gpu-"),
        ([""], "there is no incident ''"),
    ],
)
def test_what_explain_does_not_know_it_answers_with_what_there_is(
    words: Sequence[str], said: str, lived: Lived
) -> None:
    result = anomaly("explain", *words, "--state", lived.over)
    assert result.exit_code == 2
    assert said in paragraph(result)


def test_an_id_with_a_slip_is_put_right(lived: Lived) -> None:
    known = incident_id(lived.over, lived.hot)
    slip = known[:-1] + ("0" if known[-1] != "0" else "1")
    assert f"did you mean {known}" in paragraph(anomaly("explain", slip, "--state", lived.over))


def test_where_nothing_is_published_it_says_so(tmp_path: Path) -> None:
    for words in (["explain", "x"], ["why", "x"], ["close", "x"], ["mark", "x", "--label", "real"], ["offenders"]):
        result = anomaly(*words, "--state", tmp_path)
        assert result.exit_code == 1
        assert "nothing is published" in paragraph(result)


# ── why ──


def test_why_a_node_was_paged(lived: Lived) -> None:
    body = as_json("why", lived.lost, "--at", when(32), state=lived.over)
    assert "a page for it was open" in body["verdict"]
    assert [line["cause"] for line in body["incidents"]] == ["gpu_lost"]
    assert "speaks in its incident" in {each["became"] for each in body["findings"]}
    text = shown("why", lived.lost, "--at", when(32), state=lived.over)
    assert "culprit" in text and "Next: anomaly explain" in text


def test_why_a_victim_was_not(lived: Lived) -> None:
    told = as_json("explain", lived.hot, state=lived.over)["incident"]
    body = as_json("why", told["victims"][0], "--at", when(35), state=lived.over)
    assert f"it only waited for node {lived.hot}" in body["verdict"]


def test_why_nobody_was_told_before_it_had_lasted(lived: Lived) -> None:
    fired = as_json("explain", lived.hot, state=lived.over)["incident"]["fired_at"]
    before = format_time(at(0) + (int(fired[14:16]) - 1) * 60_000)
    body = as_json("why", lived.hot, "--at", before, state=lived.over)
    assert body["verdict"].startswith("not yet: ")
    became = {each["became"] for each in body["findings"]}
    assert became and all(
        each == "not for long enough yet" or each.startswith("set aside, settling") for each in became
    )


def test_why_at_a_quiet_time_names_what_came_closest(lived: Lived) -> None:
    body = as_json("why", lived.hot, "--at", when(10), state=lived.over)
    assert body["verdict"].startswith("nobody was told: nothing")
    assert (body["incidents"], body["findings"], body["coverage"]) == ([], [], 1.0)


def test_why_says_layer_by_layer_how_the_node_stands(lived: Lived) -> None:
    body = as_json("why", lived.lost, "--at", when(OPEN), state=lived.open)
    assert {layer: found["verdict"] for layer, found in body["layers"].items()} == {
        "hardware": "faulty",
        "system": "healthy",
        "training": "healthy",
    }
    text = anomaly("why", lived.lost, "--at", when(OPEN), "--state", lived.open).stdout
    assert "\nlayers: hardware faulty, system healthy, training healthy" in text


def test_without_a_time_the_newest_tick_is_meant(lived: Lived) -> None:
    assert as_json("why", lived.hot, state=lived.over)["tick"] == when(OVER)


@pytest.mark.parametrize(
    ("minute", "said"), [(600, "has not been judged yet: scored up to"), (-600, "nothing was judged at")]
)
def test_why_refuses_a_time_that_was_not_judged(minute: int, said: str, lived: Lived) -> None:
    result = anomaly("why", lived.hot, "--at", when(minute), "--state", lived.over)
    assert result.exit_code == 2
    assert said in paragraph(result)


def test_why_knows_near_names(lived: Lived) -> None:
    result = anomaly("why", lived.hot + "0", "--state", lived.over)
    assert (result.exit_code, lived.hot in paragraph(result)) == (2, True)
