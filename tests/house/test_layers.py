"""Imports go downward only: import-linter holds, every room has its layer, and the contracts bite."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
ROOMS = {
    path.stem
    for path in (ROOT / "anomaly").iterdir()
    if not path.name.startswith("_") and (path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py"))))
}


def lint_imports(where: Path) -> subprocess.CompletedProcess[str]:
    """import-linter on the package `anomaly` in `where`, with the contracts of the `pyproject.toml` there."""
    check = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    return subprocess.run(
        [sys.executable, "-c", check],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(where), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def contract(kind: str, words: str) -> dict[str, Any]:
    [found] = [each for each in CONTRACTS if each["type"] == kind and words in each["name"]]
    return found


def placed() -> set[str]:
    """The rooms that have a layer."""
    return set(re.findall(r"anomaly\.(\w+)", " ".join(contract("layers", "downward")["layers"])))


def test_every_contract_is_kept() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_has_its_layer() -> None:
    """A new folder or file at the top of the package says where it belongs before anybody imports it."""
    assert ROOMS - placed() == set(), "name them in the layers contract of pyproject.toml"


def test_every_room_but_the_store_is_kept_off_duckdb() -> None:
    watched = {module.removeprefix("anomaly.") for module in contract("forbidden", "DuckDB")["source_modules"]}
    assert ROOMS - watched == {"store"}


WRONG_WAY = {
    "detect": "anomaly.cli",
    "denoise": "anomaly.detect",
    "signals": "anomaly.store",
    "clock": "anomaly.records",
    "deliver": "duckdb",
    "features": "requests",
}


def test_an_import_that_goes_the_wrong_way_is_caught(tmp_path: Path) -> None:
    """On a package with our rooms, all of them empty but those that sin."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "anomaly").mkdir()
    for name in ("__init__", *placed()):
        sin = f"import {WRONG_WAY[name]}\n" if name in WRONG_WAY else ""
        (tmp_path / "anomaly" / f"{name}.py").write_text(sin)
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    for room, target in WRONG_WAY.items():
        assert f"anomaly.{room} is not allowed to import {target}" in done.stdout, done.stdout
