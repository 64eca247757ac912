"""Training on stored history, the artefact on disk, and ticks with and without it."""

import builtins
import hashlib
import json
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from anomaly.clock import HOUR, MINUTE
from anomaly.detect.forest_fusion import forest_profile
from anomaly.detect.runs import Run, finding
from anomaly.errors import ConfigError, UsageError
from anomaly.jobs import models
from anomaly.jobs.carry import Live
from anomaly.jobs.flagged import HARD, Stretch, capped, stretches, within
from anomaly.jobs.model_file import MODEL, dump
from anomaly.jobs.model_spec import ModelSpec, load_spec
from anomaly.jobs.pace import Pace
from anomaly.jobs.parts import Parts
from anomaly.jobs.publish import publish, published_dir
from anomaly.jobs.score import ScoredRun, score
from anomaly.jobs.train import calibrate, train
from anomaly.records import Entity
from anomaly.store.published import read_table
from anomaly.store.results import TickRecord
from anomaly.store.retention import Keep
from anomaly.store.store import Store, open_store
from tests.jobs.parts import T0, at, collect_to, small_cluster

MINUTES = 130
SPEC = """\
model: node-forest
features: [sm_clock_lowest, gpu_temp_highest, gpu_temp_mean, gpu_temp_slope, memory_temp_highest, power_mean,
  power_swing, tensor_spread, util_spread, cpu_busy, pcie_replays]
minimum: {history: HISTORY, windows: 100}
forest: {trees: 20, samples: 64}
"""


class Foreign:
    """A type that no forest has a use for."""

    secret = 1


def with_spec(folder: Path, history: str = "30m", text: str = SPEC) -> None:
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "node-forest.yaml").write_text(text.replace("HISTORY", history))


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with the samples of a small cluster: two faults, one of them from 10:25 to 10:45."""
    folder = tmp_path_factory.mktemp("collected")
    parts = small_cluster(folder, MINUTES)
    with open_store(parts.pipeline.store.path) as store:
        collect_to(parts, store, at(MINUTES))
    with_spec(folder)
    return folder


@pytest.fixture(scope="module")
def trained(collected: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a model of its first hundred minutes."""
    folder = tmp_path_factory.mktemp("trained")
    parts = copy(collected, folder)
    with open_store(parts.pipeline.store.path) as store:
        told = train(parts, store, at(MINUTES), end=at(100))
    assert told.manifest is not None, told.words
    return folder


def copy(state: Path, folder: Path) -> Parts:
    shutil.copytree(state, folder, dirs_exist_ok=True)
    return small_cluster(folder, MINUTES)


@pytest.fixture
def parts(collected: Path, tmp_path: Path) -> Parts:
    return copy(collected, tmp_path)


@pytest.fixture
def with_model(trained: Path, tmp_path: Path) -> Parts:
    return copy(trained, tmp_path)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "anomaly.duckdb") as opened:
        yield opened


def folder_of(parts: Parts) -> Path:
    return models.folder_of(parts.state_dir)


def loaded(parts: Parts) -> models.Loaded:
    return models.load(folder_of(parts), parts.catalogue)


def ticks(parts: Parts, store: Store, start: float, end: float, live: Live | None = None) -> ScoredRun:
    """The ticks of a stretch, from `start` on in a store without any."""
    return score(parts, store, live or Live(), (), at(end), start=at(start), end=at(end))


# ── training ──


def test_too_little_history_is_said_and_nothing_is_made(parts: Parts, store: Store) -> None:
    with_spec(parts.state_dir, "6h")
    told = train(parts, store, at(MINUTES))
    assert told.manifest is None and 0 < told.share < 1
    assert told.words.startswith("node-forest: too little history for a model: 1h")
    assert "of 6h" in told.words and "of 100 node windows" in told.words
    assert models.versions(folder_of(parts)) == []
    assert loaded(parts).lacking == told.words and not loaded(parts).trouble


