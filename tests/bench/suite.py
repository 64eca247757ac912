"""Which rows there are, and how each is run."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tests.bench.measure import Row

QUICK: Mapping[str, Mapping[str, Any]] = {
    "start": {},
    "pull": {"series": 200, "points": 500},
    "tick": {"nodes": 50},
    "batch": {"nodes": 50, "minutes": 11},
    "growth": {"nodes": (4, 40, 100), "minutes": 6},
    "backtest": {"hours": 1},
    "others": {"nodes": 20, "minutes": 11},
}
"""The rows by name, and the small sizes of `--quick`: they show that it runs, not how fast it is."""

MODULES = {"backtest": "replay"}


def run(name: str, quick: bool) -> list[Row]:
    """The rows called `name`."""
    measure: Callable[..., list[Row]] = import_module(f"tests.bench.{MODULES.get(name, name)}").rows
    return measure(**(QUICK[name] if quick else {}))
