"""Isolation forest over the node cube: a second opinion on nodes that deviate a little in several ways at once.

Isolation forest after Liu, Ting and Zhou (ICDM 2008). Its score saturates, so that a single extreme is left to the
statistics; here it is calibrated on the fleet: 1.0 is the boundary, and no score reaches 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from anomaly.clock import Ms
from anomaly.records import Bools, Entity, Floats, Ints

CLIP = 12.0
"""Deviations count up to so many spreads: farther out the forest sees no difference anyway."""

EFFECT, EFFECT_FEATURES = 4.0, 3
"""The smallest pattern worth a word: so many spreads in so many features."""

MOST_UNKNOWN = 0.5
"""A node of which more features than this share are unknown has no verdict."""

EXPLAINED_FROM = 0.75
"""Scores from here on come with what they rest on."""

POINTED_SHARE = 0.5
"""A score points at the symptom class that explains most of it, and at those that explain at least half as much."""


class NodeModel(Protocol):
    """What the tick needs of a trained model."""

    @property
    def version(self) -> str: ...

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, sorted: the order of the columns that `scores` takes."""

    @property
    def window(self) -> Ms:
        """Each feature is made of so much time."""

    @property
    def trained_through(self) -> Ms:
        """The end of the history it was trained on."""

    def scores(self, values: Floats) -> Floats:
        """The calibrated score of each row of `values` (rows × features, NaN: unknown); NaN: no verdict."""

    def usual(self) -> Floats:
        """The fleet's median of each feature."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Where the forest's own scores lie: `usual` is the fleet's median, `boundary` what counts as 1.0."""

    usual: float
    boundary: float

    def scores(self, raw: Floats) -> Floats:
        """Own scores (in 0 to 1) → calibrated ones: 0 at the usual, 1 at the boundary, below 2 beyond it."""
        below = (raw - self.usual) / max(self.boundary - self.usual, 1e-9)
        above = 1.0 + (raw - self.boundary) / max(1.0 - self.boundary, 1e-9)
        return np.where(raw <= self.boundary, np.clip(below, 0.0, 1.0), np.minimum(above, 1.999))


@dataclass(frozen=True, slots=True)
class NodeForest:
    """A trained forest with its scaling and calibration."""

    version: str
    features: tuple[str, ...]
    window: Ms
    trained_through: Ms
    centre: Floats
    spread: Floats
    calibration: Calibration
    forest: Any

    def scores(self, values: Floats) -> Floats:
        out = np.full(len(values), np.nan)
        known = ~np.isnan(values)
        judged = np.flatnonzero(known.mean(axis=1) >= 1.0 - MOST_UNKNOWN) if values.size else np.empty(0, np.int64)
        if len(judged):
            out[judged] = self.calibration.scores(raw_scores(self.forest, self._scaled(values[judged])))
        return out

    def usual(self) -> Floats:
        return self.centre

    def _scaled(self, values: Floats) -> Floats:
        return scaled(values, self.centre, self.spread)


def scaled(values: Floats, centre: Floats, spread: Floats) -> Floats:
    """Deviations from the fleet's median in spreads, bounded; what is unknown counts as usual."""
    out = np.clip((values - centre) / spread, -CLIP, CLIP)
    return np.where(np.isnan(out), 0.0, out)


def raw_scores(forest: Any, rows: Floats) -> Floats:
    """The forest's own anomaly score: 0.5 is unremarkable, towards 1 is easily isolated."""
    out: Floats = -forest.score_samples(rows)
    return out


def varying(rows: Floats) -> Bools:
    """The columns that tell nodes apart: those with two different known values at least."""
    known = ~np.isnan(rows)
    high = np.where(known, rows, -np.inf).max(axis=0, initial=-np.inf)
    low = np.where(known, rows, np.inf).min(axis=0, initial=np.inf)
    return np.asarray(high > low)