def test_what_is_missing_stands_in_the_coverage_of_the_ticks(parts: Parts, store: Store) -> None:
    with_spec(parts.state_dir, "6h")
    told = train(parts, store, at(MINUTES))
    ticks(parts, store, 30, 40)
    publish(store, parts.pipeline, at(MINUTES))
    rows = read_table(published_dir(parts.pipeline), "coverage").to_pylist()
    found = {(row["name"], row["ratio"], row["verdict"]) for row in rows if row["kind"] == "model"}
    assert found == {("node-forest", told.share, "no_model")}


def test_enough_history_makes_a_version_that_says_what_it_is(with_model: Parts) -> None:
    manifest = models.read_manifest(folder_of(with_model))
    version = folder_of(with_model) / manifest.version
    assert sorted(path.name for path in version.iterdir()) == ["card.md", "manifest.json", "model.skops"]
    assert manifest.sha256 == hashlib.sha256((version / MODEL).read_bytes()).hexdigest()
    assert manifest.features == tuple(sorted(manifest.features)) and "pcie_replays" in manifest.constant
    assert manifest.trained_through == at(100) and manifest.rows > manifest.held_out_rows > 0
    assert not manifest.calibrated, "an hour of twelve nodes calibrates nothing"
    assert manifest.usual < manifest.effect <= manifest.boundary < 1.0
    card = (version / "card.md").read_text()
    assert manifest.version in card and "a prior, not a calibration" in card and "| gpu_temp_highest" in card
    model = loaded(with_model).model
    assert model is not None and model.version == manifest.version


def test_the_same_history_and_seed_give_the_same_scores(with_model: Parts, store: Store) -> None:
    first = loaded(with_model).model
    told = train(with_model, store, at(MINUTES), end=at(100))
    second = loaded(with_model).model
    assert first is not None and second is not None and told.manifest is not None
    assert second.version == f"{first.version}-2", "a version is never written over"
    probes = np.random.default_rng(0).normal(size=(50, len(first.features))) * first.spread * 5
    assert np.array_equal(first.scores(probes), second.scores(probes))


def test_the_order_of_features_in_the_spec_makes_no_difference(with_model: Parts, store: Store) -> None:
    one = models.read_manifest(folder_of(with_model))
    names = load_spec(with_model.state_dir / "models").features[::-1]
    with_spec(with_model.state_dir, text=f"{SPEC.partition('features')[0]}features: [{', '.join(names)}]\n"
              f"minimum{SPEC.partition('minimum')[2]}".replace("HISTORY", "30m"))  # fmt: skip
    told = train(with_model, store, at(MINUTES), end=at(100))
    assert told.manifest is not None
    assert (told.manifest.spec_sha256, told.manifest.centre) == (one.spec_sha256, one.centre)
    assert told.manifest.boundary == one.boundary


def test_flagged_stretches_are_left_out(parts: Parts, store: Store) -> None:
    """As in online-ml/river#260."""
    without = train(parts, store, at(MINUTES))
    ticks(parts, store, 0, 35)
    told = train(parts, store, at(MINUTES))
    assert without.left_out == 0 < told.left_out and told.windows == without.windows - told.left_out


def test_only_the_newest_versions_stay(parts: Parts, store: Store) -> None:
    with_spec(parts.state_dir, text=SPEC.replace("HISTORY", "30m") + "keep: 2\n")
    made = [train(parts, store, at(MINUTES), end=at(minute)).manifest for minute in (110, 115, 120)]
    names = [manifest.version for manifest in made if manifest]
    assert sorted(models.versions(folder_of(parts))) == names[1:]


