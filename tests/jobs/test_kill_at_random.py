"""SIGKILL at any moment of any one-shot job: same samples, same incidents, nothing half published, no alert lost.

`ANOMALY_KILLS=100` asks for more kills than an ordinary run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anomaly.jobs.parts import open_pipeline_store
from anomaly.jobs.publish import clean_up, published_dir
from tests.deliver.parts import Receiver
from tests.jobs.kill_program import END
from tests.jobs.parts import conclusions, differences, identities, sample_digests, small_cluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kill")]

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("ANOMALY_KILLS", "8"))
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
    found["stray"] = [str(path) for path in folder.rglob("*.aside")]
    return found


class Lived:
    """The range lived through once, killed or not: what is left, and what the receivers were told."""

    def __init__(self, folder: Path, seed: int = 0, kills: int = 0, longest: float = 0.0) -> None:
        program = [sys.executable, "-m", "tests.jobs.random_kill_program"]
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


def test_kills_at_random_moments_change_nothing(tmp_path: Path) -> None:
    calm = Lived(tmp_path / "calm")
    assert len(calm.left["incidents"]) == 2 and calm.left["published"], "the comparison compares little"
    assert set(calm.last_words.values()) == {True}
    struck = 0
    for turn in range(1, KILLS + 1):
        killed = Lived(tmp_path / str(turn), turn, min(AT_ONCE, KILLS - struck), calm.seconds * SHARE)
        struck += killed.struck
        assert differences(calm.left, killed.left) == [], f"turn {turn}"
        assert (killed.left["stray"], killed.left["backlog"], killed.left["late"]) == ([], {}, [])
        assert killed.last_words == calm.last_words, "an alert is lost, or its last word is another one"
        assert killed.events == calm.events, "an event is lost or overtook another"
        if struck >= KILLS:
            break
    assert struck >= KILLS, "lives came to their ends before their kills"
