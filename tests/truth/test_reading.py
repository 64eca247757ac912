"""The truth file, read strictly: every mistake at once, with its place."""

import json
from typing import Any

import pytest

from anomaly.errors import ConfigError
from anomaly.source.simulated import Scenario, make_cluster, place_faults, truth
from anomaly.truth import read_truth
from tests.truth.parts import TEN, at

FAULT: dict[str, Any] = {
    "id": "f1", "type": "thermal_throttle", "scope": "node", "nodes": ["a", "b"], "culprit_nodes": ["a"], "group": None,
    "onset": "2026-11-30T10:00:00Z", "end": "2026-11-30T10:20:00Z", "expect": "node_alert", "max_delay_s": 300,
    "cause_family": "thermal", "effect": 0.2,
}  # fmt: skip


def problems(*faults: Any, **more: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_truth(json.dumps({"faults": list(faults), **more}), "truth.json")
    assert caught.value.exit_code == 3
    return [f"{problem.key}: {problem.what}" for problem in caught.value.problems]


def test_the_documented_form_is_read() -> None:
    decoy = {"type": "checkpoint", "nodes": ["a"], "start": "2026-11-30T10:00:00Z", "end": "2026-11-30T10:01:00Z"}
    found = read_truth(json.dumps({"faults": [FAULT], "decoys": [decoy]}), "truth.json")
    [fault] = found.faults
    assert (fault.onset, fault.deadline, fault.culprits, fault.where) == (TEN, at(5), ("a",), "a")
    assert found.decoys[0].end == at(1)


def test_what_the_simulated_cluster_writes_is_read() -> None:
    cluster = make_cluster(7, 32, 8, 4)
    faults = place_faults(cluster, 7, 6, TEN, at(150))
    written = truth(Scenario(cluster, faults, TEN, at(160)))
    found = read_truth(json.dumps(written), "truth.json")
    assert (len(found.faults), len(found.decoys)) == (6, len(written["decoys"]))


def test_decoys_may_be_left_out_and_other_keys_stay() -> None:
    assert read_truth(json.dumps({"faults": [{**FAULT, "note": "cooling test"}]}), "truth.json").decoys == ()


def test_all_mistakes_are_named_at_once() -> None:
    bad = {**FAULT, "scope": "gpu", "onset": "ten", "max_delay_s": "5m", "nodes": "a"}
    assert problems(bad, {**FAULT, "expect": "page"}) == [
        "faults[0].scope: 'gpu' is none of node, group, job",
        "faults[0].onset: 'ten' is not a time; write one like 2026-11-30T10:00:00Z",
        "faults[0].nodes: must be a list",
        "faults[0].max_delay_s: must be a number, not negative",
        "faults[1].expect: 'page' is none of node_alert, shared_alert, job_alert, ticket, none",
        "faults[1].id: 'f1' stands here twice; every fault needs its own",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"end": "2026-11-30T09:00:00Z"}, "faults[0].end: is before the onset"),
        ({"culprit_nodes": []}, "faults[0].culprit_nodes: is empty; a fault of scope node has a culprit"),
        ({"scope": "group", "nodes": []}, "faults[0].group: a fault of scope group names its group or its nodes"),
        ({"id": 7}, "faults[0].id: must be text"),
        ({"effect": "big"}, "faults[0].effect: must be a number, not negative"),
        ({"nodes": ["a", 3]}, "faults[0].nodes: must hold names only"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    assert problems({**FAULT, **change}) == [said]


def test_a_missing_key_is_named_and_a_misspelt_one_recognised() -> None:
    without = {key: value for key, value in FAULT.items() if key != "onset"}
    assert problems(without) == ["faults[0].onset: is missing"]
    misspelt = {**{key: value for key, value in FAULT.items() if key != "culprit_nodes"}, "culprit_node": ["a"]}
    assert problems(misspelt)[0] == "faults[0].culprit_node: unknown key; did you mean 'culprit_nodes'?"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"fautls": []}', "did you mean 'faults'?"),
        ('{"faults": {}}', "faults: must be a list"),
        ('{"faults": [1]}', "faults[0]: must be an object"),
        ("[" * 100_000, "is not JSON: nested too deep"),
    ],
)
def test_what_is_no_truth_at_all_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_truth(text, "truth.json")
    assert said in str(caught.value)
    assert str(caught.value).startswith("truth.json: 1 problem")
