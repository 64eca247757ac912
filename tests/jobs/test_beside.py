"""Commands beside a running service: readers block nobody, it takes wishes in, the rest is told who is in the way."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deliver.parts import Receiver
from tests.e2e.harness import anomaly_process, wait_until
from tests.jobs.test_service import address, logged, origin_and_fault, write_pipeline

pytestmark = pytest.mark.slow

SPEC = """\
model: node-forest
features: [sm_clock_lowest, gpu_temp_highest, gpu_temp_mean, gpu_temp_slope, power_mean, power_swing, util_spread]
window: 2m
minimum: {history: 15m, windows: 100}
forest: {trees: 10, samples: 64}
"""


def anomaly(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "anomaly.cli.main", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_beside_a_running_service(tmp_path: Path) -> None:
    origin, fault = origin_and_fault()
    inbox = tmp_path / "var/inbox"
    (tmp_path / "var/models").mkdir(parents=True)
    (tmp_path / "var/models/node-forest.yaml").write_text(SPEC)
    with (
        Receiver() as receiver,
        anomaly_process(["run", write_pipeline(tmp_path, origin, receiver.url)], tmp_path) as service,
    ):
        address(service)
        wait_until(lambda: logged(service, "job_done", job="data"), 60, "a run")

        # Readers read.
        (told,) = json.loads(anomaly(tmp_path, "incidents", "--format", "json").stdout)
        assert told["node"] == fault.nodes[0]
        assert fault.nodes[0] in anomaly(tmp_path, "explain", fault.nodes[0]).stdout
        for words in (["why", fault.nodes[0]], ["offenders"], ["report"], ["check", "pipeline.yaml"]):
            assert anomaly(tmp_path, *words).returncode == 0
        doctor = json.loads(anomaly(tmp_path, "doctor", "--format", "json").stdout)
        assert "in use by" in next(each["said"] for each in doctor if each["check"] == "database")

        # The service collects and scores by itself: another process may not.
        for words in (
            ["collect", "pipeline.yaml"],
            ["score", "pipeline.yaml"],
            ["score", "--dry-run", "pipeline.yaml"],
        ):
            refused = anomaly(tmp_path, *words)
            assert (refused.returncode, f"process {service.pid}" in refused.stderr) == (1, True), refused.stderr

        # Wishes are granted.
        assert anomaly(tmp_path, "mark", told["id"], "--label", "real").returncode == 0
        assert anomaly(tmp_path, "close", told["id"], "--reason", "swapped").returncode == 0
        asked = anomaly(tmp_path, "train", "pipeline.yaml")
        assert (asked.returncode, asked.stdout) == (0, ""), asked.stderr
        assert f"process {service.pid}" in asked.stderr and "it trains within 5s" in asked.stderr
        wait_until(lambda: logged(service, "inbox_taken", kind="train"), 60, "the training to be taken in")
        (done,) = wait_until(lambda: logged(service, "job_done", job="train"), 120, "the training")
        assert "outcome=ok" in done, done
        assert (tmp_path / "var/models/node-forest/current.json").is_file()
        wait_until(lambda: logged(service, "inbox_taken", kind="close"), 60, "the close to be taken in")
        wait_until(lambda: list(inbox.iterdir()) == [], 30, "the inbox to be empty")
        wait_until(lambda: anomaly(tmp_path, "incidents", "--open").stdout.startswith("no open"), 60, "the end of it")
        assert len(logged(service, "job_done", job="train")) == 1, "it is trained once"
        assert not logged(service, "job_skipped", job="train")
        assert service.terminate(15) == 0, service.errors()
