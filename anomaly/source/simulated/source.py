"""The simulated cluster as a source: answers range queries as a Prometheus that scrapes it would."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from anomaly.clock import MINUTE, SECOND, Ms, parse_duration
from anomaly.records import Bools, Floats, Ints, Labels, Pulled, Query
from anomaly.source.simulated import promql
from anomaly.source.simulated.exposition import CPU, REQUESTS, Exposition, Key, Matrix
from anomaly.source.simulated.faults import Fault
from anomaly.source.simulated.host import BUCKETS
from anomaly.source.simulated.layout import Cluster, make_cluster
from anomaly.source.simulated.place import rounds
from anomaly.source.simulated.scenario import Scenario, Simulation

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_RANGE = re.compile(r"\[(\w+?)(?::\w*)?\]")
_WINDOW: Ms = 2 * MINUTE

Answer = tuple[list[Labels], Floats, Bools]
"""Labels, values on the grid, and where there is one (which may be NaN)."""


class _Answers:
    """Answers from a simulation, up to `end` where there is one."""

    def __init__(self, cluster: Cluster, simulation: Simulation, end: Ms | None) -> None:
        self._simulation = simulation
        self._exposition = Exposition(cluster)
        self._end = end
        self._computed: dict[str, Callable[[Query, Ints], Answer]] = {
            "cpu_busy_ratio": self._cpu_busy,
            "memory_available_ratio": self._memory_available,
            "load_per_core": self._load_per_core,
            "storage_p99": self._storage_p99,
        }

    def pull(self, query: Query) -> Pulled:
        """The samples of `query.signal`.

        The computed signals (CPU, memory, load per core, storage P99) are computed as their PromQL says, over the
        window that stands in it; any other query means the metrics named in it, with all their labels. What is not
        simulated is an empty answer, as an unknown metric is to Prometheus.
        """
        grid = np.arange(query.start, query.end + 1, query.step, dtype=np.int64)
        if not len(grid):
            return _pulled([], np.empty((0, 0)), np.empty((0, 0), bool), grid)
        compute = self._computed.get(query.signal, self._plain)
        return _pulled(*compute(query, grid), grid)

    def _matrix(self, name: str, start: Ms, end: Ms) -> Matrix:
        return self._exposition.matrix(self._simulation, name, start, end if self._end is None else min(end, self._end))

    def _instant(self, name: str, query: Query, grid: Ints) -> tuple[Matrix, Floats]:
        matrix = self._matrix(name, query.start - promql.LOOKBACK, query.end)
        return matrix, promql.instant(matrix.values, matrix.first, matrix.scrape, grid)

    def _rate(self, name: str, query: Query, grid: Ints) -> tuple[Matrix, Floats]:
        found = _RANGE.search(query.promql)
        window = parse_duration(found.group(1)) if found else _WINDOW
        matrix = self._matrix(name, query.start - window, query.end)
        return matrix, promql.rate(matrix.values, matrix.first, matrix.scrape, grid, window)

    def _plain(self, query: Query, grid: Ints) -> Answer:
        known = set(self._exposition.names)
        names = [name for name in dict.fromkeys(_NAME.findall(query.promql)) if name in known]
        labels: list[Labels] = []
        parts: list[Floats] = []
        for name in names:
            matrix, values = self._instant(name, query, grid)
            labels.extend(matrix.labels(row) for row in range(len(matrix.keys)))
            parts.append(values)
        values = np.concatenate(parts) if parts else np.empty((0, len(grid)))
        return labels, values, ~np.isnan(values)

    def _cpu_busy(self, query: Query, grid: Ints) -> Answer:
        matrix, rates = self._rate(CPU, query, grid)
        idle = [row for row, key in enumerate(matrix.keys) if ("mode", "idle") in key]
        groups, labels = _grouped([matrix.keys[row] for row in idle], ("instance",))
        rates = rates[idle]
        values = np.stack([1.0 - _mean(rates[rows]) for rows in groups]) if groups else np.empty((0, len(grid)))
        return labels, values, ~np.isnan(values)

    def _memory_available(self, query: Query, grid: Ints) -> Answer:
        matrix, available = self._instant("node_memory_MemAvailable_bytes", query, grid)
        _, total = self._instant("node_memory_MemTotal_bytes", query, grid)
        values = available / total
        return [dict(key) for key in matrix.keys], values, ~np.isnan(values)

    def _load_per_core(self, query: Query, grid: Ints) -> Answer:
        matrix, load = self._instant("node_load1", query, grid)
        cpus, seconds = self._instant(CPU, query, grid)
        idle = [row for row, key in enumerate(cpus.keys) if ("mode", "idle") in key]
        groups, _ = _grouped([cpus.keys[row] for row in idle], ("instance",))
        cores = [_count(seconds[idle][rows]) for rows in groups]
        values = load / np.stack(cores) if cores else load
        return [dict(key) for key in matrix.keys], values, ~np.isnan(values)

    def _storage_p99(self, query: Query, grid: Ints) -> Answer:
        matrix, rates = self._rate(REQUESTS, query, grid)
        groups, labels = _grouped(matrix.keys, ("instance", "vol_name"))
        buckets = len(BUCKETS) + 1
        values, there = [], []
        for rows in groups:
            by_method = rates[rows].reshape(-1, buckets, len(grid))
            seen = promql.present_any(by_method, (0, 1))
            counts = np.where(np.isnan(by_method), 0.0, by_method).sum(axis=0)
            values.append(np.where(seen, promql.histogram_quantile(0.99, np.array(BUCKETS), counts), np.nan))
            there.append(seen)
        if not groups:
            return [], np.empty((0, len(grid))), np.empty((0, len(grid)), bool)
        return labels, np.stack(values), np.stack(there)


class SimulatedSource(_Answers):
    """A finite scenario as a source; nothing is simulated before the first pull."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario.cluster, scenario.simulation, scenario.end)
        self.scenario = scenario


