"""One tick, the literal list of hops: new samples in, incidents out, everything else passed in and handed back.

A tick is a pure function of (spec, new samples, carried context, baselines, model, state, logical time). The service,
the one-shot command, the backtest and the scenario tests call the same `advance`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import MINUTE, Ms, align_down
from anomaly.coverage import Coverage, cover
from anomaly.denoise.rules import Denoised, denoise
from anomaly.denoise.world import Memory, World
from anomaly.detect.codes import Seen
from anomaly.detect.forest import NodeModel
from anomaly.detect.frozen import LOOK
from anomaly.detect.habit import Habit, bucket_length
from anomaly.detect.profiles import cause_and_hint, profiles
from anomaly.detect.runs import Run, finding
from anomaly.detect.runs import advance as advance_runs
from anomaly.detect.scored import Profile, Scored
from anomaly.features.align import at_times
from anomaly.features.index import Directory, SeriesIndex
from anomaly.features.jobs import Membership, membership
from anomaly.features.load import WARM_UP
from anomaly.features.panel import build_panel, holders, presence_panel
from anomaly.features.ring import Ring, empty_ring, extend, grid
from anomaly.hangs import score_hangs
from anomaly.judge import Ranges, Scene, learn_habits, score_signal
from anomaly.panels import Panel
from anomaly.presence import UP, score_presence
from anomaly.records import Finding, Ints, Samples, Topology
from anomaly.second_opinion import held, is_forest, profiles_with, second_opinion
from anomaly.signals.catalogue import Catalogue

RING: Ms = 30 * MINUTE
"""How much of every signal is kept at native interval."""

JOB_HOLD: Ms = 3 * MINUTE
"""How long a job label counts after its series' last sample: a scrape gap is not the end of a job."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What is fixed for a pipeline: its signals, its smallest step, its topology."""

    cluster: str
    step: Ms
    catalogue: Catalogue
    topology: Topology = field(default_factory=Topology)

    @property
    def bucket(self) -> Ms:
        return bucket_length(self.step)

    @property
    def ring(self) -> Ms:
        return max(RING, 3 * self.bucket)


@dataclass(frozen=True, slots=True)
class Batch:
    """New samples of every signal in (start, end]; the directory knows every series they belong to."""

    start: Ms
    end: Ms
    samples: Mapping[str, Samples]
    directory: Directory
    incomplete: Mapping[str, Ranges] = field(default_factory=dict)
    """Signal → where its source's answers were incomplete, from a bucket of habits before `start` on."""


