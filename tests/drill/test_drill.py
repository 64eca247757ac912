"""Drills through the production tick: verdicts, what is written, what is sent."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anomaly.clock import MINUTE, system_clock
from anomaly.config.pipeline import Pipeline
from anomaly.drill import Drilled, Said, drill, drill_all
from anomaly.drill.notify import notify
from anomaly.errors import UsageError
from anomaly.truth import read_truth
from tests.deliver.parts import Receiver

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("drill")]


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> tuple[Drilled, Path]:
    folder = tmp_path_factory.mktemp("drill")
    return drill("node_lost", 1, export=folder / "export", plot=folder / "plots"), folder


def test_a_lost_node_is_found_in_time_and_paged(lost: tuple[Drilled, Path]) -> None:
    found, _ = lost
    assert found.verdict == "ok"
    assert found.found is not None
    assert (found.found.where, found.found.cause, found.found.loud) == (found.where, "node_lost", "page")
    assert found.delay_s is not None and found.limit_s is not None and found.delay_s <= found.limit_s
    assert found.effect is None, "it slows nothing: it stops"
    json.dumps(found.to_json())


def test_what_is_exported_is_what_a_prometheus_takes_and_a_backtest_reads(lost: tuple[Drilled, Path]) -> None:
    found, folder = lost
    exported = folder / "export" / "node_lost"
    facts = read_truth((exported / "truth.json").read_text(), "truth.json")
    assert [fault.culprits for fault in facts.faults] == [(found.where,)]
    assert (exported / "topology.csv").read_text().startswith("node,rack,leaf,pdu,sku,storage\n")
    metrics = sorted(exported.glob("*.om"))
    assert metrics and metrics[-1].read_text().endswith("# EOF\n")


def test_a_picture_is_drawn(lost: tuple[Drilled, Path]) -> None:
    picture = (lost[1] / "plots" / "node_lost.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 20_000


def test_calm_is_left_alone_and_two_processes_say_what_one_says() -> None:
    alone = drill("quiet", 1)
    assert (alone.verdict, alone.wrong, alone.found) == ("ok", (), None)
    counts: list[int] = []
    together = drill_all(["quiet", "node_lost"], 1, done=counts.append)
    assert [each.name for each in together] == ["quiet", "node_lost"]
    assert together[0].to_json() == alone.to_json()
    assert counts == [1, 2]


def test_what_was_found_goes_to_alertmanager_marked_as_a_drill(lost: tuple[Drilled, Path]) -> None:
    found, _ = lost
    now = system_clock()
    with Receiver() as receiver:
        pipeline = _pipeline(alertmanagers=[{"url": receiver.url}])
        assert notify(pipeline, found.incidents, now) == 1
        [[alert]] = receiver.alerts()
    assert alert["labels"]["drill"] == "true"
    assert alert["labels"]["cluster"] == "ours"
    assert alert["labels"]["node"] == found.where
    assert alert["startsAt"] < alert["endsAt"], "it lapses by itself"


def test_a_pipeline_without_alertmanager_cannot_be_notified() -> None:
    with pytest.raises(UsageError, match="no Alertmanager"):
        notify(_pipeline(), (), 5 * MINUTE)


def test_a_verdict_knows_late_from_missed() -> None:
    said = Said("gpu-01", "thermal", "ticket")
    late = Drilled("thermal_throttle", 1, 0.2, "gpu-01", "node_alert", "thermal", 600.0, said, 700.0, "late", (), 0.8)
    assert late.to_json()["verdict"] == "late"


def _pipeline(**more: Any) -> Pipeline:
    source = {"seed": 1, "nodes": 16, "faults": 0}
    return Pipeline.model_validate({"cluster": "ours", "packs": ["dcgm"], "simulate": source, **more})


def test_workers_end_with_their_parent() -> None:
    """Killed outright, the command leaves nobody behind."""
    command = [sys.executable, "-m", "anomaly.cli.main", "drill", "quiet", "gpu_lost"]
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        workers = _until(lambda: found if len(found := _workers(parent.pid)) == 2 else None)
        time.sleep(3)  # a worker follows its parent once it has started
    finally:
        parent.kill()
        parent.wait()
    _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def _workers(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def _until(found: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.1)
    raise AssertionError("it never came to that")
