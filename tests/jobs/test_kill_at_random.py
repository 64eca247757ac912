"""SIGKILL at any moment of any job: same samples, same incidents, nothing half published, no alert lost.

`ANOMALY_KILLS=100` asks for more kills than an ordinary run.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anomaly.jobs import models
from anomaly.jobs.parts import open_pipeline_store
from anomaly.jobs.publish import clean_up, published_dir
from tests.deliver.parts import Receiver
from tests.jobs.kill_program import END
from tests.jobs.parts import conclusions, differences, identities, sample_digests, small_cluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kill")]

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("ANOMALY_KILLS", "8"))
HOUSE_KILLS = max(2, KILLS // 4)
AT_ONCE = 25
"""Kills on one store; then another one begins."""
SHARE = 1 / 6
"""The longest time to a kill, of what a whole undisturbed life takes."""


def left_behind(folder: Path) -> dict[str, Any]:
    """All that is in the store and beside it."""
    parts = small_cluster(folder, END)
    clean_up(parts.pipeline)
    published = published_dir(parts.pipeline)
    with open_pipeline_store(parts.pipeline) as store:
        found = {
            "series": identities(store),
            "samples": sample_digests(store),
            **conclusions(parts, store),
            "late": store.late_samples(0, 2**62),
            "backlog": store.backlog(),
        }
    # A file of parquet that is not whole has no footer and cannot be read.
    found["published"] = {
        str(path.relative_to(published)): pq.read_metadata(path).num_rows
        for path in sorted(published.rglob("*.parquet"))
    }
    model = models.load(models.folder_of(parts.state_dir), parts.catalogue).model
    found["model"] = model and (model.features, model.calibration, model.trained_through)
    found["stray"] = [str(path) for path in folder.rglob("*.aside")]
    return found


class Lived:
    """Jobs lived through once, killed or not: what is left, and what the receivers were told."""

    def __init__(self, jobs: str, folder: Path, seed: int = 0, kills: int = 0, longest: float = 0.0) -> None:
        program = [sys.executable, "-m", "tests.jobs.random_kill_program", jobs]
        with Receiver() as receiver:
            done = subprocess.run(
                [*program, folder, receiver.url, str(seed), str(kills), str(longest)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                timeout=900,
            )
            requests = list(receiver.requests)
        assert done.returncode == 0, done.stderr
        self.struck, self.seconds = json.loads(done.stdout)
        self.left = left_behind(folder)
        alerts = [alert for path, _, body in requests if path.endswith("/alerts") for alert in json.loads(body)]
        self.last_words = {tuple(sorted(alert["labels"].items())): "ended" in alert["annotations"] for alert in alerts}
        events = [(headers["Idempotency-Key"], body) for path, headers, body in requests if path == "/hook"]
        self.events = list(dict.fromkeys(events))


@pytest.fixture(scope="module")
def ticked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lived]:
    """The ticks without a kill, and where they have left what they left."""
    folder = tmp_path_factory.mktemp("calm")
    return folder, Lived("ticks", folder)


def test_kills_at_random_moments_change_nothing(ticked: tuple[Path, Lived], tmp_path: Path) -> None:
    _, calm = ticked
    assert len(calm.left["incidents"]) == 2 and calm.left["published"], "the comparison compares little"
    assert set(calm.last_words.values()) == {True}
    struck = 0
    for turn in range(1, KILLS + 1):
        killed = Lived("ticks", tmp_path / str(turn), turn, min(AT_ONCE, KILLS - struck), calm.seconds * SHARE)
        struck += killed.struck
        assert differences(calm.left, killed.left) == [], f"turn {turn}"
        assert (killed.left["stray"], killed.left["backlog"], killed.left["late"]) == ([], {}, [])
        assert killed.last_words == calm.last_words, "an alert is lost, or its last word is another one"
        assert killed.events == calm.events, "an event is lost or overtook another"
        if struck >= KILLS:
            break
    assert struck >= KILLS, "lives came to their ends before their kills"


SPEC = """\
model: node-forest
features: [sm_clock_lowest, gpu_temp_highest, gpu_temp_mean, gpu_temp_slope, power_mean, power_swing, util_spread]
window: 2m
minimum: {history: 30m, windows: 100}
forest: {trees: 10, samples: 64}
"""


def test_kills_while_it_keeps_house_change_nothing(ticked: tuple[Path, Lived], tmp_path: Path) -> None:
    """Training, publishing and pruning: a whole model or none, no row too many and none too few."""
    folder, before = ticked

    def fresh(name: str) -> Path:
        place = Path(shutil.copytree(folder, tmp_path / name))
        (place / "models").mkdir()
        (place / "models/node-forest.yaml").write_text(SPEC)
        return place

    calm = Lived("house", fresh("calm"))
    assert calm.left["model"] is not None
    assert calm.left["samples"] != before.left["samples"], "nothing was too old"
    struck = turn = 0
    while struck < HOUSE_KILLS:
        turn += 1
        assert turn <= 3 * HOUSE_KILLS, "lives came to their ends before their kills"
        killed = Lived("house", fresh(str(turn)), turn, HOUSE_KILLS - struck, calm.seconds)
        struck += killed.struck
        assert differences(calm.left, killed.left) == [], f"turn {turn}"
