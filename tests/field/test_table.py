"""docs/field-bugs.md: every known bug has its line, every line its test (or a reason), every test names its thread."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "field-bugs.md"
HERE = Path(__file__).parent

KNOWN = {
    "G": "1 2 3 5 6 7 9 10 11 13 14 15 16 17 18 19 20 22 23 24 25 26 28 29 31 32 33 34 35 36 37 38 41 43 44 45",
    "M": "1 2 3 4 6 7 8 10 11 12 13 14 15 17 18 19 20 21 23 24 25 26 27 30 31 32 34 35 36 37 39 40 41 43 45 46 47 48"
    " 49 50 51 52 53 54 55 56 57 58",
    "P": "19 20 21 22 23 25 26 27 28 30 31 33 34 35 37 38 39 41 42 44 45 48 49 50 51 52 1 2 3 5 6 7 8 10 11 12 14 15"
    " 16 18",
}
"""Numbers of the bugs that were collected: GPU and node faults (G), what the metrics do (M), and the way from a source
to an alert (P: ingest, detection, delivery)."""

REASON = re.compile(r"\b(?:open|out of scope): \S+")


@dataclass(frozen=True)
class Line:
    """One bug. `tests` are node ids, or scenario files."""

    number: str
    threads: tuple[str, ...]
    here: str
    tests: tuple[str, ...]


def lines() -> list[Line]:
    out = []
    for row in re.findall(r"^\| (\w+) \|(.*)\|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE):
        threads, _, here, tests = (cell.strip() for cell in row[1].split("|"))
        out.append(Line(row[0], tuple(threads.split(", ")), here, tuple(re.findall(r"`([^`]+)`", tests))))
    return out


LINES = lines()


def text_of(test: str) -> str | None:
    """What a test says of itself: the docstring of a function in one line, a scenario file; None: no such test."""
    path, _, function = test.partition("::")
    if not (ROOT / path).is_file():
        return None
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".yaml"):
        return text
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == function]
    return " ".join((ast.get_docstring(found[0]) or "").split()) if found else None


def test_every_known_bug_has_its_line_once() -> None:
    known = [f"{letter}{number}" for letter, numbers in KNOWN.items() for number in numbers.split()]
    assert [line.number for line in LINES] == known


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.number)
def test_a_line_names_tests_that_exist_or_says_why_there_is_none(line: Line) -> None:
    assert line.tests or REASON.search(line.here), "neither a test nor a reason"
    assert [test for test in line.tests if text_of(test) is None] == []


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.number)
def test_a_test_names_a_thread_that_it_repeats(line: Line) -> None:
    assert line.threads
    for test in line.tests:
        assert any(re.search(re.escape(thread) + r"(?!\d)", text_of(test) or "") for thread in line.threads), test


def test_every_test_of_a_field_bug_stands_in_the_table() -> None:
    there = {test for line in LINES for test in line.tests}
    here = {
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in sorted(HERE.glob("test_*.py"))
        if path != Path(__file__)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert here - there == set()
