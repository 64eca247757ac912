"""`anomaly init`: everything to begin with, nothing overwritten."""

import re
from pathlib import Path

import pytest

from anomaly.cli.init import starter_files
from anomaly.config.load import load_pipeline
from anomaly.config.topology import read_topology
from tests.cli.parts import anomaly, paragraph

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_writes_what_one_begins_with() -> None:
    result = anomaly("init", "mine")
    assert (result.exit_code, result.stderr) == (0, "")
    found = written(Path("mine"))
    assert {
        "pipelines/gpu-cluster.yaml",
        "pipelines/topology.csv",
        "pipelines/alertmanager.yml",
        "models/node-forest.yaml",
        "notebooks/10-first-look.ipynb",
    } <= found
    assert found == {str(path) for path in starter_files()}
    for name in found:
        assert (Path("mine") / name).read_bytes() == (ROOT / name).read_bytes()


def test_what_it_writes_is_valid_and_the_topology_is_one_as_soon_as_it_is_named() -> None:
    anomaly("init", "mine")
    pipeline = Path("mine/pipelines/gpu-cluster.yaml")
    assert [problem.what.split(":")[0] for problem in load_pipeline(pipeline).warnings] == ["names no topology"]
    text = pipeline.read_text()
    assert "# topology: {file: topology.csv}" in text
    pipeline.write_text(text.replace("# topology: {file: topology.csv}", "topology: {file: topology.csv}"))
    assert load_pipeline(pipeline).warnings == ()
    named = load_pipeline(pipeline).topology
    assert named is not None and named.file is not None
    assert set(read_topology(named.file).groups) == {"rack", "leaf", "pdu", "storage"}


def test_it_names_the_next_commands_and_they_work_as_written() -> None:
    shown = anomaly("init", "mine").stdout
    commands = re.findall(r"anomaly (\w+) pipelines/gpu-cluster\.yaml", shown)
    assert commands == ["check", "backtest", "run"]
    assert "cd mine && anomaly check" in shown
    assert anomaly("check", "mine/pipelines/gpu-cluster.yaml").exit_code == 0


def test_in_the_current_directory_nobody_is_told_to_go_anywhere() -> None:
    assert "cd " not in anomaly("init", ".").stdout


def test_beside_other_files_it_writes_too() -> None:
    Path("mine/pipelines").mkdir(parents=True)
    Path("mine/pipelines/own.yaml").write_text("own")
    assert anomaly("init", "mine").exit_code == 0
    assert Path("mine/pipelines/own.yaml").read_text() == "own"


def test_where_one_file_is_in_the_way_none_is_written() -> None:
    Path("mine/models").mkdir(parents=True)
    Path("mine/models/node-forest.yaml").write_text("my own model")
    result = anomaly("init", "mine")
    assert (result.exit_code, paragraph(result)) == (
        2,
        "anomaly: mine holds models/node-forest.yaml already, and nothing is overwritten; "
        "give another directory, or move them aside",
    )
    assert written(Path("mine")) == {"models/node-forest.yaml"}
    assert Path("mine/models/node-forest.yaml").read_text() == "my own model"


def test_a_second_time_names_a_few_and_counts_the_rest() -> None:
    anomaly("init", "mine")
    result = anomaly("init", "mine")
    assert result.exit_code == 2
    assert re.search(r"mine holds pipelines/gpu-cluster\.yaml, .* and \d+ more already", paragraph(result))


def test_a_link_that_leads_nowhere_is_in_the_way(tmp_path: Path) -> None:
    Path("mine/models").mkdir(parents=True)
    Path("mine/models/node-forest.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    assert anomaly("init", "mine").exit_code == 2
    assert not (tmp_path / "elsewhere.yaml").exists()


def test_a_file_is_no_directory() -> None:
    Path("mine").write_text("")
    result = anomaly("init", "mine")
    assert (result.exit_code, paragraph(result)) == (
        2,
        "anomaly: mine is a file; give a directory, new or existing",
    )
