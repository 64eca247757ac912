"""`anomaly train`, and what the other commands say of the model: real processes on a small simulated cluster."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.parts import anomaly, paragraph, write

PIPELINE = """\
cluster: small
simulate: {seed: 3, nodes: 8, faults: 0, start: "2026-06-01T08:00:00Z"}
packs: [dcgm, node, training]
store: {path: var/anomaly.duckdb}
"""
SPEC = """\
model: node-forest
features: [sm_clock_lowest, gpu_temp_highest, gpu_temp_mean, gpu_temp_slope, power_mean, power_swing, util_spread]
minimum: {history: 1h, windows: 100}
forest: {trees: 10, samples: 64}
"""


def run(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, as cron would start it."""
    command = [sys.executable, "-m", "anomaly.cli.main", *words]
    return subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a pipeline and two hours and a half of samples."""
    folder = tmp_path_factory.mktemp("collected")
    write(folder, PIPELINE)
    done = run(folder, "collect", "pipeline.yaml", "--from", "2026-06-01T08:00:00Z", "--to", "2026-06-01T10:30:00Z")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def trained(collected: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(collected, folder, dirs_exist_ok=True)
    (folder / "var/models").mkdir()
    write(folder / "var/models", SPEC, "node-forest.yaml")
    done = run(folder, "train", "pipeline.yaml", "--to", "2026-06-01T10:20:00Z")
    assert done.returncode == 0, done.stderr
    assert "its boundary is a prior, not calibrated" in done.stderr
    version = folder / done.stdout.strip()
    assert sorted(path.name for path in version.iterdir()) == ["card.md", "manifest.json", "model.skops"]
    assert version.parent == folder / "var/models/node-forest"
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path


def version_of(place: Path) -> Path:
    folder = place / "var/models/node-forest"
    name = json.loads((folder / "current.json").read_text())["version"]
    return folder / str(name)


def score(place: Path) -> subprocess.CompletedProcess[str]:
    return run(place, "score", "pipeline.yaml", "--from", "2026-06-01T10:20:00Z", "--to", "2026-06-01T10:28:00Z")


def test_too_little_history_is_said_and_is_no_failure(collected: Path, tmp_path: Path) -> None:
    shutil.copytree(collected, tmp_path, dirs_exist_ok=True)
    done = run(tmp_path, "train", "pipeline.yaml")
    assert (done.returncode, done.stdout) == (0, "")
    assert "too little history for a model: " in done.stderr
    assert "of 6h, " in done.stderr and "of 2,000 node windows" in done.stderr
    checked = run(tmp_path, "check", "pipeline.yaml")
    assert checked.returncode == 0 and "too little history for a model" in checked.stderr


def test_a_good_model_takes_part_without_a_word_of_warning(place: Path) -> None:
    done = score(place)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    checked = run(place, "check", "pipeline.yaml")
    assert f"node-forest {version_of(place).name}, learnt up to 2026-06-01T10:20:00Z" in checked.stderr


@pytest.mark.parametrize("name", ["model.skops", "manifest.json"])
def test_a_tampered_artefact_is_said_and_scoring_and_training_go_on(place: Path, name: str) -> None:
    path = version_of(place) / name
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(bytes(body))
    done = score(place)
    assert done.returncode == 0 and "8 ticks" in done.stderr
    assert "warning: no model takes part: " in done.stderr and "train again (`anomaly train PIPELINE`)" in done.stderr
    again = run(place, "train", "pipeline.yaml", "--to", "2026-06-01T10:20:00Z")
    assert again.returncode == 0 and "the model so far is not used" in again.stderr
    checked = run(place, "check", "pipeline.yaml").stderr
    assert "no model takes part" not in checked and f"{version_of(place).name}, learnt up to" in checked


def test_an_artefact_of_another_scikit_learn_is_not_used(place: Path) -> None:
    path = version_of(place) / "manifest.json"
    manifest = json.loads(path.read_text())
    text = json.dumps(manifest | {"sklearn": "1.8.2"})
    path.write_text(text)
    current = {"version": path.parent.name, "manifest_sha256": hashlib.sha256(text.encode()).hexdigest()}
    (path.parents[1] / "current.json").write_text(json.dumps(current))
    for done in (score(place), run(place, "check", "pipeline.yaml")):
        assert done.returncode == 0
        assert f"was trained with scikit-learn 1.8.2, this is {manifest['sklearn']}" in done.stderr


def test_a_missing_artefact_is_said(place: Path) -> None:
    shutil.rmtree(version_of(place))
    done = score(place)
    assert done.returncode == 0 and "cannot be read: No such file or directory" in done.stderr


def test_a_wrong_model_spec_is_a_configuration_error(collected: Path, tmp_path: Path) -> None:
    shutil.copytree(collected, tmp_path, dirs_exist_ok=True)
    (tmp_path / "var/models").mkdir()
    write(tmp_path / "var/models", SPEC.replace("window", "widow"), "node-forest.yaml")
    done = run(tmp_path, "train", "pipeline.yaml")
    assert done.returncode == 3 and "node-forest.yaml:3: minimum.widows: " in done.stderr, done.stderr


def test_before_anything_is_collected_there_is_nothing_to_train_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = anomaly("train", write(tmp_path, PIPELINE))
    assert result.exit_code == 2
    assert paragraph(result).startswith("anomaly: nothing has been collected for this pipeline yet")
    assert not (tmp_path / "var").exists()