def test_history_that_only_the_archive_holds_is_learnt_from(parts: Parts, store: Store) -> None:
    live = train(parts, store, at(MINUTES), start=T0, end=at(60))
    store.set_watermark("scored", at(MINUTES))  # hours close once they are scored
    publish(store, parts.pipeline, at(MINUTES))
    keep = parts.pipeline.store.keep
    later = at(60) + keep.samples
    store.prune(later, Keep(keep.samples, keep.archive, keep.rollups, keep.findings))
    assert len(store.read("gpu_temp", T0, at(60) - 1)) == 0
    told = train(parts, store, later + HOUR, start=T0, end=at(60))
    assert told.windows == live.windows > 0


def test_a_store_without_samples_cannot_be_trained_on(tmp_path: Path, store: Store) -> None:
    with pytest.raises(UsageError, match="nothing has been collected"):
        train(small_cluster(tmp_path), store, at(10))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("features: [gpu_temp_highest, nonsense, power_mean]", "there is no feature 'nonsense'"),
        ("features: [power_mean, power_mean, cpu_busy]", "twice"),
        ("model: other", "model"),
        ("widow: 5m", "widow"),
        ("window: 1h", "between 1m and 15m"),
        ("minimum: {history: 3d}", "must not be longer than history"),
        ("boundary: 1.5", "less than"),
    ],
)
def test_a_wrong_model_spec_is_refused_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    good = {"model": "model: node-forest", "features": "features: [gpu_temp_highest, power_mean, cpu_busy]"}
    with_spec(tmp_path, text="\n".join({**good, line.partition(":")[0]: line}.values()) + "\n")
    with pytest.raises(ConfigError, match=words) as caught:
        load_spec(tmp_path / "models")
    assert caught.value.problems[0].file.endswith("node-forest.yaml")


def test_the_spec_that_ships_is_the_documented_minimum(tmp_path: Path) -> None:
    spec = load_spec(tmp_path)
    assert (spec.minimum.history, spec.minimum.windows, spec.forest.trees) == (6 * HOUR, 2000, 100)
    assert len(spec.digest) == 64 and spec.digest != ModelSpec(model="node-forest", features=spec.features[1:]).digest


# ── what is left out, and where the boundary lies ──


def test_windows_near_a_finding_are_left_out_and_of_too_many_the_worst() -> None:
    found = [Stretch("n1", at(30), at(40), 2.0), Stretch("n2", at(0), at(500), HARD)]
    nodes = ["n1"] * 6 + ["n3"] * 6 + ["n2"] * 4
    times = np.array([at(minute) for minute in (10, 20, 35, 50, 60, 70)] * 2 + [at(m) for m in (1, 2, 3, 4)])
    weight = within(found, nodes, times, 5 * MINUTE, 15 * MINUTE)
    assert weight[:6].tolist() == [0.0, 2.0, 2.0, 2.0, 2.0, 0.0] and not weight[6:12].any() and (weight[12:] > 2).all()
    assert capped(weight, 0.9).sum() == 8
    assert np.flatnonzero(capped(weight, 0.25)).tolist() == [12, 13, 14, 15], "at most a quarter, and the worst"


def test_what_the_forest_itself_found_does_not_count(parts: Parts, store: Store) -> None:
    run = Run(Entity("node", "n1"), "", T0, 9, 9, at(5), at(5), 1.2, 1.2, None, None, confirmed=at(3))
    own = replace(finding(run, forest_profile("thermal", 5 * MINUTE), "unknown", ""), confirmed=at(3))
    known = replace(own, detector="peers", signal="gpu_temp", entity=Entity("node", "n2"), cause="thermal")
    completed = replace(known, detector="peers+forest", entity=Entity("node", "n3"))
    store.commit_tick(TickRecord(at(6), "", findings=(own, known, completed)))
    assert [item.node for item in stretches(store, Pace(), T0, at(60))] == ["n2"]


