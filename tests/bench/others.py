"""Others on the same panel: one detector of theirs on each series, all of ours on all of them."""

import numpy as np

from anomaly.clock import MINUTE
from anomaly.records import Floats
from tests.bench import batch
from tests.bench.cluster import T0, BenchCluster
from tests.bench.measure import Row, best

WINDOW = 40
"""Points of a rolling window: ten minutes at 15 s."""


def rows(nodes: int = 250, minutes: int = 31) -> list[Row]:
    _, samples, spent, _ = batch.measure(nodes, minutes)
    ours = samples / spent.seconds
    panel = BenchCluster(nodes).values("rdma_bytes_received", T0, T0 + (minutes - 1) * MINUTE, 15_000)
    # Short series cost them more a sample; as they would be run on a day, each gets two thousand points too.
    day = BenchCluster(50).values("rdma_bytes_received", T0, T0 + 1999 * 15_000, 15_000)
    pandas = max(_rate(_rolling_mad, np.diff(one)[:count]) for one, count in ((panel, 400), (day, 100)))
    forest = max(_rate(_forest, np.diff(one)[:count]) for one, count in ((panel, 4), (day, 4)))
    said = f"{ours:,.0f} ÷ {pandas:,.0f} samples/s"
    few = f"{forest:,.0f} samples/s, from four series"
    return [
        Row("all of ours ÷ pandas' rolling median and MAD", ours / pandas, "×", 5, "at least", said),
        Row("all of ours ÷ a scikit-learn forest a series", ours / forest, "×", 1000, "at least", few),
    ]


def _rate(detector: object, panel: Floats) -> float:
    assert callable(detector)
    return panel.size / best(lambda: detector(panel))


def _rolling_mad(panel: Floats) -> None:
    import pandas as pd

    for row in panel:
        series = pd.Series(row)
        median = series.rolling(WINDOW, min_periods=5).median()
        deviation = (series - median).abs()
        _ = deviation / (1.4826 * deviation.rolling(WINDOW, min_periods=5).median() + 1e-9)


def _forest(panel: Floats) -> None:
    from sklearn.ensemble import IsolationForest

    for row in panel:
        column = row[:, None]
        IsolationForest(n_estimators=100, random_state=0).fit(column).score_samples(column)
