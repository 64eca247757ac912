"""Small rings, indices and panels for the tests of features and detectors."""

from collections.abc import Iterable, Sequence

import numpy as np

from anomaly.clock import Ms
from anomaly.features.index import Directory, SeriesIndex, index_series
from anomaly.features.ring import Ring
from anomaly.panels import Panel, Rows
from anomaly.records import Entity, Floats, Labels, Samples, SeriesRow
from anomaly.signals.catalogue import load_catalogue
from anomaly.signals.identity import Aliases
from anomaly.signals.model import Signal

CATALOGUE = load_catalogue(["dcgm", "node", "rdma", "storage", "training"])
STEP: Ms = 30_000
NAN = float("nan")


def signal(name: str) -> Signal:
    return CATALOGUE[name]


def samples(items: Iterable[tuple[int, Ms, float]]) -> Samples:
    """(series, time, value) triples as columns."""
    listed = list(items)
    return Samples(
        np.array([item[0] for item in listed], np.int32),
        np.array([item[1] for item in listed], np.int64),
        np.array([item[2] for item in listed], float),
    )


def ring(rows: Sequence[Sequence[float]], step: Ms = STEP, start: Ms = STEP) -> Ring:
    """Series 1, 2, … with the given values at start, start + step, …"""
    raw = np.array(rows, float).reshape(len(rows), -1)
    times = start + step * np.arange(raw.shape[1], dtype=np.int64)
    return Ring(step, np.arange(1, len(rows) + 1, dtype=np.int32), times, raw)


def series(
    number: int, name: str, node: str, device: str = "", part: str = "", labels: Labels | None = None
) -> SeriesRow:
    return SeriesRow(number, name, Entity("node", node), device, part, labels or {"instance": f"{node}:9100"})


def job_series(number: int, job: str, node: str) -> SeriesRow:
    return SeriesRow(number, "iteration_seconds", Entity("job", job), "", "", {"job_name": job, "node": node})


def index(directory: Directory, known: Iterable[SeriesRow]) -> SeriesIndex:
    return index_series(directory, known, node_of)


def node_of(labels: Labels) -> str | None:
    raw = next((labels[name] for name in ("node", "Hostname", "instance") if labels.get(name)), None)
    return Aliases().canonical(raw) if raw else None


def rows(pairs: Sequence[tuple[str, str]], kind: str = "node") -> Rows:
    """Rows for (node, device) pairs; nodes and devices are numbered in order of first sight."""
    nodes = list(dict.fromkeys(node for node, _ in pairs))
    devices = list(dict.fromkeys(device for _, device in pairs))
    return Rows(
        tuple(Entity(kind, node) for node, _ in pairs),
        tuple(device for _, device in pairs),
        tuple(f"{kind}/{node}|{device}" for node, device in pairs),
        np.array([nodes.index(node) for node, _ in pairs], np.int32),
        np.array([devices.index(device) for _, device in pairs], np.int32),
    )


def panel(name: str, pairs: Sequence[tuple[str, str]], values: Sequence[Sequence[float]] | Floats, first: int = 0,
          step: Ms = STEP) -> Panel:  # fmt: skip
    table = np.array(values, float).reshape(len(pairs), -1)
    times = step * np.arange(1, table.shape[1] + 1, dtype=np.int64)
    return Panel(name, rows(pairs), times, table, first, {})
