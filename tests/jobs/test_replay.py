"""Replay from the store equals live, tick by tick, resolves included: over restarts and over data that came late."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anomaly.clock import Ms
from anomaly.jobs.carry import Live
from anomaly.jobs.collect import collect
from anomaly.jobs.parts import Parts, open_pipeline_store
from anomaly.records import Phase, Pulled, Query
from anomaly.source import Source
from anomaly.store.store import Store
from tests.jobs.parts import (
    T0,
    at,
    collect_to,
    conclusions,
    differences,
    parts_of,
    pipeline_in,
    score_to,
    small_cluster,
    two_faults,
)

END = 60
pytestmark = pytest.mark.slow

HELD_BACK = ((24.0, 27.0), (31.0, 33.0))
"""Minutes whose GPU metrics of the overheating node do not come in time, in the middle of its fault."""
COMES_AT = 39.0
LATE_CHECK = 10
"""Minutes; the search for late samples looks back two of these."""


@dataclass
class Belated:
    """The cluster's source, with some samples that Prometheus has only from `COMES_AT` on."""

    inner: Source
    node: str
    now: list[Ms] = field(default_factory=lambda: [T0])

    def pull(self, query: Query) -> Pulled:
        found = self.inner.pull(query)
        if self.now[0] >= at(COMES_AT):
            return found
        owner = np.repeat([f"{self.node}:" in labels.get("instance", "") for labels in found.labels], found.lengths)
        held = np.zeros(len(found.ts), bool)
        for first, last in HELD_BACK:
            held |= (found.ts > at(first)) & (found.ts <= at(last)) & owner
        return _picked(found, ~held)


def _picked(found: Pulled, keep: np.ndarray) -> Pulled:
    row = np.repeat(np.arange(len(found.labels)), found.lengths)[keep]
    lengths = np.bincount(row, minlength=len(found.labels))
    some = np.flatnonzero(lengths)
    labels = tuple(found.labels[i] for i in some.tolist())
    return replace(found, labels=labels, lengths=lengths[some], ts=found.ts[keep], values=found.values[keep])


@dataclass
class Stored:
    """What a store holds, as a source: the samples that were there when they were scored, the late ones not."""

    store: Store

    def pull(self, query: Query) -> Pulled:
        found = self.store.read(query.signal, query.start, query.end)
        order = np.lexsort((found.ts, found.series_id))
        ids, lengths = np.unique(found.series_id, return_counts=True)
        labels = {row.series_id: row.labels for row in self.store.series(query.signal)}
        known = tuple(labels[i] for i in ids.tolist())
        return Pulled(known, lengths.astype(np.int64), found.ts[order], found.values[order])


def pulled_from(source: Source, folder: Path) -> Parts:
    """The small cluster's parts as with a Prometheus, which is asked again for what may come late."""
    late = {"url": "http://127.0.0.1:1", "query_offset": "0s", "reread": "30s", "late_check": f"{LATE_CHECK}m"}
    return parts_of(pipeline_in(folder, simulate=None, prometheus=late), source, small_cluster(folder, END).topology)


def lived(parts: Parts, belated: Belated) -> dict[str, Any]:
    """Minute by minute, as a service does, in four lives; what it concluded, and what came late."""
    for first, last in ((1, 17), (18, 25), (26, 41), (42, END)):
        with open_pipeline_store(parts.pipeline) as store:
            live = Live()
            for minute in range(first, last + 1):
                belated.now[0] = at(minute)
                collect_to(parts, store, at(minute))
                score_to(parts, store, at(minute), live)
    with open_pipeline_store(parts.pipeline) as store:
        return {**conclusions(parts, store), "late": store.late_samples(0, 2**62)}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> tuple[Parts, Mapping[str, Any]]:
    folder = tmp_path_factory.mktemp("service")
    belated = Belated(small_cluster(folder, END).source, two_faults()[0].nodes[0])
    parts = pulled_from(belated, folder)
    return parts, lived(parts, belated)


def test_the_service_lived_through_what_is_compared(service: tuple[Parts, Mapping[str, Any]]) -> None:
    """Both faults fired and resolved, and many samples came too late to be judged."""
    _, found = service
    assert {incident.entity.name for incident in found["incidents"]} == {fault.nodes[0] for fault in two_faults()}
    assert all(incident.phase is Phase.RESOLVED for incident in found["incidents"])
    assert len(found["late"]) > 50
    assert len(found["ticks"]) >= END - 1


@pytest.mark.parametrize("every", [END, 13])
def test_a_replay_says_what_the_service_said(
    service: tuple[Parts, Mapping[str, Any]], tmp_path: Path, every: int
) -> None:
    """Every tick, event and resolution: in one block and in blocks that end anywhere, each a process of its own."""
    lived_in, live = service
    with open_pipeline_store(lived_in.pipeline) as held:
        parts = pulled_from(Stored(held), tmp_path)
        with open_pipeline_store(parts.pipeline) as store:
            collect(parts, store, at(END), start=T0, end=at(END))
    with open_pipeline_store(parts.pipeline) as store:
        for minute in [*range(every, END, every), END]:
            score_to(parts, store, at(minute), Live())
        again = conclusions(parts, store)
    assert differences({name: told for name, told in live.items() if name != "late"}, again) == []


def test_what_came_late_would_have_changed_something(service: tuple[Parts, Mapping[str, Any]], tmp_path: Path) -> None:
    """Otherwise the comparison above would hold for a replay that looks at everything, too."""
    _, live = service
    parts = pulled_from(small_cluster(tmp_path, END).source, tmp_path)
    with open_pipeline_store(parts.pipeline) as store:
        collect(parts, store, at(END), start=T0, end=at(END))
        score_to(parts, store, at(END))
        ideal = conclusions(parts, store)
    assert differences({"findings": live["findings"]}, {"findings": ideal["findings"]}) != []
