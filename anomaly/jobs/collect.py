"""Collect: pull what is new of every signal, in chunks; each chunk is one transaction with its watermarks."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from anomaly.clock import Ms, align_down, align_up
from anomaly.config.pipeline import Pipeline
from anomaly.detect.habit import LEAST, bucket_length
from anomaly.errors import SourceError, SourceUnavailable
from anomaly.jobs.parts import Parts
from anomaly.records import Pulled, Query, Samples
from anomaly.signals.identity import Aliases, aliases_from, identify
from anomaly.signals.model import Signal
from anomaly.store.samples import COLLECTED, CollectedChunk, SignalChunk
from anomaly.store.store import Store

CHUNK_STEPS = 60
"""Steps of the pipeline pulled and committed at once: a quarter of an hour at 15 s."""
PATIENCE = 3
"""So many signals in a row without an answer, and one that had an answer is asked again: if the source is away, the
chunk is given up before every signal has waited for its time-out, and nothing of it counts as collected."""

COMPLETE = ("PromQL ", "native histograms are not read")
"""How warnings begin that speak of the query or of us; any other says that the answer may lack something (Thanos: a
store that did not answer, VictoriaMetrics: `isPartial`)."""

NAMES = "node_names"
"""The signal whose labels translate addresses to node names; pulled first."""

Progress = Callable[[str, float], None]
"""Called with what is going on and how much of it is done (0 to 1)."""


def quiet(_what: str, _share: float) -> None:
    """No progress is shown."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What one run of the job did."""

    through: Ms
    inserted: int = 0
    late: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    """Signal → why it could not be pulled (in the newest chunk)."""
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """Signal → why an answer of this run may not be everything, in the source's words."""
    warnings: tuple[str, ...] = ()
    """Whatever else the source said of its answers."""
    unidentified: Mapping[str, int] = field(default_factory=dict)
    """Signal → how many series name no entity."""


def collect(
    parts: Parts, store: Store, now: Ms, *, start: Ms | None = None, end: Ms | None = None, progress: Progress = quiet
) -> Collected:
    """Bring the store up to `end` (default: as late as data is complete at `now`).

    The first run begins `context` back. One signal that cannot be pulled stays behind alone and says so; when none can
    be, or the source goes away meanwhile, the error is raised and the chunk is left for the next run.
    """
    pipeline = parts.pipeline
    step = pipeline.step
    source = pipeline.prometheus
    through = align_down(now - (source.query_offset if source else 0) if end is None else end, step)
    marks = store.watermarks()
    known = marks.get(COLLECTED)
    floor = start if start is not None else known if known is not None else through - warm_up(pipeline)
    floor = max(align_down(floor, step), through - pipeline.catch_up) if start is None else align_down(floor, step)
    report = Collected(floor if known is None else max(known, floor))
    begin = max(floor, report.through) if start is None else floor
    total = max(1, through - begin)
    first = True
    while begin < through or first:
        chunk_end = min(align_up(begin + 1, CHUNK_STEPS * step), through)
        if chunk_end <= begin:
            break
        back = _look_back(pipeline, begin, chunk_end) if first and known is not None and start is None else 0
        report = _chunk(parts, store, begin, chunk_end, back, report)
        begin, first = chunk_end, False
        progress("collect", 1 - (through - begin) / total)
    return report


def warm_up(pipeline: Pipeline) -> Ms:
    """How much history a first start takes: the configured context, or what habits need at coarse steps."""
    return max(pipeline.context, pipeline.scale(3 * LEAST * bucket_length(pipeline.written.step)))


def _look_back(pipeline: Pipeline, begin: Ms, end: Ms) -> Ms:
    """How far before `begin` to pull again: what is not final yet, and now and then further, for late samples."""
    source = pipeline.prometheus
    if source is None:
        return 0
    if source.late_check and begin // source.late_check != end // source.late_check:
        return max(source.reread, 2 * source.late_check)
    return source.reread


