"""What is put into PromQL cannot leave its place."""

import ast
from pathlib import Path

import pytest

from anomaly.config.packs import pack_names
from anomaly.errors import ConfigError
from anomaly.signals.catalogue import load_catalogue
from tests.cli.parts import SIMULATED, anomaly, write

ROOT = Path(__file__).parents[2]

ESCAPES = ['up"} or vector(1) or {a="', "up} or {", "a|b", "up\\", "", " ", "up\nup", "9lives", "métrique"]


@pytest.mark.parametrize("name", ESCAPES)
def test_a_metric_name_that_is_none_is_refused(name: str) -> None:
    for metrics in ([name], ["up", name]):
        entry = {"metrics": metrics, "unit": "none", "bad": "high", "layer": "host"}
        with pytest.raises(ConfigError, match="is no metric name"):
            load_catalogue(("node",), {"own": entry})


def test_the_command_line_says_it_with_the_place(tmp_path: Path) -> None:
    signals = 'signals: {own: {metrics: ["up} or {"], unit: none, bad: high, layer: host}}\n'
    result = anomaly("check", write(tmp_path, SIMULATED + signals))
    assert (result.exit_code, "is no metric name" in result.stderr) == (3, True), result.stderr


def test_every_pack_has_names_only() -> None:
    for signal in load_catalogue(pack_names(), {}).signals.values():
        assert all(name.replace("_", "a").replace(":", "a").isalnum() for name in signal.metrics), signal.name


def test_nowhere_else_is_text_put_into_a_selector() -> None:
    """PromQL is made in one place; a formatted string that looks like a selector elsewhere has to be looked at."""
    hits = []
    for path in sorted((ROOT / "anomaly").rglob("*.py")):
        if "simulated" in path.parts:
            continue  # plays a Prometheus: it writes expositions, not queries
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
                if ('="' in text and "{" in text) or '=~"' in text:
                    hits.append(f"{path.name}:{node.lineno}")
    assert hits == []
