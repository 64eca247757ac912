"""The same ticks over history: collect into a scratch store, score with the production code, and say what it says."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anomaly.clock import Ms, align_down, format_time
from anomaly.errors import UsageError
from anomaly.jobs.carry import Live
from anomaly.jobs.collect import Collected, Progress, collect, quiet, warm_up
from anomaly.jobs.parts import Parts
from anomaly.jobs.score import score
from anomaly.jobs.stored import StoredSource
from anomaly.store.store import Store, open_store


@dataclass(frozen=True, slots=True)
class Backtest:
    """What a backtest came to. `lines` are the contract's JSON lines, in the order they would have been written."""

    start: Ms
    end: Ms
    lines: tuple[Mapping[str, Any], ...]
    ticks: int
    nodes: int
    collected: Collected = field(default_factory=lambda: Collected(0))


def backtest(parts: Parts, start: Ms, end: Ms, *, progress: Progress = quiet) -> Backtest:
    """Replay (start, end] on a scratch store that is gone afterwards; the service's own is never touched.

    As much history as a first start would take is pulled from before `start`, so that the first verdicts have their
    context; incidents that had ended before `start` are left out.
    """
    pipeline = parts.pipeline
    start, end = align_down(start, pipeline.step), align_down(end, pipeline.step)
    if isinstance(parts.source, StoredSource):
        parts.source.reaches(end)
    if end <= start:
        raise UsageError(
            f"the range from {format_time(start)} to {format_time(end)} holds no step",
            "give a --to that is later than --from",
        )
    with (
        tempfile.TemporaryDirectory(prefix="anomaly-backtest-") as directory,
        open_store(Path(directory) / "scratch.duckdb") as store,
    ):
        before = start - warm_up(pipeline)
        found = collect(parts, store, end, start=before, end=end, progress=progress)
        return replay(parts, store, start, end, found, progress=progress)


def replay(parts: Parts, store: Store, start: Ms, end: Ms, found: Collected, *, progress: Progress = quiet) -> Backtest:
    """Score what a scratch store holds, and read back the lines that concern (start, end]."""
    live = Live()
    run = score(parts, store, live, (), end, start=start - warm_up(parts.pipeline), end=end, progress=progress)
    lines = [line for line in store.incident_events() if _concerns(line, start)]
    nodes = len(live.directory.signals["up"].rows) if "up" in live.directory.signals else 0
    names = {row.entity.name for row in store.series() if row.entity.kind == "node"}
    return Backtest(start, end, tuple(lines), run.ticks, len(names) or nodes, found)


def _concerns(line: Mapping[str, Any], start: Ms) -> bool:
    return str(line["updated_at"]) >= format_time(start)