def test_a_boundary_is_a_prior_until_ten_exceedances_are_expected() -> None:
    random = np.random.default_rng(1)

    def of(nodes: int, hours: int, effect: float) -> Any:
        names = [f"n{i}" for _ in range(12 * hours) for i in range(nodes)]
        times = np.repeat(T0 + 5 * MINUTE * np.arange(12 * hours), nodes)
        return calibrate(random.normal(0.4, 0.02, len(names)), names, times, 5 * MINUTE, 0.99, effect)

    few, many = of(10, 5, 0.42), of(60, 20, 0.42)
    assert not few.calibrated and few.maxima <= 60
    assert many.calibrated and 0.42 < many.calibration.boundary < 0.48
    assert of(60, 20, 0.7).calibration.boundary == 0.7, "never below the effect floor"


# ── artefacts that must not be used ──


def rewrite(folder: Path, *, body: bytes | None = None, **manifest: Any) -> None:
    """What somebody who can write the directory might do: change a version and mend every hash."""
    current = json.loads((folder / "current.json").read_text())
    version = folder / current["version"]
    held = json.loads((version / "manifest.json").read_text()) | manifest
    if body is not None:
        (version / MODEL).write_bytes(body)
        held["sha256"] = hashlib.sha256(body).hexdigest()
    text = json.dumps(held)
    (version / "manifest.json").write_text(text)
    current["manifest_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "current.json").write_text(json.dumps(current))


def forest(width: int = 3) -> Any:
    from sklearn.ensemble import IsolationForest

    return IsolationForest(n_estimators=2, random_state=0).fit(np.random.default_rng(0).normal(size=(50, width)))


def test_a_changed_model_is_refused(with_model: Parts) -> None:
    [version] = models.versions(folder_of(with_model))
    path = folder_of(with_model) / version / MODEL
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(bytes(body))
    assert (
        "model.skops" in loaded(with_model).trouble and "is not the one that was trained" in loaded(with_model).trouble
    )


def test_a_changed_manifest_is_refused(with_model: Parts) -> None:
    [version] = models.versions(folder_of(with_model))
    path = folder_of(with_model) / version / "manifest.json"
    path.write_text(path.read_text().replace('"seed": 7', '"seed": 8'))
    assert "is not the one that was written" in loaded(with_model).trouble


@pytest.mark.parametrize("name", ["manifest.json", MODEL])
def test_a_missing_file_is_said(with_model: Parts, name: str) -> None:
    [version] = models.versions(folder_of(with_model))
    (folder_of(with_model) / version / name).unlink()
    assert "cannot be read: No such file" in loaded(with_model).trouble


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sklearn": "1.8.0"}, "was trained with scikit-learn 1.8.0, this is"),
        ({"format": 2}, "has format 2, this program knows 1"),
        ({"features": ["nobody", "knows"]}, "features that this program does not know: nobody"),
        ({"catalogue_sha256": "0" * 64}, "signals have been changed"),
        ({"centre": [0.0]}, "does not fit its features"),
        ({"boundary": 0.0}, "does not fit its features"),
        ({"surplus": 1}, "damaged at surplus"),
        ({"version": "20260101T000000Z-00000000"}, "is that of 20260101T000000Z-00000000"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused_with_its_reason(
    with_model: Parts, changed: dict[str, Any], words: str
) -> None:
    rewrite(folder_of(with_model), **changed)
    assert words in loaded(with_model).trouble
    assert "train again" in loaded(with_model).trouble


def foreign_in_a_forest() -> bytes:
    made = forest()
    made.foreign = Foreign()
    return dump(made)


def a_function() -> bytes:
    return dump({"call": builtins.eval})


def another_model() -> bytes:
    from sklearn.linear_model import LinearRegression

    return dump(LinearRegression().fit(np.eye(3), np.ones(3)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (foreign_in_a_forest, "types that a forest has no use for: tests.jobs.test_train.Foreign"),
        (a_function, "eval"),
        (another_model, "is no isolation forest"),
        (lambda: dump(forest(2)), "is no isolation forest of"),
        (lambda: pickle.dumps(forest()), "is no skops file"),
        (lambda: b"", "is no skops file"),
    ],
    ids=["foreign", "function", "other model", "other width", "pickle", "empty"],
)
def test_foreign_content_is_refused_even_with_every_hash_mended(with_model: Parts, make: Any, words: str) -> None:
    rewrite(folder_of(with_model), body=make())
    assert words in loaded(with_model).trouble, loaded(with_model).trouble


@pytest.mark.parametrize("text", ["", "[]", '{"version": "../../etc", "manifest_sha256": "0"}'])
def test_a_damaged_pointer_is_refused(with_model: Parts, text: str) -> None:
    (folder_of(with_model) / "current.json").write_text(text)
    assert "current.json" in loaded(with_model).trouble


def test_no_pickle_is_read(with_model: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reads pickles is taken away: the model is loaded and used all the same."""
    joblib = import_module("joblib")
    for name in ("sklearn.ensemble", "skops.io"):
        import_module(name)

    def never(*_args: object, **_more: object) -> NoReturn:
        raise AssertionError("a pickle was read")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (joblib, "load")):
        monkeypatch.setattr(module, name, never)
    model = loaded(with_model).model
    assert model is not None and not np.isnan(model.scores(model.usual()[None, :])[0])


# ── in the ticks ──


def test_ticks_with_a_model_name_its_version_and_those_before_its_history_ended_do_without(
    with_model: Parts, store: Store
) -> None:
    ticks(with_model, store, 95, 100)
    run = ticks(with_model, store, 95, 110)
    assert run.model.model is not None
    publish(store, with_model.pipeline, at(MINUTES))
    told = read_table(published_dir(with_model.pipeline), "ticks").to_pylist()
    used = {tick["tick_at"] for tick in told if "node-forest" in tick["versions"]}
    assert used and min(used) > at(100) and max(used) == at(110)
    assert any(tick["tick_at"] < at(100) for tick in told)


def test_a_refused_model_degrades_visibly_and_changes_nothing_else(with_model: Parts, store: Store) -> None:
    rewrite(folder_of(with_model), sklearn="1.8.0")
    run = ticks(with_model, store, 100, 110)
    assert "scikit-learn 1.8.0" in run.model.trouble and run.ticks == 10
    publish(store, with_model.pipeline, at(MINUTES))
    rows = read_table(published_dir(with_model.pipeline), "coverage").to_pylist()
    assert {row["verdict"] for row in rows if row["kind"] == "model"} == {"degraded"}


def test_a_new_model_is_taken_up_without_a_restart(parts: Parts, store: Store) -> None:
    """As in vmanomaly changelog."""
    live = Live()
    assert ticks(parts, store, 95, 101, live).model.model is None
    made = train(parts, store, at(MINUTES), end=at(100)).manifest
    run = ticks(parts, store, 95, 105, live)
    assert made is not None and run.model.model is not None and run.model.model.version == made.version


def test_blocks_and_single_ticks_agree_with_a_model_too(trained: Path, tmp_path: Path) -> None:
    """Twelve minutes at once, and one by one with a new process in between. A lower boundary makes the forest talk."""
    before = copy(trained, tmp_path / "before")
    rewrite(folder_of(before), boundary=models.read_manifest(folder_of(before)).usual + 0.03)
    with open_store(before.pipeline.store.path) as opened:
        ticks(before, opened, 55, 100)
    found = []
    for name, ends in (("block", [112]), ("ticks", list(range(101, 113)))):
        parts = copy(tmp_path / "before", tmp_path / name)
        with open_store(parts.pipeline.store.path) as opened:
            live = Live()
            for end in ends:
                live = Live() if end == 106 else live
                ticks(parts, opened, 100, end, live)
            publish(opened, parts.pipeline, at(MINUTES))
            rows = read_table(published_dir(parts.pipeline), "node_scores").to_pylist()
            found.append((opened.findings(0, 2**62), rows, opened.load_state()))
    assert found[0] == found[1]
    assert any(row["detector"] == "forest" for row in found[0][1])
