"""The past from what a service has published: the same verdicts, without Prometheus."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anomaly.backtest import backtest
from anomaly.clock import HOUR, MINUTE
from anomaly.errors import StoreError
from anomaly.jobs.carry import Live
from anomaly.jobs.collect import collect, warm_up
from anomaly.jobs.parts import Parts, assemble, open_pipeline_store
from anomaly.jobs.publish import publish
from anomaly.jobs.score import score
from anomaly.jobs.stored import StoredSource
from anomaly.records import Query
from tests.jobs.parts import STEP, T0, at, pipeline_in, small_cluster


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """A service that has published the hour with the two faults, what came before, and not the quarter that is open."""
    parts = small_cluster(tmp_path_factory.mktemp("served"), minutes=75)
    with open_pipeline_store(parts.pipeline) as store:
        begin = T0 - HOUR - warm_up(parts.pipeline)
        collect(parts, store, at(75), start=begin, end=at(75))
        score(parts, store, Live(), (), at(75), start=begin, end=at(75))
        publish(store, parts.pipeline, at(75))
    return parts


def told(lines: tuple[Mapping[str, Any], ...]) -> list[tuple[str, ...]]:
    return [tuple(str(line[key]) for key in ("id", "cause", "severity", "updated_at", "resolved_at")) for line in lines]


def test_published_samples_give_the_incidents_that_their_source_gave(served: Parts) -> None:
    stored = replace(served, source=StoredSource(served.state_dir))
    before, again = backtest(served, at(2), at(60)), backtest(stored, at(2), at(60))
    assert {line["cause"] for line in again.lines} == {"thermal", "gpu_lost"}
    assert told(again.lines) == told(before.lines)


def test_a_stored_pipeline_reads_a_state_directory(served: Parts, tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, simulate=None, stored=str(served.state_dir))
    source = assemble(pipeline, lambda: at(75)).source
    assert isinstance(source, StoredSource)
    assert (source.start, source.end) == (T0, T0 + HOUR)
    answer = source.pull(Query("gpu_temp", "", T0, T0 + 10 * MINUTE, 2 * STEP))
    assert len(answer.labels) == 24
    assert (answer.lengths == 21).all()


def test_what_is_not_published_yet_is_no_silence(served: Parts) -> None:
    stored = replace(served, source=StoredSource(served.state_dir))
    with pytest.raises(StoreError, match="up to 2026-11-30T11:00:00Z and not to 2026-11-30T11:10:00Z"):
        backtest(stored, at(2), at(70))


def test_where_nothing_is_published_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nothing is published under"):
        StoredSource(tmp_path)