@dataclass(frozen=True, slots=True)
class Context:
    """What is carried besides state and can be built again from the store: rings. Habits are carried in the store."""

    rings: Mapping[str, Ring] = field(default_factory=dict)
    habits: Mapping[str, Habit] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """What only the ticks themselves know: runs, event codes seen, open incidents. Saved with every tick."""

    runs: Mapping[str, Mapping[str, Run]] = field(default_factory=dict)
    codes: Mapping[str, Mapping[str, Seen]] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    watched_since: Ms = 0
    bucket_end: Ms = 0


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node's largest score in one symptom class at a tick."""

    node: str
    symptom: str
    score: float
    detector: str


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick said."""

    at: Ms
    findings: tuple[Finding, ...]
    denoised: Denoised
    node_scores: tuple[NodeScore, ...]
    coverage: Coverage
    """What was seen of every node, by layer; `coverage.verdicts` says what is thought of it."""


def ticks_between(start: Ms, end: Ms, every: Ms) -> list[Ms]:
    """Tick times in (start, end], aligned to `every`."""
    return [int(at) for at in grid(start, end, every)]


def advance(
    spec: Spec, batch: Batch, context: Context, state: State, at: Sequence[Ms], model: NodeModel | None = None
) -> tuple[list[Tick], Context, State]:
    """The ticks at the times `at` (all within the batch, the last at its end), and context and state after them.

    Many ticks at once give what they give one by one: kernels see a block, verdicts are read tick by tick. A block ends
    where a habit bucket does, since what is learnt there counts from the next step on.
    """
    out: list[Tick] = []
    start = batch.start
    for block in _blocks(at, spec.bucket):
        ticks, context, state = _block(spec, batch, start, block, context, state, model)
        out += ticks
        start = block[-1]
    return out, context, state


def _blocks(at: Sequence[Ms], bucket: Ms) -> list[list[Ms]]:
    blocks: list[list[Ms]] = []
    for tick in at:
        if blocks and (blocks[-1][-1] // bucket) == ((tick - 1) // bucket) and blocks[-1][-1] % bucket:
            blocks[-1].append(tick)
        else:
            blocks.append([tick])
    return blocks


def _block(
    spec: Spec, batch: Batch, start: Ms, at: list[Ms], context: Context, state: State, model: NodeModel | None
) -> tuple[list[Tick], Context, State]:
    end = at[-1]
    rings = remember(spec, batch, start, end, context.rings)
    closing = end - end % spec.bucket
    back = start if closing <= state.bucket_end else min(start, closing - spec.bucket)
    if model is not None:
        back = min(back, at[0] - model.window)
    scene = replace(look(spec, batch.directory, rings, start, back), incomplete=batch.incomplete)
    watched_since = state.watched_since or int(start)
    scored: list[Scored] = []
    presence: dict[str, Panel] = {}
    held_by: dict[str, Ints] = {}
    codes = dict(state.codes)
    for name, panel in scene.panels.items():
        signal = spec.catalogue[name]
        verdicts, seen = score_signal(signal, panel, scene, context.habits, codes.get(name, {}), watched_since)
        if seen:
            codes[name] = seen
        else:
            codes.pop(name, None)
        scored += verdicts
        if signal.presence or name == UP:
            index = batch.directory.signals[name]
            there = presence[name] = presence_panel(signal, rings[name], index, start)
            if name != UP and np.isnan(there.new_values).any():
                held_by[name] = holders(signal, rings[name], index)
    scored += score_hangs(spec.catalogue, scored, scene, batch.directory.jobs.names)
    scored += score_presence(spec.catalogue, presence, scene, held_by)
    second = None
    if model is not None:
        second = second_opinion(spec.catalogue, scene, batch.directory.entities, context.habits, model, at)
    known = profiles_with(profiles(spec.catalogue.signals, spec.step), model)
    runs = {name: dict(found) for name, found in state.runs.items() if model or not is_forest(name)}
    memory = state.memory
    ticks: list[Tick] = []
    before = start
    for tick in at:
        for verdict in scored:
            first, last = np.searchsorted(verdict.times, [before, tick], side="right").tolist()
            name = verdict.profile.name
            runs[name] = advance_runs(runs.get(name, {}), verdict, first, last)
        if second is not None:
            second.hear(scored, runs, before, tick)
        findings = _findings(spec, known, runs)
        scores = _node_scores(scored, before, tick)
        if second is not None:
            findings = second.words(findings, tick)
            scores += tuple(NodeScore(*found) for found in second.scores(tick))
        covered = cover(spec.catalogue, batch.directory, scene, tick)
        world = _world(spec, batch.directory, scene, runs, covered, tick)
        told = denoise(world, memory, findings)
        memory = told.memory
        ticks.append(Tick(tick, findings, told, scores, covered))
        before = tick
    habits, bucket_end = _learn(spec, scene, context.habits, runs, end, state.bucket_end)
    runs = {name: found for name, found in runs.items() if found}
    return ticks, Context(rings, habits), State(runs, codes, memory, watched_since, bucket_end)


def remember(spec: Spec, batch: Batch, start: Ms, end: Ms, rings: Mapping[str, Ring]) -> dict[str, Ring]:
    """Every signal's ring with the new samples in (start, end]."""
    none = Samples(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0))
    out = {}
    # Forget by whole buckets: the first step of a block then remembers what it would as a tick of its own.
    keep = spec.ring - spec.bucket + end - align_down(start, spec.bucket)
    for name, signal in spec.catalogue.signals.items():
        native = signal.native(spec.step)
        ring = rings.get(name, empty_ring(native))
        out[name] = extend(ring, batch.samples.get(name, none), start, end, keep)
    return out


