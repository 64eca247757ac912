"""Threshold: a value, or a counter's rate, at or beyond a fixed boundary."""

import numpy as np

from anomaly.records import Floats
from anomaly.signals.model import Threshold


def judge(values: Floats, threshold: Threshold) -> tuple[Floats, float]:
    """(score, boundary): 1.0 exactly at the boundary, NaN where there is no value.

    Scores grow with the ratio to the boundary, capped at 10: a fixed boundary says "past it", not "how anomalous".
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if threshold.above is not None:
            past = values >= threshold.above
            ratio = values / threshold.above if threshold.above > 0 else past.astype(float)
            boundary = threshold.above
        else:
            boundary = float(threshold.below or 0.0)
            past = values <= boundary
            ratio = np.where(values > 0, boundary / values, 10.0) if boundary > 0 else past.astype(float)
    score = np.where(past, np.clip(ratio, 1.0, 10.0), np.clip(ratio, 0.0, 0.999))
    return np.where(np.isnan(values), np.nan, score), boundary
