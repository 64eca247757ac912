"""A real database file for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from anomaly.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "var" / "anomaly.duckdb") as opened:
        yield opened
