"""Documents promise only what is there: commands, options, targets, paths; and they name no machine of ours."""

import re
from pathlib import Path

import click
import pytest

from tests.house import documents
from tests.house.documents import Command

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("pipelines/*.md"), *ROOT.glob("docs/**/*.md")])
TEXT = {".py", ".md", ".yaml", ".yml", ".toml", ".ipynb", ".sql", ".csv", ".json", ""}
GENERATED = {"var", "__pycache__", "dist", "build"}

MACHINE_PATH = re.compile(r"(?<![\w.*~-])/(?:home|root|work|Users|mnt)/\w")
REGISTRY = re.compile(r"(?:pypi|pythonhosted|artifactory|nexus)\.\w|://[^\s/]+/simple\b")
ELSEWHERE = re.compile(r"\bDESIGN\.\w|\b[Dd]esign(?:'s)? (?:section|tier|rule)|(?<!\w)facts[/]")
"""Pages that do not come with the project."""


def by_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def verbs() -> dict[str, click.Command]:
    """The commands that `anomaly` really has."""
    from anomaly.cli.main import main

    assert isinstance(main, click.Group)
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: command for name, command in found.items() if command}


def test_the_three_documents_every_visitor_looks_for_are_there() -> None:
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md"} <= {by_name(path) for path in DOCUMENTS}


@pytest.mark.parametrize("path", DOCUMENTS, ids=by_name)
def test_every_command_in_a_document_exists_with_its_options(path: Path) -> None:
    known = verbs()
    for command in documents.commands(path.read_text()):
        if command.program != "anomaly" or command.verb.startswith("-"):
            continue
        for verb in command.verb.split("|"):
            assert verb in known, f"`anomaly {verb}` does not exist; there are {', '.join(known)}"
            there = {name for param in known[verb].params for name in (*param.opts, *param.secondary_opts)}
            assert set(command.options) <= {*there, "-h", "--help"}, f"options of `anomaly {verb}`: {sorted(there)}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=by_name)
def test_every_make_target_in_a_document_exists(path: Path) -> None:
    targets = documents.make_targets(ROOT / "Makefile")
    named = {command.verb for command in documents.commands(path.read_text()) if command.program == "make"}
    assert {name for name in named if "=" not in name} <= targets


@pytest.mark.parametrize("path", DOCUMENTS, ids=by_name)
def test_every_path_in_a_document_exists(path: Path) -> None:
    assert [named for named in documents.paths(path.read_text()) if not (ROOT / named).exists()] == []


def test_the_readme_names_the_two_commands_that_suffice_and_the_way_to_ones_own_prometheus() -> None:
    named = {(each.program, each.verb) for each in documents.commands((ROOT / "README.md").read_text())}
    assert {("make", "demo"), ("make", "test"), ("anomaly", "run")} <= named


def test_contributing_explains_each_stage_that_can_fail() -> None:
    stages = set(re.findall(r'^stage "(.*)"$', (ROOT / ".ci/run").read_text(), re.MULTILINE))
    assert stages, "no stage found in .ci/run"
    text = (ROOT / "CONTRIBUTING.md").read_text()
    lint = re.findall(r"\$\(BIN\)/(ruff check|ruff format|mypy|lint-imports)", (ROOT / "Makefile").read_text())
    missing = [stage for stage in {*stages, *lint} if not re.search(rf"^\*\*.*{re.escape(stage)}", text, re.MULTILINE)]
    assert missing == []


def test_contributing_has_a_row_for_every_room() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rooms = {path.parent.name for path in (ROOT / "anomaly").glob("*/__init__.py")}
    assert {room for room in rooms if f"| `{room}/`" not in text} == set()


def test_decisions_are_numbered_without_gaps_or_repeats() -> None:
    numbers = re.findall(r"^\*\*D(\d+)\b", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, len(numbers) + 1))
    assert numbers


def test_the_changelog_keeps_its_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
    kinds = {"Added", "Changed", "Changed verdicts", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds


def hidden(folder: str) -> bool:
    """Environments, caches, version control: all but the folder of CI."""
    return folder.startswith(".") and folder != ".ci"


def text_files() -> list[Path]:
    return sorted(
        path
        for path in ROOT.rglob("*")
        if path.suffix in TEXT
        and path.is_file()
        and path.name != "LICENSE"
        and not any(part in GENERATED or hidden(part) for part in path.relative_to(ROOT).parts[:-1])
    )


def test_no_file_names_a_machine_a_registry_or_a_page_that_does_not_come_with_the_project() -> None:
    files = text_files()
    assert len(files) > 20, "the search for files found hardly any"
    hits = [
        f"{by_name(path)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line) or REGISTRY.search(line) or ELSEWHERE.search(line)
    ]
    assert hits == []


def test_commands_are_read_from_blocks_and_spans_but_not_from_prose() -> None:
    text = (
        "An anomaly score makes no sense here; `import anomaly` neither, `anomaly run FILE` does.\n"
        "```console\n"
        "$ make demo  # three minutes\n"
        "$ .venv/bin/anomaly backtest p.yaml \\\n"
        "    --from T [--truth FILE]\n"
        "```\n"
    )
    assert documents.commands(text) == [
        Command("make", ("demo",)),
        Command("anomaly", ("backtest", "p.yaml", "--from", "T", "--truth", "FILE")),
        Command("anomaly", ("run", "FILE")),
    ]
    assert documents.commands(text)[1].options == ("--from", "--truth")
    assert documents.paths("`anomaly/detect/` and `tests/x.py` but not `anomaly/<room>/` or anomaly/prose") == [
        "anomaly/detect/",
        "tests/x.py",
    ]