def look(spec: Spec, directory: Directory, rings: Mapping[str, Ring], since: Ms, back: Ms | None = None) -> Scene:
    """All panels, with the steps after `since` to be judged, and who works with whom.

    Residuals can be had of all steps after `back` (at most `since`; None: of the whole rings). Panels reach no further
    than what that, coverage and load gates look at: a tick does not work through its whole memory again.
    """
    panels: dict[str, Panel] = {}
    signals = spec.catalogue.signals
    loads = {signal.load for signal in signals.values()}
    others = loads | {other for signal in signals.values() for other, _ in signal.equal}
    others |= {other for signal in signals.values() if signal.shift for other, _ in signal.shift.when}
    for name, ring in rings.items():
        index = directory.signals.get(name)
        if index is None or not len(ring.series):
            continue
        context = None
        if back is not None and signals[name].codes is None:
            # Coverage looks at four intervals; a value of another signal counts for three.
            lead = 4 * ring.step if name in others else 0
            lead = max(lead, LOOK * ring.step) if signals[name].restless or name in loads else lead
            context = min(since - 4 * ring.step, back - lead - (WARM_UP if name in loads else 0))
        panels[name] = build_panel(signals[name], ring, index, since, spec.step, context)
    times = np.unique(np.concatenate([panel.times for panel in panels.values()])) if panels else np.empty(0, np.int64)
    if back is not None:
        times = times[max(0, int(np.searchsorted(times, back, side="right")) - 1) :]
    full = {name: 1.0 for name in loads if name in signals and signals[name].unit == "ratio"}
    members = _membership(spec, directory, rings, times)
    return Scene(spec.step, spec.bucket, panels, members, _kinds(spec, directory), full=full)


def _membership(spec: Spec, directory: Directory, rings: Mapping[str, Ring], times: NDArray[np.int64]) -> Membership:
    """Training series that name a node say best who works for whom; then the labels of any node's series."""
    carriers: list[tuple[Ring, SeriesIndex]] = []
    for first in (True, False):
        for name, ring in rings.items():
            index = directory.signals.get(name)
            is_job = spec.catalogue[name].entity_kind == "job"
            if index is None or not len(ring.series) or is_job is not first or not (index.job >= 0).any():
                continue
            carriers.append((ring, index))
    return membership(carriers, times, len(directory.entities.names), max(JOB_HOLD, 3 * spec.step))


def _kinds(spec: Spec, directory: Directory) -> NDArray[np.int64]:
    """SKU codes per entity: from the topology's `sku`; one kind where it has none."""
    skus: dict[str, int] = {"": 0}
    table = spec.topology.groups.get("sku", {})
    out = np.zeros(len(directory.entities.names), np.int64)
    for i, name in enumerate(directory.entities.names):
        sku = table.get(name.split("/", 1)[1], "")
        out[i] = skus.setdefault(sku, len(skus))
    return out


def _findings(spec: Spec, known: Mapping[str, Profile], runs: Mapping[str, Mapping[str, Run]]) -> tuple[Finding, ...]:
    out = []
    # In the catalogue's order: that of `runs` depends on how many ticks are run at once.
    for name, found in known.items():
        signal = spec.catalogue.get(found.signal)
        if signal is not None and signal.falls and found.detector == "shift":
            continue  # a job's GPUs by the thousand: what it means is told of the job
        codes = signal.codes if signal else None
        for run in runs.get(name, {}).values():
            if run.confirmed is not None:
                cause, hint = cause_and_hint(codes, found, run.observed, run.device)
                out.append(finding(run, found, cause, hint))
    return tuple(out)


