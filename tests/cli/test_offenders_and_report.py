"""`anomaly offenders` and `anomaly report`."""

import json
from pathlib import Path

import pytest

from anomaly.store import Store, TickRecord, open_store
from tests.cli.conftest import Lived
from tests.cli.parts import anomaly, widest, write
from tests.store.parts import T0, incident

PIPELINE = """\
cluster: small
simulate: {seed: 3, nodes: 8}
packs: [node]
store: {path: var/anomaly.duckdb}
budget: {false_pages_per_week: 1}
"""


def test_offenders_count_as_culprit_member_and_victim(lived: Lived) -> None:
    """As in leptonai/gpud#1072, leptonai/gpud#108."""
    found = json.loads(anomaly("offenders", "--state", lived.over, "--format", "json").stdout)
    assert {each["node"]: (each["incidents"], each["recovered"], each["causes"]) for each in found} == {
        lived.hot: (1, 1, {"thermal": 1}),
        lived.lost: (1, 1, {"gpu_lost": 1}),
    }
    result = anomaly("offenders", "--state", lived.over)
    assert result.stdout.splitlines()[0].split()[:3] == ["NODE", "CULPRIT", "PAGES"]
    assert f"of {12} nodes" in result.stderr
    assert widest(result.stdout) <= 100


def store_with(folder: Path, *incidents: object) -> None:
    with open_store(folder / "anomaly.duckdb") as store:
        _tick(store, folder, incidents)


def _tick(store: Store, folder: Path, incidents: tuple[object, ...]) -> None:
    store.commit_tick(TickRecord(T0 + 120_000, "", incidents=incidents))  # type: ignore[arg-type]
    store.publish(folder / "published")


def test_the_worst_come_first_and_groups_blame_nobody(tmp_path: Path) -> None:
    from anomaly.records import Entity, Severity

    group = {"scope": "group", "entity": Entity("rack", "r1"), "nodes": ("gpu-17", "gpu-19"), "victims": ()}
    store_with(
        tmp_path,
        incident("a", severity=Severity.CRITICAL),
        incident("b"),
        incident("c", entity=Entity("node", "gpu-20"), nodes=("gpu-20",)),
        incident("d", entity=Entity("node", "gpu-21"), nodes=("gpu-21",), severity=Severity.INFO),
        incident("e", **group),
    )
    found = json.loads(anomaly("offenders", "--state", tmp_path, "--format", "json").stdout)
    assert [(each["node"], each["incidents"], each["pages"], each["member"]) for each in found] == [
        ("gpu-17", 2, 1, 1),
        ("gpu-20", 1, 0, 0),
        ("gpu-19", 0, 0, 1),
    ]
    assert found[0]["victim"] == 0
    assert anomaly("offenders", "--limit", "1", "--state", tmp_path).stdout.count("gpu-") == 1


def test_a_period_without_incidents_says_so(tmp_path: Path) -> None:
    store_with(tmp_path)
    assert anomaly("offenders", "--state", tmp_path).stdout.startswith("no node had an incident in the 28 days")


def test_a_report_says_what_was_told_and_what_was_set_aside(lived: Lived) -> None:
    result = anomaly("report", "--state", lived.over)
    assert result.exit_code == 0, result.stderr
    assert widest(result.stdout) <= 100
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line}
    assert rows["pages"][1] == "2" or rows["tickets"][1] != "0"
    assert "12 nodes" in result.stdout and "2 incidents, 0 open now" in result.stdout
    assert "that nobody has labelled" in result.stdout
    assert "settling" in rows, "reasons with their words"


def test_a_report_says_how_the_nodes_stand_layer_by_layer(lived: Lived) -> None:
    layers = json.loads(anomaly("report", "--state", lived.open, "--format", "json").stdout)["layers"]
    assert list(layers) == ["hardware", "system", "training", "all"], "what the packs have signals of"
    assert (layers["hardware"]["faulty"], layers["hardware"]["healthy"]) == (2, 10), "both faults are of the hardware"
    assert (layers["system"]["healthy"], layers["system"]["unknown"]) == (12, 0)
    assert layers["all"]["faulty"] == 2
    shown = anomaly("report", "--state", lived.open).stdout
    assert widest(shown) <= 100
    rows = {line.split()[0]: line.split()[1:5] for line in shown[shown.index("NODES NOW") :].splitlines()}
    assert rows["hardware"] == ["10", "0", "2", "0"]
    over = json.loads(anomaly("report", "--state", lived.over, "--format", "json").stdout)["layers"]
    assert over["all"]["faulty"] == 0


def test_the_budget_is_judged_by_its_interval(lived: Lived, tmp_path: Path) -> None:
    pipeline = write(tmp_path, PIPELINE)
    text = " ".join(anomaly("report", "--state", lived.over, "--pipeline", pipeline).stdout.split())
    assert "the budget is 1 a week: these few events cannot tell whether it is kept" in text


@pytest.mark.parametrize(("low", "high", "said"), [(2.0, 9.0, "overspent"), (0.0, 0.9, "kept"), (0.1, 5.0, "cannot")])
def test_three_things_can_be_said_of_a_budget(low: float, high: float, said: str) -> None:
    from anomaly.cli.report import _judged

    assert said in _judged({"low": low}, {"high": high}, 1.0)


def test_a_report_on_nothing_judged_has_no_rates(tmp_path: Path) -> None:
    with open_store(tmp_path / "anomaly.duckdb") as store:
        store.publish(tmp_path / "published")
    body = json.loads(anomaly("report", "--state", tmp_path, "--format", "json").stdout)
    assert (body["incidents"], body["by_level"]["page"]["rate"]) == (0, None)
    assert "nothing was judged" in anomaly("report", "--state", tmp_path).stdout
