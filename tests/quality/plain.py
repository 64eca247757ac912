"""The plain rows beside ours: random, mean |z|, PCA, kNN and an isolation forest, all fitted on the past only."""

from collections.abc import Callable, Mapping

import numpy as np

from anomaly.records import Floats

SEED = 770001
NEIGHBOURS, REMEMBERED, KEPT_VARIANCE = 5, 2000, 0.9


def windows(values: Floats, length: int) -> Floats:
    """A single series as steps × its last `length` values; the first steps repeat the first value."""
    padded = np.concatenate([np.full(length - 1, values[0]), values])
    return np.lib.stride_tricks.sliding_window_view(padded, length)


def _standard(rows: Floats, learnt: int) -> Floats:
    centre, spread = rows[:learnt].mean(axis=0), rows[:learnt].std(axis=0)
    return np.asarray((rows - centre) / np.where(spread > 1e-9, spread, 1.0))


def random(rows: Floats, learnt: int) -> Floats:
    return np.random.default_rng(SEED).random(len(rows))


def mean_z(rows: Floats, learnt: int) -> Floats:
    return np.asarray(np.abs(_standard(rows, learnt)).mean(axis=1))


def pca(rows: Floats, learnt: int) -> Floats:
    """Squared reconstruction error with the components that hold nine tenths of the variance."""
    values = _standard(rows, learnt)
    _, size, axes = np.linalg.svd(values[:learnt], full_matrices=False)
    share = np.cumsum(size**2) / max(float((size**2).sum()), 1e-12)
    kept = axes[: int(np.searchsorted(share, KEPT_VARIANCE)) + 1]
    return np.asarray(((values - values @ kept.T @ kept) ** 2).sum(axis=1))


def knn(rows: Floats, learnt: int) -> Floats:
    """Distance to the fifth nearest of two thousand rows of the past."""
    from sklearn.neighbors import NearestNeighbors

    values = _standard(rows, learnt)
    places = np.random.default_rng(SEED).permutation(learnt)[:REMEMBERED]
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(values[places])
    return np.asarray(near.kneighbors(values)[0][:, -1])


def forest(rows: Floats, learnt: int) -> Floats:
    from sklearn.ensemble import IsolationForest

    return np.asarray(-IsolationForest(n_estimators=100, random_state=SEED).fit(rows[:learnt]).score_samples(rows))


PLAIN: Mapping[str, Callable[[Floats, int], Floats]] = {
    "random": random,
    "mean abs z": mean_z,
    "PCA": pca,
    "kNN": knn,
    "IForest, raw": forest,
}
"""steps × columns, how many steps are the past → a score a step."""