class LiveSimulatedSource(_Answers):
    """A cluster simulated from `origin` for as long as it is asked, for a service that runs on nothing else.

    `faults` (names, or how many) come round after round, from twenty minutes after the origin on, each at another
    node and time; the same arguments give the same answers whenever and however they are pulled. Asking for a time
    that has not come is asking Prometheus for the future: the caller owns the clock, so here it gets an answer.
    """

    def __init__(
        self,
        seed: int,
        nodes: int,
        faults: Sequence[str] | int,
        origin: Ms,
        *,
        gpus: int = 8,
        jobs: int = 4,
        scrape_ms: Ms = 15 * SECOND,
    ) -> None:
        self.cluster = make_cluster(seed, nodes, gpus, jobs)
        self.faults_until: Callable[[Ms], tuple[Fault, ...]] = rounds(self.cluster, seed, faults, origin)
        super().__init__(self.cluster, Simulation(self.cluster, self.faults_until, origin, scrape_ms, seed), None)


def _grouped(keys: Sequence[Key], by: tuple[str, ...]) -> tuple[list[list[int]], list[Labels]]:
    """Row numbers per group, groups in order of appearance, and the groups' labels."""
    rows: dict[Key, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(tuple(pair for pair in key if pair[0] in by), []).append(row)
    return list(rows.values()), [dict(key) for key in rows]


def _mean(values: Floats) -> Floats:
    """Mean over the rows that have a value; NaN where none has."""
    there = ~np.isnan(values)
    count = there.sum(axis=0)
    total = np.where(there, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _count(values: Floats) -> Floats:
    """How many rows have a value; NaN where none has."""
    count = (~np.isnan(values)).sum(axis=0).astype(np.float64)
    return np.where(count > 0, count, np.nan)


def _pulled(labels: list[Labels], values: Floats, there: Bools, grid: Ints) -> Pulled:
    lengths = there.sum(axis=1).astype(np.int64) if len(labels) else np.empty(0, np.int64)
    if not len(labels):
        return Pulled((), lengths, np.empty(0, np.int64), np.empty(0))
    some = lengths > 0
    ts = np.broadcast_to(grid, there.shape)[there]
    kept = tuple(label_set for label_set, wanted in zip(labels, some, strict=True) if wanted)
    return Pulled(kept, lengths[some], ts, values[there])
