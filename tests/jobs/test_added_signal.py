"""A signal is one YAML entry: added to a pack, it is collected, scored, told and documented, and no code knows it."""

import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from anomaly.clock import Ms
from anomaly.records import Labels
from anomaly.signals import catalogue, reference
from anomaly.store.store import open_store
from tests.jobs.parts import MemorySource, at, collect_to, parts_of, pipeline_in, score_to

NODES = [f"gpu-{i}" for i in range(1, 7)]
ENTRY = """
  coolant_conductivity:
    about: how much the coolant conducts
    metrics: [node_coolant_conductivity_microsiemens]
    unit: ratio
    bad: high
    valid: [0, 1000]
    layer: hardware
    symptom: thermal
    cause: thermal
    threshold: {above: 20, persist: 2m}
    source: the cooling vendor's limit
    enable: put the sensor's text file where node_exporter reads it
"""


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The packs as they are, and ENTRY at the end of one of them."""
    packs = tmp_path / "packs"
    shutil.copytree(str(resources.files("anomaly.signals") / "packs"), packs)
    file = packs / "node.yaml"
    file.write_text(file.read_text(encoding="utf-8").rstrip("\n") + ENTRY, encoding="utf-8")
    monkeypatch.setattr(catalogue, "_packs", lambda: packs)
    forget()
    yield
    monkeypatch.undo()
    forget()


def forget() -> None:
    catalogue._document.cache_clear()
    catalogue._read_pack.cache_clear()


def conductivity(labels: Labels, t: Ms) -> float:
    """One node's coolant gets dirty at 10:10."""
    if labels["instance"] == "gpu-3:9100":
        return 35.0 if t >= at(10) else 5.0
    return 9e9 if labels["instance"] == "gpu-5:9100" else 5.0 + (t // 15_000) % 2


@pytest.mark.usefixtures("added")
def test_one_entry_is_collected_scored_told_and_documented(tmp_path: Path) -> None:
    instances: list[Labels] = [{"instance": f"{node}:9100", "job": "node-exporter"} for node in NODES]
    source = MemorySource(
        {
            "up": (instances, lambda labels, t: 1.0),
            "coolant_conductivity": (instances, conductivity),
        }
    )
    parts = parts_of(pipeline_in(tmp_path / "var", packs=["node"]), source)
    with open_store(parts.pipeline.store.path) as store:
        collect_to(parts, store, at(20))
        run = score_to(parts, store, at(20))
        assert {row.entity.name for row in store.series("coolant_conductivity")} == set(NODES), "collected"
    told = [incident for incident in run.changes + run.history if incident.entity.name == "gpu-3"]
    assert {incident.signals for incident in told} == {("coolant_conductivity",)}, "scored, and told"
    assert told[-1].cause == "thermal"
    assert [(item.signal, item.observed, item.unit) for item in told[-1].evidence] == [
        ("coolant_conductivity", 35.0, "ratio")
    ]
    assert {incident.entity.name for incident in run.changes + run.history} == {"gpu-3"}, "and impossible values not"

    document = reference.render()
    assert (
        "| `coolant_conductivity` | how much the coolant conducts | ratio | gauge | 15s | high | 0 to 1000 " in document
    )
    assert "put the sensor's text file where node_exporter reads it |" in document
    assert document.count("*unverified* |") > 0


def test_without_the_entry_nobody_knows_it() -> None:
    assert "coolant_conductivity" not in reference.render()
