"""What reports is never tuned on: seeds and kinds are held apart by what stands in the repository."""

import re
import subprocess
from pathlib import Path

import pytest

from anomaly.drill import DRILLS
from tests.quality.drills import QUICK, planned
from tests.quality.seeds import read_seeds
from tests.quality.stamp import ROOT

SEEDS = read_seeds()
OWN = ("tests/quality/", "docs/quality.md")
"""Where reporting seeds may stand."""


def texts() -> list[tuple[str, str]]:
    """Every text file of the repository."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git repository: nothing says which files are the project's")
    files = [Path(name) for name in listed.stdout.splitlines()]
    kinds = {".py", ".yaml", ".yml", ".md", ".toml", ".ipynb", ".txt", ".json", ""}
    return [(str(f), (ROOT / f).read_text(encoding="utf-8", errors="replace"))
            for f in files if f.suffix in kinds and (ROOT / f).is_file()]  # fmt: skip


def test_tuning_and_reporting_seeds_are_disjoint() -> None:
    assert not set(SEEDS.tuning) & set(SEEDS.reporting)
    for drawn in (SEEDS.quick, SEEDS.full):
        assert drawn and set(drawn) <= set(SEEDS.reporting)
    assert {task.seed for task in planned(SEEDS.full, quick=False)} == set(SEEDS.full)


def test_no_reporting_seed_stands_anywhere_else() -> None:
    """Whatever is run on one is run by `make bench-quality`."""
    number = re.compile(r"(?<![\d.])\d{6}(?![\d.])")
    seen = [
        (file, int(found))
        for file, text in texts()
        if not file.startswith(OWN)
        for found in number.findall(text.replace("_", ""))
        if int(found) in SEEDS.reporting
    ]
    assert seen == []


def test_seeds_of_the_repository_are_tuning_seeds() -> None:
    given = re.compile(r"seed[\"']?\s*[:=]?\s*(\d+)\b")
    seeds = {int(found) for file, text in texts() if not file.startswith(OWN) for found in given.findall(text)}
    assert {1, 7} <= seeds, "the pattern finds what is there"
    assert seeds <= set(SEEDS.tuning)


def test_kinds_kept_out_of_tuning_are_in_no_test_of_verdicts() -> None:
    assert set(DRILLS) > SEEDS.kept_out
    assert SEEDS.kept_out & set(QUICK), "the quick form has some too"
    tuned = ("tests/scenarios/", "tests/detect/", "tests/denoise/", "pipelines/", "anomaly/detect/", "anomaly/denoise/")
    told = [(file, name) for file, text in texts() if file.startswith(tuned) for name in SEEDS.kept_out if name in text]
    assert told == []
