"""What the jobs' tests are made of: a small cluster with two faults, a source in memory, digests of a store."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anomaly.clock import MINUTE, Ms, parse_time
from anomaly.config.pipeline import Pipeline
from anomaly.errors import SourceError
from anomaly.jobs.carry import Live
from anomaly.jobs.collect import Collected, collect
from anomaly.jobs.parts import Parts, topology_of_csv
from anomaly.jobs.publish import publish_results, published_dir
from anomaly.jobs.score import ScoredRun, score
from anomaly.records import Labels, Pulled, Query, Topology
from anomaly.signals.catalogue import load_catalogue
from anomaly.source import Source
from anomaly.source.simulated import Fault, Scenario, SimulatedSource, make_cluster, topology_csv
from anomaly.store.published import read_table
from anomaly.store.store import Store

T0 = parse_time("2026-11-30T10:00:00Z")
STEP: Ms = 15_000


def at(minute: float) -> Ms:
    return T0 + round(minute * MINUTE)


def pipeline_in(folder: Path, **changes: Any) -> Pipeline:
    """A spec whose state lies in `folder`; its source is given to `parts_of` and never built from it."""
    found: dict[str, Any] = {
        "cluster": "small",
        "packs": ["dcgm", "node", "training"],
        "simulate": {"seed": 7, "nodes": 12},
        "store": {"path": str(folder / "anomaly.duckdb")},
    }
    return Pipeline.model_validate(found | changes)


def parts_of(pipeline: Pipeline, source: Source, topology: Topology | None = None) -> Parts:
    return Parts(pipeline, load_catalogue(pipeline.packs, pipeline.signals), topology or Topology(), source)


# ── two faults ──


def two_faults() -> tuple[Fault, Fault]:
    """One node of each job: a GPU that overheats from 10:20 to 10:40, a GPU that is lost from 10:28 to 10:41."""
    first, second = make_cluster(7, 12, 2, 2, rails=2).jobs
    return (
        Fault("thermal_throttle", (first.nodes[1],), at(20), at(40), 0.3, "1"),
        Fault("gpu_lost", (second.nodes[2],), at(28), at(41), device="1"),
    )


def small_cluster(folder: Path, minutes: float = 60) -> Parts:
    """Twelve nodes of two GPUs in two jobs, and `two_faults`."""
    cluster = make_cluster(7, 12, 2, 2, rails=2)
    source = SimulatedSource(Scenario(cluster, two_faults(), T0, at(minutes), seed=7))
    return parts_of(pipeline_in(folder), source, topology_of_csv(topology_csv(cluster)))


# ── a source that is a function ──

Value = Callable[[Labels, Ms], float | None]


@dataclass
class MemorySource:
    """Answers each signal from `signals[name] = (label sets, value at an instant or None)`. Signals that are not there
    are empty answers; those in `away` raise what stands there. `asked` keeps every query."""

    signals: dict[str, tuple[Sequence[Labels], Value]]
    away: dict[str, SourceError] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    asked: list[Query] = field(default_factory=list)

    def pull(self, query: Query) -> Pulled:
        self.asked.append(query)
        if query.signal in self.away:
            raise self.away[query.signal]
        known, value = self.signals.get(query.signal, ((), lambda labels, ts: None))
        labels: list[Labels] = []
        lengths: list[int] = []
        ts: list[Ms] = []
        values: list[float] = []
        for each in known:
            found = [(t, value(each, t)) for t in range(query.start, query.end + 1, query.step)]
            points = [(t, v) for t, v in found if v is not None]
            if points:
                labels.append(each)
                lengths.append(len(points))
                ts += [t for t, _ in points]
                values += [v for _, v in points]
        return Pulled(
            tuple(labels), np.array(lengths, np.int64), np.array(ts, np.int64), np.array(values, float), self.warnings
        )


# ── one-shot runs ──


def collect_to(parts: Parts, store: Store, end: Ms, now: Ms | None = None) -> Collected:
    """Collect up to `end`, from T0 on in a new store."""
    start = T0 if store.watermark("collected") is None else None
    return collect(parts, store, end if now is None else now, start=start, end=end)


def score_to(parts: Parts, store: Store, end: Ms, live: Live | None = None, sinks: Sequence[Any] = ()) -> ScoredRun:
    """Every tick up to `end`, from T0 on in a new store; a new `Live` is a new process."""
    return score(parts, store, live or Live(), sinks, end, start=T0, end=end)


# ── what a store holds ──


def sample_digests(store: Store) -> dict[str, tuple[int, str]]:
    """Signal → (how many samples, a hash of (series id, instant, value) in order)."""
    out = {}
    for name in sorted({row.signal for row in store.series()}):
        found = store.read(name, 0, 2**62)
        order = np.lexsort((found.ts, found.series_id))
        digest = hashlib.sha256()
        for column in (found.series_id, found.ts, found.values):
            digest.update(np.ascontiguousarray(column[order]).tobytes())
        out[name] = (len(found), digest.hexdigest())
    return out


def identities(store: Store) -> list[tuple[int, str, str, str, str, tuple[tuple[str, str], ...]]]:
    return [
        (row.series_id, row.signal, str(row.entity), row.device, row.part, tuple(sorted(row.labels.items())))
        for row in store.series()
    ]


def conclusions(parts: Parts, store: Store) -> dict[str, Any]:
    """Everything the ticks said: incidents, their events, findings, node scores, ticks, dropped, state, baselines."""
    publish_results(store, parts.pipeline)
    found: dict[str, Any] = {
        "incidents": store.incidents(),
        "events": store.incident_events(),
        "findings": store.findings(0, 2**62),
        "state": store.load_state(),
        "baselines": {
            name: (keys, ends.tolist(), np.nan_to_num(values, nan=-1.0).tolist())
            for name, (keys, ends, values) in store.baselines().items()
        },
    }
    for table in ("node_scores", "ticks", "dropped", "coverage"):
        rows = read_table(published_dir(parts.pipeline), table)
        found[table] = [] if rows is None else rows.to_pylist()
    return found


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What differs, so that a failure says it in a line rather than in a megabyte."""
    out = []
    for name in sorted({*one, *other}):
        a, b = one.get(name), other.get(name)
        if a == b:
            continue
        if isinstance(a, list) and isinstance(b, list):
            pairs = [f"{x!r} != {y!r}" for x, y in zip(a, b, strict=False) if x != y]
            out.append(f"{name}: {len(a)} against {len(b)} rows; {(pairs or ['the longer one goes on'])[0][:600]}")
        else:
            out.append(f"{name}: {str(a)[:300]} against {str(b)[:300]}")
    return out
