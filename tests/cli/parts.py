"""Running commands in this process, and small pipelines to run them on."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner, Result

from anomaly.cli.main import main

ON_THE_WAY = re.compile(r"anomaly: (warning: .*|\w+ \d+% after \d+s$)")
"""Lines that a command may say before it fails."""

GOLDEN = Path(__file__).parents[1] / "golden"

SIMULATED = """\
cluster: small
simulate: {seed: 3, nodes: 8, faults: [node_lost], start: "2026-06-01T08:00:00Z"}
packs: [node]
store: {path: var/anomaly.duckdb}
jsonl: {path: incidents.jsonl}
context: 10m
"""

FROM_PROMETHEUS = """\
cluster: small
prometheus: {url: "URL", timeout: 5s}
packs: [storage]
store: {path: var/anomaly.duckdb}
jsonl: {path: incidents.jsonl}
"""


def anomaly(*args: str | Path, columns: int = 80, env: Mapping[str, str] | None = None) -> Result:
    """Run `anomaly` with standard output and error apart; nothing but SystemExit may come out of it."""
    settings: dict[str, str | None] = {
        "COLUMNS": str(columns),
        "ANOMALY_DEBUG": None,
        "NO_COLOR": None,
        "FORCE_COLOR": None,
    }
    settings |= env or {}
    result = CliRunner().invoke(main, [str(arg) for arg in args], env=settings, prog_name="anomaly")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def golden(name: str, shown: str) -> None:
    """What is shown is what stands in tests/golden. With ANOMALY_GOLDEN=write it is written there instead."""
    path = GOLDEN / name
    if os.environ.get("ANOMALY_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8"), f"{path.name} differs; ANOMALY_GOLDEN=write brings it up to date"


def paragraph(result: Result) -> str:
    """The error that a failed command shows: one paragraph on standard error, and nothing on standard output."""
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    said = [line for line in result.stderr.splitlines() if not ON_THE_WAY.match(line)]
    shown = "\n".join(said)
    assert shown.startswith("anomaly: ") and "\n\n" not in shown
    assert shown.count("anomaly: ") == 1, shown
    return shown


def write(folder: Path, text: str, name: str = "pipeline.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))
