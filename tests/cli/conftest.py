"""What a service has published of a small cluster with two faults: while they last, and after they are over."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from anomaly.jobs.parts import open_pipeline_store
from anomaly.jobs.publish import publish
from tests.jobs.parts import at, collect_to, score_to, small_cluster, two_faults

OPEN, OVER = 33, 56
"""Minutes after the beginning: both faults fire, both have ended."""


@dataclass(frozen=True, slots=True)
class Lived:
    """Directories not to be written to; `hot` overheats from minute 20 to 40, `lost` loses a GPU from 28 to 41."""

    open: Path
    over: Path
    hot: str
    lost: str


@pytest.fixture(scope="session")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    over = tmp_path_factory.mktemp("lived") / "var"
    still = over.with_name("open")
    parts = small_cluster(over, OVER)
    with open_pipeline_store(parts.pipeline) as store:
        collect_to(parts, store, at(OVER))
        score_to(parts, store, at(OPEN))
        publish(store, parts.pipeline, at(OPEN))
        shutil.copytree(over / "published", still / "published")
        score_to(parts, store, at(OVER))
        publish(store, parts.pipeline, at(OVER))
    hot, lost = (fault.nodes[0] for fault in two_faults())
    return Lived(still, over, hot, lost)


@pytest.fixture
def copied(lived: Lived, tmp_path: Path) -> Callable[[Path], Path]:
    """A copy of one of them, to be written to."""

    def copy(state: Path) -> Path:
        return Path(shutil.copytree(state, tmp_path / "var"))

    return copy
