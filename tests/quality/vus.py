"""VUS-PR: the volume under the precision-recall surface over thresholds and widths of a tolerance round each event.

After Paparrizos et al., VLDB 2022, as TSB-AD computes it (NeurIPS 2024): 250 thresholds at evenly spaced ranks, widths
from 0 to `window`, labels that fall off as sqrt(1 - distance / width) on either side, recall times the share of events
that are met at all. A test holds it against published figures.
"""

import numpy as np
from numpy.typing import NDArray

from anomaly.records import Floats

THRESHOLDS = 250
_SPANS = list[tuple[int, int]]


def vus_pr(labels: NDArray[np.bool_], score: Floats, window: int, thresholds: int = THRESHOLDS) -> float:
    """Between 0 and 1. `labels` needs at least one true point; higher scores are more anomalous; ties are kept."""
    n = len(score)
    ascending = np.sort(score)
    edges = ascending[::-1][np.linspace(0, n - 1, thresholds).astype(int)]
    predicted = n - np.searchsorted(ascending, edges, side="left")
    order = np.argsort(-score, kind="stable")
    events = spans(labels)
    hits = np.cumsum(labels[order])[predicted - 1]
    areas = []
    for width in range(window + 1):
        near = np.cumsum(_tolerance(labels, events, width)[order])[predicted - 1]
        merged = _merged(events, width // 2, n)
        highest = np.array([score[first : last + 1].max() for first, last in merged])
        met = (highest[None, :] >= edges[:, None]).mean(axis=1)
        found = hits + near
        recall = np.minimum(found / (labels.sum() + near / 2), 1.0) * met
        areas.append(float(np.diff(recall, prepend=0.0) @ (found / predicted)))
    return float(np.mean(areas))


def spans(labels: NDArray[np.bool_]) -> _SPANS:
    """(first, last) of every event, both inclusive."""
    edges = np.diff(np.concatenate([[0], labels.astype(np.int8), [0]]))
    return list(zip(np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) - 1).tolist(), strict=True))


def _tolerance(labels: NDArray[np.bool_], events: _SPANS, width: int) -> Floats:
    """What points outside the events count as, 1 at most."""
    out = np.zeros(len(labels))
    for first, last in events:
        after = np.arange(last + 1, min(last + width // 2 + 1, len(labels)))
        out[after] += np.sqrt(1 - (after - last) / max(width, 1))
        before = np.arange(max(first - width // 2, 0), first)
        out[before] += np.sqrt(1 - (first - before) / max(width, 1))
    return np.where(labels, 0.0, np.minimum(out, 1.0))


def _merged(events: _SPANS, reach: int, n: int) -> _SPANS:
    """The events widened by `reach`, those that meet as one."""
    out: _SPANS = []
    for first, last in events:
        if out and out[-1][1] >= first - reach:
            out[-1] = out[-1][0], min(last + reach, n - 1)
        else:
            out.append((max(first - reach, 0), min(last + reach, n - 1)))
    return out


def period(values: Floats) -> int:
    """The window that TSB-AD takes: where the autocorrelation has its highest local maximum, 125 where that is none."""
    values = values[:20_000] - values[:20_000].mean()
    n, size = len(values), 1 << (2 * len(values) - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(values, size)) ** 2
    correlation = np.fft.irfft(spectrum, size)[: min(401, n)]
    if correlation[0] <= 0:
        return 125
    tail = correlation[3:] / correlation[0]
    tops = 1 + np.flatnonzero((tail[1:-1] > tail[:-2]) & (tail[1:-1] > tail[2:]))
    if not len(tops):
        return 125
    best = int(tops[np.argmax(tail[tops])])
    return 125 if best < 3 or best > 300 else best + 3
