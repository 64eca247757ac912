"""What is thought of a node, layer by layer: no data is never healthy, and what was found stands."""

from dataclasses import replace

import numpy as np

from anomaly.clock import MINUTE
from anomaly.coverage import LAYERS, Coverage, Covered, verdicts
from anomaly.denoise.rules import Denoised
from anomaly.denoise.world import Memory
from anomaly.signals.catalogue import load_catalogue
from tests.denoise.builders import Days, find, slow
from tests.scenarios.cluster import minute
from tests.scenarios.play import Scenario, Service, service
from tests.scenarios.test_scenarios import NAMED, lived

CATALOGUE = load_catalogue(["dcgm", "node", "rdma", "training"])
QUIET = Denoised(Memory(), (), (), ())


def coverage(**shares: tuple[float, float]) -> Coverage:
    """One node `n2`; layer (or `job`) → (rows seen, rows expected); what is not given is never there."""
    seen, expected = np.zeros((1, len(LAYERS) + 1)), np.zeros((1, len(LAYERS) + 1))
    for layer, (had, due) in shares.items():
        place = (*LAYERS, "job").index(layer)
        seen[0, place], expected[0, place] = had, due
    return Coverage(("n2",), seen, expected)


def said(seen: Coverage, denoised: Denoised = QUIET) -> dict[str, str]:
    return {row.layer: row.verdict for row in verdicts(seen, denoised, CATALOGUE)}


def test_what_is_seen_and_quiet_is_healthy_and_what_is_not_seen_is_unknown() -> None:
    rows = verdicts(coverage(hardware=(40, 40), system=(2, 7)), QUIET, CATALOGUE)
    assert rows == [
        Covered("n2", "all", round(42 / 47, 4), "healthy"),
        Covered("n2", "hardware", 1.0, "healthy"),
        Covered("n2", "system", round(2 / 7, 4), "unknown"),
        Covered("n2", "network", None, "unknown"),
    ]


def test_layers_that_nobody_asks_for_are_not_spoken_of() -> None:
    assert "storage" not in said(coverage(hardware=(1, 1)))


def test_a_job_that_does_not_speak_is_unknown_and_a_node_without_one_has_nothing_to_train() -> None:
    assert said(coverage(hardware=(1, 1), job=(0, 1)))["training"] == "unknown"
    assert said(coverage(hardware=(1, 1), job=(1, 1)))["training"] == "healthy"
    assert "training" not in said(coverage(hardware=(1, 1)))
    assert coverage(hardware=(1, 1), job=(0, 1)).ratios() == {"n2": 1.0}, "its own rows are all there"


def test_what_was_found_stands_however_little_was_seen() -> None:
    days = Days()
    days.run(0, 8, [find("gpu_temp", "n2", 0)])
    assert days.last is not None
    thought = said(coverage(hardware=(1, 40), system=(7, 7)), days.last)
    assert (thought["hardware"], thought["all"], thought["system"]) == ("faulty", "faulty", "healthy")


def test_a_note_and_what_still_settles_are_only_suspicious() -> None:
    days = Days()
    settling = days.tick(3, [find("gpu_temp", "n2", 0)])
    assert settling.reasons == {"settling": 1}
    assert said(coverage(hardware=(40, 40)), settling)["hardware"] == "suspect"
    days.run(0, 9, [find("load_per_core", "n2", 0)])
    assert days.last is not None
    assert said(coverage(hardware=(40, 40), system=(7, 7)), days.last)["system"] == "suspect"


def test_who_only_waits_for_others_is_healthy() -> None:
    days = Days()
    days.run(0, 12, [find("gpu_temp", "n1", 0), slow("train-a", 2), find("gpu_power", "n2", 2)])
    assert days.last is not None
    assert "symptom_only" in days.last.reasons
    assert said(coverage(hardware=(40, 40)), days.last)["hardware"] == "healthy"


def lost_node() -> Service:
    from tests.scenarios.play import read

    found = service(read(NAMED["node-lost"]))
    found.run(minute(50))
    return found


def test_a_lost_node_is_faulty_and_its_silent_layers_unknown() -> None:
    found = lost_node()
    [gone] = {item.entity.name for tick in found.ticks for item in tick.denoised.changed if item.cause == "node_lost"}
    last = found.ticks[-1]
    rows = {row.layer: row for row in verdicts(last.coverage, last.denoised, found.spec.catalogue) if row.node == gone}
    assert rows["system"].verdict == "faulty"
    assert (rows["hardware"].ratio, rows["hardware"].verdict) == (0.0, "unknown")
    others = [row for row in verdicts(last.coverage, last.denoised, found.spec.catalogue) if row.node != gone]
    assert {row.verdict for row in others if row.layer in ("hardware", "system", "network")} == {"healthy"}


def test_single_ticks_cover_what_a_block_covers() -> None:
    block, single = lived("gpu-vanishes", 60, 15 * MINUTE), lived("gpu-vanishes", 60, MINUTE)
    assert [tick.coverage for tick in block.ticks] == [tick.coverage for tick in single.ticks]
    assert block.ticks[0].coverage != replace(block.ticks[0].coverage, nodes=())


def test_a_scenario_without_jobs_has_no_training_layer() -> None:
    found = service(Scenario("idle", 5, nodes=2))
    found.run(minute(5))
    last = found.ticks[-1]
    assert {row.layer for row in verdicts(last.coverage, last.denoised, found.spec.catalogue)} == {
        "all",
        "hardware",
        "system",
        "network",
        "storage",
    }
