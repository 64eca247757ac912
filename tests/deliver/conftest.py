from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from tests import needs
from tests.deliver.parts import Alertmanager

SHIPPED = Path(__file__).parents[2] / "pipelines" / "alertmanager.yml"


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as found:
        yield found


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[Callable[[], Alertmanager]]:
    """Makes real Alertmanagers (not yet started) with the shipped configuration."""
    binary = needs.binary("alertmanager")
    made: list[Alertmanager] = []

    def make() -> Alertmanager:
        made.append(Alertmanager(binary, tmp_path / f"am{len(made)}", SHIPPED))
        return made[-1]

    yield make
    for one in made:
        one.stop()
