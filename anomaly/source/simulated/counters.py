"""Counters that start somewhere, grow by what happened and fall when the thing that counts starts anew."""

from collections.abc import Iterable

import numpy as np

from anomaly.clock import Ms
from anomaly.records import Floats, Ints


def step_of(ts: Ints, instant: Ms) -> int | None:
    """The first step at or after `instant`, if it belongs to this stretch; None if it lies before or after it.

    The step before the stretch is where the one before it ended, so no instant belongs to two stretches.
    """
    spacing = int(ts[1] - ts[0])
    at = -((int(ts[0]) - instant) // spacing)
    return at if 0 <= at < len(ts) else None


class Counters:
    """Named counters of any shape, carried from stretch to stretch. Time is the last axis."""

    def __init__(self) -> None:
        self.now: dict[str, Floats] = {}

    def copy(self) -> "Counters":
        twin = Counters()
        twin.now = dict(self.now)
        return twin

    def grow(self, name: str, increments: Floats, resets: Iterable[tuple[int, int]] = ()) -> Floats:
        """Values at each step; `resets` are (node, step) at which all of the node's counters start from nothing."""
        carried = self.now.get(name, np.zeros(increments.shape[:-1]))
        values = carried[..., None] + np.cumsum(increments, axis=-1)
        for node, step in sorted(set(resets), key=lambda reset: reset[1]):
            before = values[node, ..., step] - increments[node, ..., step]
            values[node, ..., step:] -= before[..., None]
        self.now[name] = values[..., -1].copy()
        return values


def seeded(rng: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> Floats:
    """Whole start values, spread evenly over orders of magnitude."""
    return np.asarray(np.floor(np.exp(rng.uniform(np.log(low), np.log(high), shape))))


def few(rng: np.random.Generator, shape: tuple[int, ...], share: float, most: int = 4) -> Floats:
    """Start values that are zero but for a `share` of small ones: old, harmless events."""
    return np.asarray(np.where(rng.random(shape) < share, rng.integers(1, most + 1, shape), 0).astype(np.float64))
