"""Which training job each node works for, at every step: from the labels of series that have a sample then."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms
from anomaly.features.index import Names, SeriesIndex
from anomaly.features.ring import Ring
from anomaly.records import Ints

NO_JOB = -1
SHARED = -2
"""More than one job on the node at once: nobody's lock-step."""

_NONE = np.int32(np.iinfo(np.int32).max)


@dataclass(frozen=True, slots=True)
class Membership:
    """`job[node, j]`: the job code of the node (by node code) at `times[j]`; NO_JOB or SHARED where there is none."""

    times: Ints
    job: NDArray[np.int32]

    def of(self, node_codes: NDArray[np.int32], times: Ints) -> NDArray[np.int32]:
        """rows × times of job codes for rows given by their node's code."""
        out = np.full((len(node_codes), len(times)), NO_JOB, np.int32)
        if not len(self.times):
            return out
        place = np.searchsorted(self.times, times, side="right") - 1
        known = node_codes < len(self.job)
        good = place >= 0
        out[np.ix_(known, good)] = self.job[np.ix_(node_codes[known], place[good])]
        return out

    def nodes_at(self, job: int, at: Ms, names: Names) -> list[str]:
        """Names of the nodes that work for `job` at `at`."""
        place = int(np.searchsorted(self.times, at, side="right")) - 1
        if place < 0:
            return []
        return [names.names[code].split("/", 1)[1] for code in np.flatnonzero(self.job[:, place] == job)]


def membership(carriers: Iterable[tuple[Ring, SeriesIndex]], times: Ints, nodes: int, hold: Ms) -> Membership:
    """From carriers (ring, index), best first: a later carrier only fills what the earlier ones leave open. A label
    counts until `hold` after its last sample."""
    job = np.full((nodes, len(times)), NO_JOB, np.int32)
    for ring, index in carriers:
        place = np.searchsorted(index.series, ring.series)
        code, node = index.job[place], index.node[place]
        open_still = (job == NO_JOB).any(axis=1)
        use = (code >= 0) & (node >= 0) & open_still[node]
        if not use.any() or not len(ring.times) or not len(times):
            continue
        order = np.argsort(node[use], kind="stable")
        first = min(int(np.searchsorted(ring.times, times[0] - hold)), len(ring.times) - 1)
        seen = _held(~np.isnan(ring.raw[use, first:][order]), ring.times[first:], times, hold)
        codes = code[use][order][:, None]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(node[use][order])) + 1])
        high = np.maximum.reduceat(np.where(seen, codes, NO_JOB), starts, axis=0)
        low = np.minimum.reduceat(np.where(seen, codes, _NONE), starts, axis=0)
        whose = node[use][order][starts]
        found = np.where(high < 0, NO_JOB, np.where(low == high, high, SHARED))
        job[whose] = np.where(job[whose] == NO_JOB, found, job[whose])
    return Membership(times, job)


def _held(present: NDArray[np.bool_], have: Ints, wanted: Ints, hold: Ms) -> NDArray[np.bool_]:
    stamps = np.maximum.accumulate(np.where(present, have[None, :], np.int64(-(1 << 62))), axis=1)
    place = np.searchsorted(have, wanted, side="right") - 1
    newest = np.where(place[None, :] >= 0, stamps[:, np.maximum(place, 0)], np.int64(-(1 << 62)))
    return wanted[None, :] - newest <= hold
