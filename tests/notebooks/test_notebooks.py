"""Every notebook runs from top to bottom on the demo, and its charts hold data."""

import ast
import contextlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.analyst.specs import data_of
from tests.cli.parts import anomaly
from tests.notebooks.execute import CHART

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LONGEST_S = 60
"""Of processor time: other tests run beside it."""

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_of(path: Path) -> list[dict[str, Any]]:
    """The code cells, their source as one text."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@each_notebook
def test_a_notebook_in_git_has_no_outputs_and_is_small(path: Path) -> None:
    nbformat.validate(json.loads(path.read_text()))
    for cell in code_of(path):
        assert cell["outputs"] == [] and cell["execution_count"] is None, f"clear the outputs of {path.name}"
    assert path.stat().st_size < 50_000


@each_notebook
def test_a_notebook_imports_nothing_of_ours_but_the_analysts_door(path: Path) -> None:
    for cell in code_of(path):
        for node in ast.walk(ast.parse(cell["source"])):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{alias.name}" for alias in node.names}
            else:
                continue
            assert {name for name in names if name.startswith("anomaly")} <= {"anomaly.analyst"}


@pytest.fixture(scope="session")
def demo_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `anomaly demo` leaves; `ANOMALY_DEMO_STATE` names one that is there already."""
    if there := os.environ.get("ANOMALY_DEMO_STATE"):
        return Path(there).absolute()
    folder = tmp_path_factory.mktemp("notebooks")
    with contextlib.chdir(folder):
        result = anomaly("demo")
    assert result.exit_code == 0, result.stderr
    return folder / "var/demo"


def spent() -> float:
    """Processor seconds of this process' ended children, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
@each_notebook
def test_it_runs_from_top_to_bottom_and_its_charts_hold_data(path: Path, demo_state: Path, tmp_path: Path) -> None:
    homes = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    env = {**os.environ, "ANOMALY_STATE": str(demo_state), **{name: str(tmp_path / name.lower()) for name in homes}}
    result = tmp_path / path.name
    before = spent()
    done = subprocess.run(
        [sys.executable, "-m", "tests.notebooks.execute", str(path), str(result)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * LONGEST_S,
    )
    assert done.returncode == 0, done.stderr
    assert spent() - before < LONGEST_S
    cells = code_of(result)
    said = [output["text"] for cell in cells for output in cell["outputs"] if output["output_type"] == "stream"]
    assert said == [], "warnings and prints have no place in a notebook"
    drawn = [output["data"][CHART] for cell in cells for output in cell["outputs"] if CHART in output.get("data", {})]
    assert len(drawn) == sum(cell["source"].startswith("analyst.") for cell in cells) > 0
    for spec in drawn:
        assert data_of(spec) and all(data_of(spec)), spec["title"]
