"""Rows of a panel: underlying series that are the same thing (duplicates) or its parts, brought together."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anomaly.panels import Rows
from anomaly.records import Bools, Entity, Floats, Labels, SeriesRow
from anomaly.signals.identity import JOB_LABELS, job_of
from anomaly.signals.model import Signal


@dataclass(slots=True)
class Names:
    """Small integers for names, in order of first sight: nodes, devices, jobs are compared as numbers in kernels."""

    codes: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def code(self, name: str) -> int:
        found = self.codes.get(name)
        if found is None:
            found = self.codes[name] = len(self.names)
            self.names.append(name)
        return found


@dataclass(frozen=True, slots=True)
class SeriesIndex:
    """What is known of the underlying series of one signal, aligned by ascending series id.

    `key` is the place of (entity, device) in `rows`; `part` a code of the sub-device; `job` the training job that the
    series' labels name, -1 for none.
    """

    series: NDArray[np.int32]
    key: NDArray[np.int32]
    part: NDArray[np.int32]
    job: NDArray[np.int32]
    rows: Rows
    """All rows there are, whether or not a panel has them now."""
    node: NDArray[np.int32]
    """The entity code of the node that each series names, -1 where it names none (a job's series may name one)."""


@dataclass(slots=True)
class Directory:
    """The series of every signal, and the numbers that stand for names in kernels."""

    entities: Names = field(default_factory=Names)
    devices: Names = field(default_factory=Names)
    jobs: Names = field(default_factory=Names)
    signals: dict[str, SeriesIndex] = field(default_factory=dict)


def index_series(
    directory: Directory,
    known: Iterable[SeriesRow],
    node_of: Callable[[Labels], str | None],
    job_labels: Sequence[str] = JOB_LABELS,
) -> SeriesIndex:
    """The index of all `known` series of one signal. Rows come in order of their first series, so that old rows keep
    their place when new ones join. `node_of` names the node in a job's series' labels, where they do."""
    ordered = sorted(known, key=lambda row: row.series_id)
    rows: dict[tuple[Entity, str], int] = {}
    parts: dict[str, int] = {}
    key, part, job, node = [], [], [], []
    labels = tuple(job_labels)
    for row in ordered:
        key.append(rows.setdefault((row.entity, row.device), len(rows)))
        part.append(parts.setdefault(row.part, len(parts)))
        name = row.entity.name if row.entity.kind == "job" else job_of(row.labels, labels)
        job.append(-1 if name is None else directory.jobs.code(name))
        host = row.entity.name if row.entity.kind == "node" else node_of(row.labels)
        node.append(-1 if host is None else directory.entities.code(f"node/{host}"))
    return SeriesIndex(
        np.array([row.series_id for row in ordered], np.int32),
        np.array(key, np.int32),
        np.array(part, np.int32),
        np.array(job, np.int32),
        Rows(
            tuple(entity for entity, _ in rows),
            tuple(device for _, device in rows),
            tuple(f"{entity}|{device}" for entity, device in rows),
            np.array([directory.entities.code(str(entity)) for entity, _ in rows], np.int32),
            np.array([directory.devices.code(device) for _, device in rows], np.int32),
        ),
        np.array(node, np.int32),
    )


def merge(
    signal: Signal, index: SeriesIndex, series: NDArray[np.int32], values: Floats
) -> tuple[NDArray[np.int32], Floats]:
    """Series × times → rows × times: the maximum (or minimum) over duplicates of one thing, the sum (or maximum) over
    its parts. NaN where nothing had a sample. Returns (places in `index.rows`, merged values)."""
    place = np.searchsorted(index.series, series)
    key, part = index.key[place], index.part[place]
    if (key[1:] > key[:-1]).all():
        return key, values
    if len(np.unique(key)) == len(key):
        order = np.argsort(key, kind="stable")
        return key[order], values[order]
    order = np.lexsort((part, key))
    key, part, values = key[order], part[order], values[order]
    pick = np.fmin if signal.duplicates == "min" else np.fmax
    starts = _starts((key[1:] != key[:-1]) | (part[1:] != part[:-1]))
    values, key = pick.reduceat(values, starts, axis=0), key[starts]
    starts = _starts(key[1:] != key[:-1])
    if len(starts) == len(key):
        return key, values
    if signal.parts == "max":
        return key[starts], np.fmax.reduceat(values, starts, axis=0)
    missing = np.isnan(values)
    total = np.add.reduceat(np.where(missing, 0.0, values), starts, axis=0)
    total[np.logical_and.reduceat(missing, starts, axis=0)] = np.nan
    return key[starts], total


def _starts(changes: Bools) -> NDArray[np.int64]:
    return np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)


def rows_of(index: SeriesIndex, places: NDArray[np.int32]) -> Rows:
    """The rows at `places` of the index."""
    rows = index.rows
    if len(places) == len(rows):
        return rows
    chosen = places.tolist()
    return Rows(
        tuple(rows.entities[place] for place in chosen),
        tuple(rows.devices[place] for place in chosen),
        tuple(rows.keys[place] for place in chosen),
        rows.entity_code[places],
        rows.device_code[places],
    )
