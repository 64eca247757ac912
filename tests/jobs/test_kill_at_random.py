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
AT_ONCE = 10
"""Kills on one store; then another one begins."""


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


def told(receiver: Receiver, life: str) -> tuple[dict[Any, bool], list[tuple[str, bytes]]]:
    """Each alert's last word (has it ended?), and every webhook event once, in order of arrival."""
    mine = [(path, headers, body) for path, headers, body in receiver.requests if path.startswith(f"/{life}/")]
    alerts = [alert for path, _, body in mine if path.endswith("/alerts") for alert in json.loads(body)]
    last = {tuple(sorted(alert["labels"].items())): "ended" in alert["annotations"] for alert in alerts}
    hooks = [(headers["Idempotency-Key"], body) for path, headers, body in mine if path.endswith("/hook")]
    return last, list(dict.fromkeys(hooks))


def test_kills_at_random_moments_change_nothing(tmp_path: Path) -> None:
    struck = turn = 0
    while struck < KILLS:
        turn += 1
        assert turn <= KILLS, "lives end before their kills"
        folder = tmp_path / str(turn)
        wanted = min(AT_ONCE, KILLS - struck)
        with Receiver() as receiver:
            done = subprocess.run(
                [sys.executable, "-m", "tests.jobs.random_kill_program", folder, receiver.url, str(turn), str(wanted)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
            assert done.returncode == 0, f"turn {turn}: {done.stderr}"
            struck += int(done.stdout)
            calm, killed = left_behind(folder / "calm"), left_behind(folder / "killed")
            assert len(calm["incidents"]) == 2 and calm["published"], "the comparison compares little"
            assert differences(calm, killed) == [], f"turn {turn}"
            assert (killed["stray"], killed["backlog"], killed["late"]) == ([], {}, [])
            calmly, killedly = told(receiver, "calm"), told(receiver, "killed")
            assert killedly[0] == calmly[0], "an alert is lost, or its last word is another one"
            assert killedly[1] == calmly[1], "an event is lost or overtook another"
