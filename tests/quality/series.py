"""Our production kernels on plain series that nobody can name: habits, shifts, runs and the forest, no detector made
for a benchmark.

There are no peers, no load, no causes here, so peers, gates and rules have nothing to say. What is asked of every
series alike, before any label was seen: a tenth of the range it has had so far is worth a verdict, a fiftieth is noise.
"""

from dataclasses import dataclass

import numpy as np

from anomaly.clock import Ms
from anomaly.detect import forest as forests
from anomaly.detect import shift
from anomaly.detect.habit import bucket_length, close_bucket, no_habit, usual
from anomaly.detect.profiles import LEAST_SAMPLES
from anomaly.detect.runs import Run, advance
from anomaly.detect.scored import Profile, Scored
from anomaly.features.cube import middle
from anomaly.jobs.train import calibrate
from anomaly.records import Entity, Floats
from anomaly.signals.model import Shift

ASKED = Shift(effect=0.1, floor=0.02)
FOREST_WINDOW = 5
TREES, SAMPLES, SEED, QUANTILE, HELD_OUT = 100, 256, 7, 0.99, 0.25
"""As in `models/node-forest.yaml`."""


@dataclass(frozen=True)
class Judged:
    """Series × steps. `change` is the deviation from what was usual; NaN where nothing was usual yet. `score` is what
    has lasted: the lowest of the last LEAST_SAMPLES, as a finding needs so many past its boundary."""

    score: Floats
    change: Floats


def scaled(values: Floats, learnt: int) -> Floats:
    """Every row in units of the range that it had in its first `learnt` columns."""
    past = values[:, :learnt]
    low, high = past.min(axis=1), past.max(axis=1)
    span = np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
    return np.asarray((values - low[:, None]) / span[:, None])


def shifts(values: Floats, step: Ms) -> Judged:
    """The shift detector over all columns, with the habit and the runs that the tick carries from bucket to bucket."""
    bucket = bucket_length(step)
    width = int(bucket // step)
    keys = tuple(str(i) for i in range(len(values)))
    persist = (LEAST_SAMPLES - 1) * step
    found = Profile("value", "shift", "high", "", "", "", False, False, persist, 3 * persist // 2, LEAST_SAMPLES, step)
    entities = tuple(Entity("series", key) for key in keys)
    habit, runs = no_habit(), dict[str, Run]()
    scores, changes = [], []
    nobody = np.zeros(len(keys), bool)
    for first in range(0, values.shape[1], width):
        part = values[:, first : first + width]
        times = step * np.arange(first + 1, first + 1 + part.shape[1], dtype=np.int64)
        begin, end = int(times[0]), int(times[-1])
        score, expected = shift.judge(part, habit, keys, begin, bucket, ASKED, "both")
        scored = Scored(found, keys, entities, ("",) * len(keys), times, score, part, expected)
        runs = advance(runs, scored, 0, part.shape[1])
        past = np.array([key in runs for key in keys])
        held, _ = usual(habit, keys, end, bucket)
        habit = close_bucket(habit, keys, part, held, past, end, bucket, nobody)
        scores.append(score)
        changes.append(part - expected)
    return Judged(_lasted(np.concatenate(scores, axis=1)), np.concatenate(changes, axis=1))


def _lasted(score: Floats) -> Floats:
    padded = np.concatenate([np.full((len(score), LEAST_SAMPLES - 1), np.nan), score], axis=1)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, LEAST_SAMPLES, axis=1).min(axis=2))


def forest_scores(change: Floats, learnt: int) -> Floats:
    """The node forest on the changes of all series at once: fitted on the first `learnt` columns but for their newest
    quarter, calibrated on that. One value a column; NaN while too little is known."""
    rows = np.stack([_recent(series) for series in change], axis=1)
    split = int((1 - HELD_OUT) * learnt)
    known = np.asarray(~np.isnan(rows).any(axis=1))
    train = rows[:split][known[:split]]
    telling = forests.varying(train)
    floors = np.full(int(telling.sum()), ASKED.floor)
    forest, centre, spread = forests.fit(train[:, telling], floors, TREES, SAMPLES, SEED)
    columns = rows[:, telling]
    raw = forests.raw_scores(forest, forests.scaled(columns, centre, spread))
    effect = forests.effect_floor(forest, columns.shape[1], SEED)
    times = np.arange(split, learnt, dtype=np.int64)
    found = calibrate(raw[split:learnt], ["all"] * len(times), times, 1, QUANTILE, effect)
    return np.where(known, found.calibration.scores(raw), np.nan)


def _recent(series: Floats) -> Floats:
    """The median of the last FOREST_WINDOW columns, as the cube has it."""
    padded = np.concatenate([np.full(FOREST_WINDOW - 1, np.nan), series])
    return middle(np.lib.stride_tricks.sliding_window_view(padded, FOREST_WINDOW))
