"""Score: the ticks that are due, each with its results, state and outbox in one transaction."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from anomaly.clock import MINUTE, Ms, align_down
from anomaly.coverage import verdicts
from anomaly.deliver.entries import SinkRef, outbox_entries
from anomaly.detect.forest import NodeModel
from anomaly.detect.habit import BUCKETS
from anomaly.jobs import models
from anomaly.jobs.carry import Carried, Live, closed_buckets, decode, encode, fill, refresh
from anomaly.jobs.collect import NAMES, Progress, quiet, warm_up
from anomaly.jobs.inbox import Asked, clear, read_inbox
from anomaly.jobs.model_spec import NODE_FOREST
from anomaly.jobs.models import Loaded
from anomaly.jobs.pace import Pace
from anomaly.jobs.parts import Parts, late_by
from anomaly.judge import Ranges
from anomaly.pipeline import Batch, Spec, Tick, advance, ticks_between
from anomaly.records import Entity, Incident, OutboxEntry, Phase
from anomaly.signals.catalogue import Catalogue
from anomaly.signals.identity import aliases_from
from anomaly.store.results import CoverageRow, NodeScore, TickRecord
from anomaly.store.samples import COLLECTED
from anomaly.store.store import Store

LIVE_LAG: Ms = 5 * MINUTE
"""Ticks older than this beyond the normal delay are catch-up: what fires and resolves within them is history."""

COVERAGE_EVERY: Ms = 5 * MINUTE
"""How often what was seen of each node, and the verdict on it, is written down."""

STRETCH_STEPS = 60
"""How many steps of the pipeline are read and scored at once while catching up."""


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """What one run of the job did."""

    through: Ms | None
    ticks: int = 0
    changes: tuple[Incident, ...] = ()
    history: tuple[Incident, ...] = field(default=())
    """Changes during catch-up: for the log and the files, not for Alertmanager."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Reason → findings set aside, once a tick."""
    findings: int = 0
    """Open at the last tick."""
    taken: Asked = field(default_factory=Asked)
    """What the first tick took from the inbox."""
    model: Loaded = field(default_factory=Loaded)
    """The model that took part, or why none did."""


def score(
    parts: Parts,
    store: Store,
    live: Live,
    sinks: Sequence[SinkRef],
    now: Ms,
    *,
    start: Ms | None = None,
    end: Ms | None = None,
    inbox: Path | None = None,
    progress: Progress = quiet,
) -> ScoredRun:
    """Run every tick that is final at `now` (or lies in (start, end]) and has not been run.

    The first of them takes in what lies in `inbox`, if there is one.
    """
    collected = store.watermark(COLLECTED)
    if collected is None:
        return ScoredRun(None)
    pipeline = parts.pipeline
    source = pipeline.prometheus
    final = collected - (source.reread if source and end is None else 0)
    until = align_down(final if end is None else min(end, collected), pipeline.tick)
    scored = store.scored_through()
    aliases = aliases_from((row.labels for row in store.series(NAMES)), pipeline.nodes.aliases)
    spec = refresh(parts, store, live, aliases)
    if live.context is None:
        live.carried = decode(store.load_state())
    begin = scored
    if begin is None:
        begin = start if start is not None else collected - warm_up(pipeline)
        begin = align_down(begin, pipeline.tick)
    if until - begin > pipeline.catch_up and end is None:
        begin, live.context = align_down(until - pipeline.catch_up, pipeline.tick), None
    live.loaded = models.refresh(models.folder_of(parts.state_dir), parts.catalogue, live.loaded)
    if until <= begin:
        return ScoredRun(scored, model=live.loaded)
    if live.context is None:
        live.context = fill(store, spec, live, parts.pace, begin)
    due = ticks_between(begin, until, pipeline.tick)
    live_from = now - late_by(pipeline) - pipeline.scale(LIVE_LAG) - 3 * pipeline.tick
    run = ScoredRun(begin)
    taken = asked = read_inbox(inbox, store)
    at = 0
    while at < len(due):
        stretch = [tick for tick in due[at:] if tick <= due[at] - 1 + STRETCH_STEPS * pipeline.step] or due[at : at + 1]
        recent = live_from if end is None else 0
        run = _stretch(store, live, spec, parts.pace, sinks, begin, stretch, recent, now, asked, run)
        clear(inbox, (*asked.stale, *asked.items))
        asked = Asked()
        begin = stretch[-1]
        at += len(stretch)
        progress("score", at / len(due))
    return replace(run, taken=taken, model=live.loaded)


