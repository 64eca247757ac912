"""Shift: a row against its own usual value. It finds when a job, a volume or a fabric changed, never which node."""

import numpy as np

from anomaly.detect.habit import Habit, usual
from anomaly.detect.scored import bad_side
from anomaly.records import Floats
from anomaly.signals.model import Shift


def to_scale(values: Floats, shift: Shift) -> Floats:
    if shift.scale == "linear":
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.log(np.maximum(values, 0.0) + shift.pseudo)
    return np.where(np.isfinite(out), out, np.nan)


def judge(
    values: Floats, habit: Habit, keys: tuple[str, ...], at: int, bucket: int, shift: Shift, bad: str
) -> tuple[Floats, Floats]:
    """(score, expected in the signal's unit) for rows × steps; NaN for rows without a usual value.

    Score = the smaller of deviation / effect and deviation / (sigmas × robust spread of the past buckets).
    """
    known, spread = usual(habit, keys, at, bucket)
    deviation = bad_side(to_scale(values, shift) - known[:, None], bad)
    sigma = np.maximum(np.nan_to_num(spread), shift.floor)[:, None]
    score = np.maximum(np.minimum(deviation / shift.effect, deviation / (shift.sigmas * sigma)), 0.0)
    if shift.least > 0.0:
        harmless = values < shift.least if bad == "high" else values > shift.least
        score = np.where(harmless, np.minimum(score, 0.0), score)
    expected = known if shift.scale == "linear" else np.maximum(np.exp(known) - shift.pseudo, 0.0)
    return score, np.broadcast_to(expected[:, None], values.shape)
