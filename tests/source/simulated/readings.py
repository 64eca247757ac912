"""A small cluster and a way to read its series by label, for the tests of this folder."""

from collections.abc import Sequence

import numpy as np

from anomaly.clock import MINUTE, SECOND, Ms, parse_time
from anomaly.records import Floats, Ints, Query
from anomaly.source.simulated import Cluster, Fault, Scenario, SimulatedSource, make_cluster

START: Ms = parse_time("2026-11-30T08:00:00Z")
ONSET, OVER = START + 20 * MINUTE, START + 38 * MINUTE
END: Ms = START + 60 * MINUTE
SCRAPE: Ms = 15 * SECOND


def small_cluster(seed: int = 3) -> Cluster:
    """16 nodes of 4 GPUs: two jobs of 7 or 8 nodes each, one idle node."""
    return make_cluster(seed, nodes=16, gpus=4, jobs=2, rails=4)


class Readings:
    """The series of one scenario, on the scrape grid from START to END."""

    def __init__(self, cluster: Cluster, *faults: Fault, seed: int = 3, end: Ms = END) -> None:
        self.source = SimulatedSource(Scenario(cluster, faults, START, end, seed=seed))
        self.grid: Ints = np.arange(START, end + 1, SCRAPE, dtype=np.int64)

    def series(self, metric: str, **labels: str) -> list[tuple[dict[str, str], Floats]]:
        """(labels, values) of all series of `metric` with these labels, NaN where there is no value."""
        query = Query(metric, metric, int(self.grid[0]), int(self.grid[-1]), SCRAPE)
        pulled = self.source.pull(query)
        found, at = [], 0
        for label_set, length in zip(pulled.labels, pulled.lengths, strict=True):
            if all(label_set.get(label) == value for label, value in labels.items()):
                values = np.full(len(self.grid), np.nan)
                values[(pulled.ts[at : at + length] - START) // SCRAPE] = pulled.values[at : at + length]
                found.append((dict(label_set), values))
            at += int(length)
        return found

    def one(self, metric: str, **labels: str) -> Floats:
        """The one thing with these labels: the largest of its series at each time, as they come and go with its job."""
        found = [values for _, values in self.series(metric, **labels)]
        assert found, f"no {metric} with {labels}"
        return np.asarray(np.fmax.reduce(found))

    def level(self, values: Floats, since: Ms, until: Ms) -> float:
        """Median of `values` in [since, until), which must all be there: a checkpoint does not count."""
        return float(np.median(values[self.window(since, until)]))

    def grown(self, values: Floats, since: Ms, until: Ms) -> float:
        """By how much a counter grew; what a reset took does not count."""
        return float(np.diff(values[self.window(since, until)]).clip(0.0).sum())

    def pace(self, values: Floats, since: Ms, until: Ms) -> float:
        """By how much a counter usually grows from scrape to scrape: neither a checkpoint nor a reset counts."""
        return float(np.median(np.diff(values[self.window(since, until)])))

    def window(self, since: Ms, until: Ms) -> slice:
        return slice(int((since - START) // SCRAPE), int((until - START) // SCRAPE))


def names(values: Sequence[tuple[dict[str, str], Floats]], label: str) -> set[str]:
    return {labels[label] for labels, _ in values}