def _stretch(
    store: Store,
    live: Live,
    spec: Spec,
    pace: Pace,
    sinks: Sequence[SinkRef],
    begin: Ms,
    due: Sequence[Ms],
    live_from: Ms,
    now: Ms,
    asked: Asked,
    run: ScoredRun,
) -> ScoredRun:
    assert live.context is not None
    samples = pace.samples(store.read_many(list(spec.catalogue.signals), begin + 1, due[-1]))
    before = live.carried
    nominal = [pace.nominal(tick) for tick in due]
    # As far back as the bucket of habits that may close within the stretch.
    lacking = store.incomplete(pace.real(nominal[0] - 2 * spec.bucket), due[-1])
    batch = Batch(pace.nominal(begin), nominal[-1], samples, live.directory, pace.ranges(lacking))
    given = replace(before.tick, memory=replace(before.tick.memory, asked=asked.close)) if asked.close else before.tick
    # A model takes part only in ticks after the history that it learnt from: a replay never sees its own future.
    model = live.loaded.model if live.loaded.model and live.loaded.model.trained_through <= begin else None
    told, context, state = advance(spec, batch, live.context, given, nominal, model)
    ticks = [pace.tick(tick) for tick in told]
    announced = set(before.announced)
    records: list[TickRecord] = []
    changes: list[Incident] = []
    history: list[Incident] = []
    since = begin
    for tick in ticks:
        entries: list[OutboxEntry] = []
        for incident in tick.denoised.changed:
            is_live = tick.at >= live_from
            (changes if is_live else history).append(incident)
            entries += _announce(incident, sinks, announced, is_live, now)
        record = _record(tick, entries, pace, _within(lacking, since, tick.at), spec.catalogue)
        records.append(_with_model(record, live.loaded, model, pace))
        since = tick.at
    if ticks and ticks[-1].at >= live_from:
        late = [incident for incident in state.memory.open if _unannounced(incident, announced)]
        loud = [sink for sink in sinks if sink.kind != "jsonl"]
        for incident in late:
            records[-1] = _with(records[-1], _announce(pace.incident(incident), loud, announced, True, now))
    if asked.items:
        consumed = tuple(item.name for item in asked.items)
        records[0] = replace(records[0], consumed=consumed, marks=asked.marks)
    carried = Carried(state, tuple(sorted(announced)))
    text = encode(carried)
    with store.transaction():
        store.commit_ticks([_with_state(record, text) for record in records])
        for bucket_end, buckets in closed_buckets(context, before.tick.bucket_end):
            store.put_baselines(bucket_end, buckets, bucket_end - (BUCKETS + 2) * spec.bucket)
    live.context, live.carried = context, carried
    dropped = Counter(run.dropped)
    dropped.update(item.reason for tick in ticks for item in tick.denoised.dropped)
    return ScoredRun(
        due[-1],
        run.ticks + len(ticks),
        (*run.changes, *changes),
        (*run.history, *history),
        dropped,
        len(ticks[-1].findings) if ticks else run.findings,
    )


def _unannounced(incident: Incident, announced: set[str]) -> bool:
    return incident.phase is Phase.FIRING and incident.id not in announced


def _announce(
    incident: Incident, sinks: Sequence[SinkRef], announced: set[str], is_live: bool, now: Ms
) -> list[OutboxEntry]:
    """What a change adds to the outbox. Files get everything; the others what is live, and the end of what they were
    told of."""
    firing = incident.phase is Phase.FIRING
    known = incident.id in announced
    loud = [sink for sink in sinks if sink.kind != "jsonl"]
    files = [sink for sink in sinks if sink.kind == "jsonl"]
    entries = outbox_entries(incident, files, incident.fired_at, now)
    if (is_live and firing) or known:
        starts_at = incident.fired_at if is_live and now - incident.fired_at <= LIVE_LAG else now
        entries += outbox_entries(incident, loud, starts_at, now)
        if firing:
            announced.add(incident.id)
    if not firing:
        announced.discard(incident.id)
    return entries


def _within(lacking: Mapping[str, Ranges], after: Ms, through: Ms) -> tuple[str, ...]:
    """The signals whose answers for (after, through] were incomplete."""
    return tuple(name for name, found in lacking.items() if any(a <= through and b > after for a, b in found))


def _record(
    tick: Tick, entries: Sequence[OutboxEntry], pace: Pace, lacking: Sequence[str], catalogue: Catalogue
) -> TickRecord:
    told = verdicts(tick.coverage, tick.denoised, catalogue) if pace.nominal(tick.at) % COVERAGE_EVERY == 0 else []
    return TickRecord(
        at=tick.at,
        state="",
        findings=tick.findings,
        dropped=tick.denoised.dropped,
        incidents=tick.denoised.changed,
        node_scores=tuple(NodeScore(item.node, item.symptom, item.score, item.detector) for item in tick.node_scores),
        coverage=tuple(CoverageRow(Entity("node", item.node), item.layer, item.ratio, item.verdict) for item in told)
        + tuple(CoverageRow(Entity("signal", name), "all", None, "incomplete") for name in lacking),
        outbox=tuple(entries),
    )


def _with(record: TickRecord, entries: Sequence[OutboxEntry]) -> TickRecord:
    return replace(record, outbox=(*record.outbox, *entries))


def _with_model(record: TickRecord, loaded: Loaded, model: NodeModel | None, pace: Pace) -> TickRecord:
    """Which model took part; where one is expected and none did, how far it is, as coverage."""
    if model is not None:
        record = replace(record, versions={**record.versions, NODE_FOREST: model.version})
    if (loaded.share is None and not loaded.trouble) or pace.nominal(record.at) % COVERAGE_EVERY:
        return record
    row = CoverageRow(Entity("model", NODE_FOREST), "forest", loaded.share, loaded.state)
    return replace(record, coverage=(*record.coverage, row))


def _with_state(record: TickRecord, state: str) -> TickRecord:
    return replace(record, state=state)
