"""Train: fit the isolation forest on stored history and calibrate it on the newest, held-out part of it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as installed
from pathlib import Path

import numpy as np

from anomaly.clock import HOUR, Ms, align_down, format_duration, format_time
from anomaly.detect.forest import Calibration, effect_floor, fit, raw_scores, scaled, varying
from anomaly.errors import UsageError
from anomaly.features.cube import FEATURES
from anomaly.jobs import models
from anomaly.jobs.carry import Live, refresh
from anomaly.jobs.collect import NAMES, Progress, quiet
from anomaly.jobs.flagged import capped, stretches, within
from anomaly.jobs.history import Windows, history, reader, usable_of
from anomaly.jobs.model_file import dump
from anomaly.jobs.model_spec import NODE_FOREST, ModelSpec, load_spec
from anomaly.jobs.parts import MODELS, Parts
from anomaly.records import Floats, Ints
from anomaly.signals.identity import aliases_from
from anomaly.store.samples import COLLECTED
from anomaly.store.store import Store

CLUSTER: Ms = HOUR
"""What is past the boundary within so much time on one node counts once."""

ENOUGH = 10.0
"""Exceedances expected in the held-out data from which a quantile is a calibration rather than a prior."""

LEAST_FEATURES = 3
"""Fewer that vary make no pattern."""


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
    read = reader(parts, store, live.directory)
    found = history(spec, tick, live.directory, read, findings, *bounds, progress)
    usable = usable_of(found)
    out = capped(within(findings, usable.nodes, usable.times, spec.window, spec.left_out.margin), spec.left_out.most)
    kept = usable.pick(~out)
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
    learnt, held = kept.pick(kept.times <= split), kept.pick(kept.times > split)
    telling = varying(learnt.values)
    features = tuple(name for name, use in zip(spec.features, telling.tolist(), strict=True) if use)
    if len(features) < LEAST_FEATURES:
        return replace(told, constant=True)
    learnt, held = learnt.columns(telling), held.columns(telling)
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