def _chunk(parts: Parts, store: Store, begin: Ms, end: Ms, back: Ms, so_far: Collected) -> Collected:
    signals = sorted(parts.catalogue.signals.values(), key=lambda signal: signal.name != NAMES)
    marks = store.watermarks()
    aliases = _aliases(parts, (row.labels for row in store.series(NAMES)))
    chunks: list[SignalChunk] = []
    failed: dict[str, str] = {}
    errors: list[SourceError] = []
    unidentified: Counter[str] = Counter()
    incomplete: dict[str, str] = {}
    warnings: list[str] = []
    answered: Query | None = None
    unanswered = 0
    for signal in signals:
        native = parts.pace.real(signal.native(parts.step))
        # A signal that could not be pulled for days is not pulled for days at once.
        behind = max(min(begin, marks.get(signal.name, begin)), end - max(parts.pipeline.catch_up, end - begin))
        query = Query(
            signal.name,
            signal.promql(parts.step, parts.pace.real(signal.window(parts.step))),
            align_down(behind - back, native) + native,
            align_down(end, native),
            native,
        )
        if query.end < query.start:
            continue
        try:
            pulled = parts.source.pull(query)
        except SourceError as error:
            failed[signal.name] = str(error)
            errors.append(error)
            unanswered = unanswered + 1 if isinstance(error, SourceUnavailable) else 0
            if unanswered >= PATIENCE:
                if answered is None:
                    raise
                parts.source.pull(answered)  # raises where the source itself is away
                unanswered = 0
            continue
        answered, unanswered = query, 0
        if signal.name == NAMES:
            aliases = _aliases(parts, [*pulled.labels, *(row.labels for row in store.series(NAMES))])
        samples, lost = _identified(signal, pulled, aliases, store)
        unidentified[signal.name] += lost
        missing = tuple(text for text in pulled.warnings if not text.startswith(COMPLETE))
        warnings += [f"{signal.name}: {text}" for text in pulled.warnings if text not in missing]
        # Everything after the grid time before `start`, which was not asked for again and must stay.
        first = query.start - native + 1
        if missing:
            incomplete[signal.name] = "; ".join(missing)
            # What was read before stays: of what this answer lacks nobody knows whether it is gone.
            first = max(first, marks.get(signal.name, first - 1) + 1)
            samples = _since(samples, first)
        if first <= query.end:
            chunks.append(SignalChunk(signal.name, first, query.end, samples, missing))
    if errors and answered is None:
        raise errors[0]
    scored = store.scored_through()
    done = store.commit_chunk(
        CollectedChunk(begin, end, tuple(chunks), tuple(failed.items()), scored if scored is not None else 0)
    )
    return Collected(
        end,
        so_far.inserted + done.inserted,
        so_far.late + done.late,
        failed,
        {**so_far.incomplete, **incomplete},
        tuple(dict.fromkeys((*so_far.warnings, *warnings))),
        {name: count for name, count in unidentified.items() if count},
    )


def _since(samples: Samples, first: Ms) -> Samples:
    keep = samples.ts >= first
    return Samples(samples.series_id[keep], samples.ts[keep], samples.values[keep])


def _aliases(parts: Parts, uname: Iterable[Mapping[str, str]]) -> Aliases:
    return aliases_from(uname, parts.pipeline.nodes.aliases)


def _identified(signal: Signal, pulled: Pulled, aliases: Aliases, store: Store) -> tuple[Samples, int]:
    """Registers the series and returns (their samples, how many series name no entity)."""
    ids = store.ids_of(signal.name, pulled.labels, lambda labels: identify(signal, labels, aliases), (signal, aliases))
    series = np.repeat(ids, pulled.lengths)
    use = (series >= 0) & ~np.isnan(pulled.values)
    return Samples(series[use], pulled.ts[use], pulled.values[use]), int((ids < 0).sum())