def effect_floor(forest: Any, width: int, seed: int) -> float:
    """The forest's own score of the smallest pattern worth a word: EFFECT spreads in EFFECT_FEATURES features at once,
    all others as usual; the median over many choices of those features."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((200, width))
    for row in rows:
        row[rng.choice(width, EFFECT_FEATURES, replace=False)] = EFFECT * rng.choice([-1.0, 1.0], EFFECT_FEATURES)
    return float(np.median(raw_scores(forest, rows)))


def robust_scale(rows: Floats, floors: Floats) -> tuple[Floats, Floats]:
    """(median, spread) of each column: the robust standard deviation, no smaller than the column's floor.

    A column without any known value has the median 0.
    """
    centre, spread = np.zeros(rows.shape[1]), floors.astype(float)
    for f in range(rows.shape[1]):
        known = rows[~np.isnan(rows[:, f]), f]
        if len(known):
            centre[f] = np.median(known)
            spread[f] = max(float(floors[f]), 1.4826 * float(np.median(np.abs(known - centre[f]))))
    return centre, spread


def fit(rows: Floats, floors: Floats, trees: int, samples: int, seed: int) -> tuple[Any, Floats, Floats]:
    """(forest, median, spread) for training rows × features; the same rows and seed give the same forest.

    Noise of the size of each feature's floor is added first, so that what is smaller than the floor looks like noise.
    Constant columns belong left out before: they would make their one value the only healthy one, or dilute the others.
    """
    from sklearn.ensemble import IsolationForest

    centre, spread = robust_scale(rows, floors)
    noise = np.random.default_rng(seed).normal(size=rows.shape) * floors
    forest = IsolationForest(n_estimators=trees, max_samples=min(samples, len(rows)), random_state=seed)
    forest.fit(scaled(np.where(np.isnan(rows), centre, rows) + noise, centre, spread))
    return forest, centre, spread


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a node's score rests on: how much it falls when a feature, or a whole symptom class, is set to usual."""

    score: float
    features: tuple[tuple[str, float], ...]
    """Features that matter, the most important first."""
    classes: tuple[tuple[str, float], ...]

    @property
    def pointed(self) -> frozenset[str]:
        """The symptom classes that it points at."""
        most = max((fall for _, fall in self.classes), default=0.0)
        return frozenset(name for name, fall in self.classes if most > 0.0 and fall >= POINTED_SHARE * most)


@dataclass(frozen=True, slots=True)
class Opinions:
    """`score[n, t]` of `nodes[n]` at `times[t]`, NaN: no verdict; `why` for those from EXPLAINED_FROM on."""

    nodes: tuple[Entity, ...]
    times: Ints
    score: Floats
    seen: Bools
    why: Mapping[tuple[int, int], Opinion]

    def scores_of(self, symptom: str) -> Floats:
        """Scores where they point at the class; elsewhere they are kept below the boundary."""
        out = np.where(np.isnan(self.score), np.nan, np.minimum(self.score, EXPLAINED_FROM))
        for (n, t), opinion in self.why.items():
            if symptom in opinion.pointed:
                out[n, t] = self.score[n, t]
        return out


def judge(
    model: NodeModel, nodes: tuple[Entity, ...], times: Ints, values: Floats, seen: Bools, symptoms: Sequence[str]
) -> Opinions:
    """The model's verdict on nodes × times × features; `symptoms[f]` is the class of the f-th feature."""
    shape = values.shape[:2]
    flat = values.reshape(-1, values.shape[2])
    score = model.scores(flat)
    near = np.flatnonzero(np.nan_to_num(score, nan=0.0) >= EXPLAINED_FROM)
    why = {}
    for place, opinion in zip(near.tolist(), explain(model, flat[near], score[near], symptoms), strict=True):
        why[divmod(place, shape[1])] = opinion
    return Opinions(nodes, times, score.reshape(shape), seen, why)


def explain(model: NodeModel, rows: Floats, score: Floats, symptoms: Sequence[str]) -> list[Opinion]:
    """What each row's score rests on: the same row is scored again with one feature, then one class, as usual."""
    if not len(rows):
        return []
    classes = sorted(set(symptoms))
    width = rows.shape[1]
    changed = [np.arange(width) == f for f in range(width)]
    changed += [np.array([symptom == name for symptom in symptoms]) for name in classes]
    usual = model.usual()
    copies = np.concatenate([np.where(mask[None, :] & ~np.isnan(rows), usual[None, :], rows) for mask in changed])
    again = model.scores(copies).reshape(len(changed), len(rows))
    fall = np.maximum(score[None, :] - again, 0.0)
    out = []
    for i in range(len(rows)):
        features = sorted(zip(model.features, fall[:width, i].tolist(), strict=True), key=lambda item: -item[1])
        least = 0.1 * max(features[0][1], 1e-9)
        by_class = sorted(zip(classes, fall[width:, i].tolist(), strict=True), key=lambda item: -item[1])
        out.append(
            Opinion(
                float(score[i]),
                tuple((name, round(value, 4)) for name, value in features[:5] if value >= least),
                tuple((name, round(value, 4)) for name, value in by_class if value > 0.0),
            )
        )
    return out