def _world(
    spec: Spec, directory: Directory, scene: Scene, runs: Mapping[str, Mapping[str, Run]], seen: Coverage, at: Ms
) -> World:
    names = directory.entities.names
    place = int(np.searchsorted(scene.members.times, at, side="right")) - 1
    jobs: dict[str, set[str]] = {}
    if place >= 0:
        column = scene.members.job[:, place]
        for node in np.flatnonzero(column >= 0).tolist():
            jobs.setdefault(directory.jobs.names[column[node]], set()).add(names[node].split("/", 1)[1])
    ratios = seen.ratios()
    return World(
        now=at,
        cluster=spec.cluster,
        step=spec.step,
        nodes=frozenset(ratios),
        groups=spec.topology.groups,
        jobs={job: frozenset(nodes) for job, nodes in jobs.items()},
        alone={name: signal.alone for name, signal in spec.catalogue.signals.items()},
        shared_kinds={
            name: signal.shared_kind for name, signal in spec.catalogue.signals.items() if signal.shared_kind
        },
        effects={name: signal.effect_of for name, signal in spec.catalogue.signals.items() if signal.effect_of},
        booted=_booted(scene, at),
        coverage=ratios,
        maintenance=_maintained(spec, scene, at) - {node for nodes in jobs.values() for node in nodes},
        stirring=_stirring(runs),
    )


def _stirring(runs: Mapping[str, Mapping[str, Run]]) -> dict[str, frozenset[str]]:
    out: dict[str, set[str]] = {}
    for name, rows in runs.items():
        if is_forest(name):
            continue
        nodes = {run.entity.name for run in rows.values() if run.confirmed is None and run.entity.kind == "node"}
        if nodes:
            out.setdefault(name.split(":", 1)[0], set()).update(nodes)
    return {signal: frozenset(nodes) for signal, nodes in out.items()}


def _booted(scene: Scene, at: Ms) -> dict[str, Ms]:
    panel = scene.panels.get("boot_time")
    if panel is None:
        return {}
    column = int(np.searchsorted(panel.times, at, side="right")) - 1
    if column < 0:
        return {}
    values = panel.values[:, column]
    return {panel.rows.entities[i].name: int(values[i] * 1000) for i in np.flatnonzero(~np.isnan(values)).tolist()}


def _maintained(spec: Spec, scene: Scene, at: Ms) -> frozenset[str]:
    """The nodes that people have taken out of service, as their scheduler says."""
    out: set[str] = set()
    for name, panel in scene.panels.items():
        if not spec.catalogue[name].drains or len(panel.times) < 2:
            continue
        tolerance = 4 * int(panel.times[1] - panel.times[0])
        said = at_times(panel.values, panel.times, np.array([at]), tolerance)[:, 0] >= 1.0
        out |= {panel.rows.entities[i].name for i in np.flatnonzero(said).tolist()}
    return frozenset(out)


def _node_scores(scored: Sequence[Scored], before: Ms, at: Ms, least: float = 0.3) -> tuple[NodeScore, ...]:
    best: dict[tuple[str, str], tuple[float, str]] = {}
    for verdict in scored:
        first, last = np.searchsorted(verdict.times, [before, at], side="right").tolist()
        if not verdict.highest(first, last) >= least:
            continue
        window = np.fmax.reduce(verdict.score[:, first:last], axis=1)
        for i in np.flatnonzero(window >= least).tolist():
            entity = verdict.entities[i]
            if entity.kind != "node":
                continue
            key = (entity.name, verdict.profile.symptom)
            value = round(float(min(window[i], 100.0)), 4)
            if value > best.get(key, (0.0, ""))[0]:
                best[key] = (value, verdict.profile.name)
    return tuple(NodeScore(node, symptom, score, name) for (node, symptom), (score, name) in sorted(best.items()))


def _learn(
    spec: Spec,
    scene: Scene,
    habits: Mapping[str, Habit],
    runs: Mapping[str, Mapping[str, Run]],
    end: Ms,
    bucket_end: Ms,
) -> tuple[Mapping[str, Habit], Ms]:
    """Habits after `end`: a bucket is learnt at the first tick at or past its end."""
    closing = end - end % spec.bucket
    if closing <= bucket_end:
        return habits, bucket_end
    flagged = held({name: frozenset(found) for name, found in runs.items() if found}, runs, scene)
    learnt = dict(habits)
    for name, panel in scene.panels.items():
        learnt |= learn_habits(spec.catalogue[name], panel, scene, habits, flagged, closing)
    return learnt, closing
