"""Help pages, the version, completion, and how soon they are there."""

import os
import subprocess
import sys

import pytest

from anomaly import __version__
from anomaly.cli.main import COMMANDS
from tests.cli.parts import anomaly, golden

HEAVY = ("pandas", "polars", "duckdb", "sklearn", "pydantic", "requests", "numpy", "rich", "yaml")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_page_of_a_command_is_as_recorded(command: str) -> None:
    result = anomaly(command, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    golden(f"help/{command}.txt", result.stdout)


def test_the_help_page_of_the_program_is_as_recorded() -> None:
    golden("help/anomaly.txt", anomaly("--help").stdout)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_short_form_of_help_works_everywhere(command: str) -> None:
    words = [command] if command else []
    assert anomaly(*words, "-h").stdout == anomaly(*words, "--help").stdout


def test_every_line_of_the_command_list_is_whole() -> None:
    assert "..." not in anomaly("--help").stdout.partition("Commands:")[2]


def test_without_a_command_the_help_page_goes_to_standard_error() -> None:
    result = anomaly()
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == anomaly("--help").stdout


@pytest.mark.parametrize(
    "command",
    ["check", "backtest", "drill", "demo", "incidents", "explain", "why", "offenders", "report", "doctor"],
)
def test_whatever_prints_a_table_prints_json_too(command: str) -> None:
    assert "--format [table|json]" in anomaly(command, "--help").stdout


def test_the_version() -> None:
    assert anomaly("--version").stdout == f"anomaly {__version__}\n"


def imported_by(*words: str) -> set[str]:
    """What a command line loads, in a process of its own."""
    script = (
        "import sys, contextlib\n"
        "from anomaly.cli.main import main\n"
        "with contextlib.suppress(SystemExit):\n"
        f"    main({list(words)!r})\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_the_list_of_commands_imports_none_of_them() -> None:
    """As in 4n4nd/prometheus-api-client-python#225, 4n4nd/prometheus-api-client-python#251."""
    loaded = imported_by("--help")
    assert loaded & {f"anomaly.cli.{command}" for command in COMMANDS} == set()
    assert loaded & {*HEAVY} == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_page_imports_anything_heavy(command: str) -> None:
    """As in 4n4nd/prometheus-api-client-python#225, 4n4nd/prometheus-api-client-python#251."""
    loaded = imported_by(command, "--help")
    assert f"anomaly.cli.{command}" in loaded
    assert loaded & {*HEAVY} == set()


def test_it_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "anomaly.cli.main", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"anomaly {__version__}\n", "")


def test_the_shell_completes_commands_and_options() -> None:
    env = {**os.environ, "_ANOMALY_COMPLETE": "bash_complete"}
    done = [
        subprocess.run(
            [sys.executable, "-c", "from anomaly.cli.main import main; main(prog_name='anomaly')"],
            env={**env, "COMP_WORDS": words, "COMP_CWORD": cword},
            capture_output=True,
            text=True,
        ).stdout
        for words, cword in (("anomaly back", "1"), ("anomaly backtest --tr", "2"))
    ]
    assert [text.strip() for text in done] == ["plain,backtest", "plain,--truth"]
