"""A cluster, its faults and a stretch of time: simulated once, in fixed blocks, each from the state before it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from anomaly.clock import MINUTE, SECOND, Ms, align_down
from anomaly.source.simulated import record
from anomaly.source.simulated.faults import KINDS, Fault, hang_of
from anomaly.source.simulated.jobs import Stop
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.noise import NOISE, Noise
from anomaly.source.simulated.setting import healthy

BLOCK: Ms = 30 * MINUTE
"""Length of a block, to the whole scrape below it."""

_ANCHOR_EVERY = 24
"""Of old states, one in so many is kept to start again from, so that a service may run for months."""

FaultsUntil = Callable[[Ms], Sequence[Fault]]
"""All faults with an onset before an instant; asked for a later instant it only adds later ones."""


class Simulation:
    """Blocks of simulated time from `origin` on, made when asked for.

    A block depends on the cluster, the faults, the seed and the state before it, so it is the same however it is
    reached. The newest `keep` blocks stay in memory; an older one is made again from its state, equal to the last bit.
    Safe to use from several threads.
    """

    def __init__(
        self,
        cluster: Cluster,
        faults: FaultsUntil,
        origin: Ms,
        scrape_ms: Ms,
        seed: int,
        keep: int = 48,
        noise: Sequence[Noise] = (),
    ) -> None:
        if scrape_ms <= 0 or scrape_ms > BLOCK // 2:
            raise ValueError(f"a scrape interval lies between 1 ms and {BLOCK // 2} ms, not at {scrape_ms}")
        self.cluster = cluster
        self.origin = align_down(origin, scrape_ms)
        self.scrape_ms = scrape_ms
        self.steps = int(BLOCK // scrape_ms)
        self._faults = faults
        self._noise = tuple(noise)
        self._seed = seed
        self._keep = keep
        self._states: dict[int, record.State] = {}
        self._records: OrderedDict[int, record.Record] = OrderedDict()
        self._lock = threading.Lock()

    def block_at(self, instant: Ms) -> int:
        """The number of the block that `instant` lies in; negative before the origin."""
        return (instant - self.origin) // (self.steps * self.scrape_ms)

    def block(self, k: int) -> record.Record:
        """Block `k` ≥ 0."""
        with self._lock:
            if k not in self._records:
                known = max((made for made in self._states if made <= k), default=0)
                for each in range(known, k + 1):
                    self._make(each)
            self._records.move_to_end(k)
            return self._records[k]

    def _make(self, k: int) -> None:
        first = self.origin + k * self.steps * self.scrape_ms
        ts = first + self.scrape_ms * np.arange(self.steps, dtype=np.int64)
        faults = self._faults(first + self.steps * self.scrape_ms)
        setting = healthy(self.cluster, _stops(faults), self.origin, ts)
        for noise in self._noise:
            NOISE[noise.type](setting, noise, self.cluster)
        for fault in faults:
            KINDS[fault.type].edit(setting, fault, self.cluster)
        rng = np.random.default_rng([self._seed, 20, k])
        if k == 0:
            self._states[0] = record.start(self.cluster, setting, np.random.default_rng([self._seed, 21]), self.origin)
        state = self._states[k].copy()
        self._records[k] = record.advance(self.cluster, setting, state, rng, k * self.steps)
        self._states.setdefault(k + 1, state)
        for old in [made for made in self._states if made < k - 2 * _ANCHOR_EVERY and made % _ANCHOR_EVERY]:
            del self._states[old]
        while len(self._records) > self._keep:
            self._records.popitem(last=False)


class Scenario:
    """A finite piece of simulated time, both ends included on the scrape grid. Nothing is simulated before it is asked.

    Raises ValueError for a range that is empty and for faults that do not fit the cluster.
    """

    def __init__(
        self,
        cluster: Cluster,
        faults: Sequence[Fault],
        start: Ms,
        end: Ms,
        scrape_ms: Ms = 15 * SECOND,
        seed: int = 0,
        noise: Sequence[Noise] = (),
    ) -> None:
        if end <= start:
            raise ValueError(f"the simulated range is empty: start {start} is not before end {end}")
        for name, nodes in (*((f.type, f.nodes) for f in faults), *((n.type, n.nodes) for n in noise)):
            strangers = sorted(set(nodes) - set(cluster.index))
            if strangers:
                raise ValueError(f"{name}: the cluster has no node {', '.join(strangers)}")
        self.cluster = cluster
        self.faults = tuple(sorted(faults, key=lambda fault: (fault.onset, fault.type, fault.nodes)))
        self.noise = tuple(noise)
        self.start, self.end = start, end
        self.scrape_ms = scrape_ms
        self.simulation = Simulation(cluster, lambda until: self.faults, start, scrape_ms, seed, 10_000, self.noise)


def _stops(faults: Sequence[Fault]) -> list[Stop]:
    return [
        Stop(fault.nodes, fault.onset, min(fault.onset + hang_of(fault), fault.end), fault.end)
        for fault in faults
        if KINDS[fault.type].stops_job
    ]
