"""Train: fit the isolation forest on stored history and calibrate it on the newest, held-out part of it."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as installed
from pathlib import Path

import numpy as np

from anomaly.clock import HOUR, Ms, align_down, align_up, format_duration, format_time
from anomaly.detect.forest import MOST_UNKNOWN, Calibration, effect_floor, fit, raw_scores, scaled, varying
from anomaly.detect.habit import Habit
from anomaly.errors import UsageError
from anomaly.features.cube import FEATURES, signals_of
from anomaly.features.index import Directory
from anomaly.features.ring import Ring
from anomaly.jobs import models
from anomaly.jobs.carry import Live, refresh
from anomaly.jobs.collect import NAMES, Progress, quiet
from anomaly.jobs.flagged import Stretch, capped, stretches, within
from anomaly.jobs.model_file import dump
from anomaly.jobs.model_spec import NODE_FOREST, ModelSpec, load_spec
from anomaly.jobs.parts import MODELS, Parts
from anomaly.jobs.publish import published_dir
from anomaly.judge import Scene, learn_habits
from anomaly.pipeline import Batch, Spec, look, remember, ticks_between
from anomaly.records import Bools, Floats, Ints, Samples
from anomaly.second_opinion import node_cube, traces_of
from anomaly.signals.catalogue import Catalogue
from anomaly.signals.identity import aliases_from
from anomaly.store.published import read_archive
from anomaly.store.samples import COLLECTED
from anomaly.store.store import Store

CLUSTER: Ms = HOUR
"""What is past the boundary within so much time on one node counts once."""

ENOUGH = 10.0
"""Exceedances expected in the held-out data from which a quantile is a calibration rather than a prior."""

LEAST_FEATURES = 3
"""Fewer that vary make no pattern."""

Read = Callable[[Sequence[str], Ms, Ms], Mapping[str, Samples]]


@dataclass(frozen=True, slots=True)
class Windows:
    """Usable node windows of the history: `values[i]` is node `nodes[i]` at `times[i]` (nominal)."""

    nodes: tuple[str, ...]
    times: Ints
    values: Floats

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, slots=True)
class Trained:
    """What a run of the job came to: a version, or why there is none. Times are real."""

    start: Ms
    end: Ms
    windows: int
    history: Ms
    need_windows: int
    need_history: Ms
    left_out: int = 0
    constant: bool = False
    """Whether hardly any feature varies in this history, so that there is nothing to learn."""
    manifest: models.Manifest | None = None
    folder: Path | None = None

    @property
    def share(self) -> float:
        """How much of what is needed there is, 1 at most."""
        return min(1.0, self.windows / self.need_windows, self.history / self.need_history)

    @property
    def words(self) -> str:
        if self.constant:
            return f"{NODE_FOREST}: no model: fewer than {LEAST_FEATURES} features vary in this history"
        if self.manifest is None:
            return (
                f"{NODE_FOREST}: too little history for a model: {format_duration(align_down(self.history, 1000))} of "
                f"{format_duration(self.need_history)}, {self.windows:,} of {self.need_windows:,} node windows"
            )
        kind = "calibrated" if self.manifest.calibrated else "a prior, not calibrated"
        return (
            f"{NODE_FOREST} {self.manifest.version}: learnt from {self.manifest.rows:,} node windows up to "
            f"{format_time(self.end)}, {self.left_out:,} near findings left out; its boundary is {kind}"
        )


def train(
    parts: Parts, store: Store, now: Ms, *, start: Ms | None = None, end: Ms | None = None, progress: Progress = quiet
) -> Trained:
    """Fit a model on (start, end] (default: the spec's `history` up to what has been collected) and make it current.

    Below the spec's minimum nothing is written but the answer says how much is missing. Every read of the store is
    one chunk. Raises UsageError when nothing has been collected, ConfigError for a model spec that is wrong.
    """
    spec = load_spec(parts.state_dir / MODELS)
    collected = store.watermark(COLLECTED)
    if collected is None:
        raise UsageError("nothing has been collected for this pipeline yet", "run `anomaly collect` on it first")
    pace = parts.pace
    through = collected if end is None else min(end, collected)
    since = through - pace.real(spec.history) if start is None else start
    live = Live()
    tick = refresh(parts, store, live, aliases_from((row.labels for row in store.series(NAMES)), _aliases(parts)))
    bounds = pace.nominal(since), pace.nominal(through)
    findings = stretches(store, pace, since, through)
    read = _reader(parts, store, live.directory)
    found = history(spec, tick, live.directory, read, findings, *bounds, progress)
    usable = usable_of(found)
    out = capped(within(findings, usable.nodes, usable.times, spec.window, spec.left_out.margin), spec.left_out.most)
    kept = _pick(usable, ~out)
    span = int(kept.times[-1] - kept.times[0]) + spec.window if len(kept) else 0
    told = Trained(
        since,
        through,
        len(kept),
        pace.real(span),
        spec.minimum.windows,
        pace.real(spec.minimum.history),
        int(out.sum()),
    )
    if told.share >= 1.0:
        told = _fit(parts, spec, kept, told, now)
    if told.manifest is None:
        models.note(models.folder_of(parts.state_dir), told.words, told.share)
    return told


def _aliases(parts: Parts) -> Mapping[str, str]:
    return parts.pipeline.nodes.aliases


def _reader(parts: Parts, store: Store, directory: Directory) -> Read:
    """Samples from the database where it holds any, older ones from the published archive. In nominal time."""
    pace = parts.pace

    def read(names: Sequence[str], start: Ms, end: Ms) -> Mapping[str, Samples]:
        first, last = pace.real(start) + 1, pace.real(end)
        found: Mapping[str, Samples] = store.read_many(list(names), first, last)
        if not any(len(samples) for samples in found.values()):
            found = _archived(published_dir(parts.pipeline), names, first, last, directory)
        return pace.samples(found)

    return read


def _archived(folder: Path, names: Sequence[str], first: Ms, last: Ms, directory: Directory) -> dict[str, Samples]:
    table = read_archive(folder, names, first, last)
    if table is None:
        return {}
    signal = np.array(table.column("signal").to_pylist(), dtype=object)
    ids = table.column("series_id").to_numpy().astype(np.int32)
    ts, values = table.column("ts").to_numpy(), table.column("value").to_numpy()
    out = {}
    for name in names:
        known = directory.signals.get(name)
        if known is not None:
            # Series that the database has pruned have lost their labels: nobody knows their job any more.
            use = (signal == name) & np.isin(ids, known.series)
            out[name] = Samples(ids[use], ts[use], values[use])
    return out


def history(
    spec: ModelSpec,
    tick: Spec,
    directory: Directory,
    read: Read,
    findings: Sequence[Stretch],
    start: Ms,
    end: Ms,
    progress: Progress = quiet,
) -> Windows:
    """Every node window of (start, end], as the ticks would have seen them: same panels, same habits, same cube."""
    tick = replace(tick, catalogue=_needed(tick.catalogue, spec))
    bucket = tick.bucket
    begin, last = align_up(start, bucket), align_down(end, bucket)
    chunk = bucket * max(1, HOUR // bucket)
    rings: Mapping[str, Ring] = {}
    habits: dict[str, Habit] = {}
    nodes: list[str] = []
    times: list[Ints] = []
    values: list[Floats] = []
    at = begin
    while at < last:
        until = min(at + chunk, last)
        batch = Batch(at, until, read(list(tick.catalogue.signals), at, until), directory)
        rings = remember(tick, batch, at, until, rings)
        scene = look(tick, directory, rings, at)
        traces = traces_of(tick.catalogue, scene, spec.features, at - spec.window, until)
        for closing in ticks_between(at, until, bucket):
            due = ticks_between(closing - bucket, closing, spec.window)
            if due and scene.panels:
                cube = node_cube(
                    tick.catalogue, scene, directory.entities, habits, spec.features, due, spec.window, traces
                )
                for t, moment in enumerate(due):
                    nodes += [node.name for node in cube.nodes]
                    times.append(np.full(len(cube.nodes), moment, np.int64))
                    values.append(cube.values[:, t])
            habits = _learnt(tick, scene, habits, findings, closing)
        progress("train", (until - begin) / max(1, last - begin))
        at = until
    if not times:
        return Windows((), np.empty(0, np.int64), np.empty((0, len(spec.features))))
    return Windows(tuple(nodes), np.concatenate(times), np.concatenate(values))


def _needed(catalogue: Catalogue, spec: ModelSpec) -> Catalogue:
    """The signals of the features, what they are corrected by, the load gate, and who works for which job."""
    wanted = {*signals_of(spec.features), "gpu_util"}
    wanted |= {other for name in wanted if (signal := catalogue.get(name)) for other, _ in signal.equal}
    return Catalogue(
        {name: signal for name, signal in catalogue.signals.items() if name in wanted or signal.entity_kind == "job"}
    )


def _learnt(
    tick: Spec, scene: Scene, habits: Mapping[str, Habit], findings: Sequence[Stretch], closing: Ms
) -> dict[str, Habit]:
    bad = {item.node for item in findings if item.start < closing and item.end > closing - tick.bucket}
    out = dict(habits)
    for name, panel in scene.panels.items():
        pairs = zip(panel.rows.keys, panel.rows.entities, strict=True)
        keys = frozenset(key for key, entity in pairs if entity.name in bad) if bad else frozenset()
        out |= learn_habits(tick.catalogue[name], panel, scene, habits, {f"{name}:peers": keys}, closing)
    return out


def usable_of(found: Windows) -> Windows:
    """The windows of which enough is known, in order of time and node."""
    if not len(found):
        return found
    good = np.isnan(found.values).mean(axis=1) <= MOST_UNKNOWN
    kept = _pick(found, good)
    order = sorted(range(len(kept)), key=lambda i: (int(kept.times[i]), kept.nodes[i]))
    return Windows(tuple(kept.nodes[i] for i in order), kept.times[order], kept.values[order])


def _pick(found: Windows, mask: Bools) -> Windows:
    places = np.flatnonzero(mask)
    return Windows(tuple(found.nodes[i] for i in places.tolist()), found.times[places], found.values[places])


def _columns(found: Windows, mask: Bools) -> Windows:
    return Windows(found.nodes, found.times, found.values[:, mask])


@dataclass(frozen=True, slots=True)
class Boundary:
    """How held-out scores became a boundary."""

    calibration: Calibration
    maxima: int
    calibrated: bool


def calibrate(raw: Floats, nodes: Sequence[str], times: Ints, window: Ms, quantile: float, effect: float) -> Boundary:
    """From the forest's own scores of held-out windows, in order of time: what counts as usual and what as 1.0.

    Boundary = the larger of the effect floor and the tail of the fleet. Scores count once they have lasted two windows,
    and once an hour and node. With fewer than ENOUGH exceedances to be expected, the tail is a prior: the largest.
    """
    best: dict[tuple[str, Ms], float] = {}
    last: dict[str, tuple[Ms, float]] = {}
    for score, node, at in zip(raw.tolist(), nodes, times.tolist(), strict=True):
        before = last.get(node)
        last[node] = at, score
        if before is not None and at - before[0] == window:
            key = node, at // CLUSTER
            best[key] = max(best.get(key, 0.0), min(score, before[1]))
    maxima = np.array(sorted(best.values())) if best else np.sort(raw)
    usual = float(np.median(raw))
    calibrated = len(maxima) * (1.0 - quantile) >= ENOUGH
    edge = float(np.quantile(maxima, quantile)) if calibrated else float(maxima[-1])
    return Boundary(Calibration(usual, max(edge, effect, usual + 1e-3)), len(maxima), calibrated)


def _fit(parts: Parts, spec: ModelSpec, kept: Windows, told: Trained, now: Ms) -> Trained:
    floors = np.array([FEATURES[name].floor for name in spec.features])
    split = int(kept.times[-1] - spec.held_out * (kept.times[-1] - kept.times[0]))
    learnt, held = _pick(kept, kept.times <= split), _pick(kept, kept.times > split)
    telling = varying(learnt.values)
    features = tuple(name for name, use in zip(spec.features, telling.tolist(), strict=True) if use)
    if len(features) < LEAST_FEATURES:
        return replace(told, constant=True)
    learnt, held = _columns(learnt, telling), _columns(held, telling)
    floors = floors[telling]
    forest, centre, spread = fit(learnt.values, floors, spec.forest.trees, spec.forest.samples, spec.forest.seed)
    raw = raw_scores(forest, scaled(held.values, centre, spread))
    effect = effect_floor(forest, len(features), spec.forest.seed)
    found = calibrate(raw, held.nodes, held.times, spec.window, spec.boundary, effect)
    body = dump(forest)
    folder = models.folder_of(parts.state_dir)
    pace = parts.pace
    catalogue = models.catalogue_digest(parts.catalogue, features)
    made_by = hashlib.sha256(f"{spec.digest} {catalogue}".encode()).hexdigest()
    manifest = models.Manifest(
        version=models.free_version(folder, told.end, made_by),
        sklearn=installed("scikit-learn"),
        skops=installed("skops"),
        numpy=installed("numpy"),
        features=features,
        constant=tuple(name for name in spec.features if name not in features),
        window=spec.window,
        trained_from=pace.real(int(kept.times[0])),
        trained_through=told.end,
        trained_at=now,
        seed=spec.forest.seed,
        rows=len(learnt),
        held_out_rows=len(held),
        left_out_rows=told.left_out,
        maxima=found.maxima,
        quantile=spec.boundary,
        calibrated=found.calibrated,
        usual=found.calibration.usual,
        boundary=found.calibration.boundary,
        effect=effect,
        centre=tuple(centre.tolist()),
        spread=tuple(spread.tolist()),
        sha256=hashlib.sha256(body).hexdigest(),
        spec_sha256=spec.digest,
        catalogue_sha256=catalogue,
    )
    from anomaly.jobs.model_card import card

    final = models.save(folder, body, manifest, card(manifest, len(set(kept.nodes))), spec.keep)
    return replace(told, manifest=manifest, folder=final)
