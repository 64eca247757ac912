"""Whom a node is compared with: the detectors' own peer levels, at one moment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anomaly.analyst.frames import table_of
from anomaly.analyst.measured import CONTEXT, as_samples, grid_of, index_of, panel_of, ring_of, signal_of
from anomaly.clock import Ms
from anomaly.detect.peers import LEAST_PEERS
from anomaly.errors import UsageError
from anomaly.features.index import Directory
from anomaly.features.jobs import membership
from anomaly.features.levels import peer_levels
from anomaly.panels import Panel
from anomaly.pipeline import JOB_HOLD
from anomaly.store.published import read_archive

_SAME = {
    "gpu": ("same GPU slot, same job", "same job", "same host", "same GPU slot, whole cluster"),
    "nic": ("same rail, same job", "same job", "same host", "same rail, whole cluster"),
    "node": ("same job", "whole cluster"),
}


@dataclass(frozen=True, slots=True)
class Group:
    """A row of a panel with the rows it is compared with, and what they have in common."""

    row: int
    peers: NDArray[np.int64]
    common: str


def peers_within(directory: Path, panel: Panel, names: Directory, node: str, at: Ms) -> list[Group]:
    """For each of the node's rows the closest peer level with at least four others, as at `at`; no peers when none has.

    The levels are those of detection (`features.levels`). A signal that is not judged against peers is shown against
    the same device on the nodes of the job, then of the cluster. Raises UsageError when the node has no row.
    """
    own = [i for i, entity in enumerate(panel.rows.entities) if entity.name == node]
    if not own:
        raise UsageError(f"{panel.signal} has no series of {node}", "give a name as in state.series()")
    scheme = signal_of(panel.signal).peers_scheme
    scheme = "node" if scheme == "none" else scheme
    levels = peer_levels(scheme, panel.rows, jobs_at(directory, panel, names, at), _kinds(directory, panel))
    out = []
    for row in own:
        found = Group(row, np.empty(0, np.int64), "no peers")
        for codes, common in zip(levels, _SAME[scheme], strict=True):
            others = np.flatnonzero((codes == codes[row]) & (codes >= 0))
            if len(others) >= LEAST_PEERS:
                found = Group(row, others[others != row], common)
                break
        out.append(found)
    return out


def jobs_at(directory: Path, panel: Panel, names: Directory, at: Ms) -> NDArray[np.int32]:
    """The training job of each row's node at `at` by code, negative for none: what the labels of its series said."""
    carriers = []
    found = [name for name in _carriers(directory) if name != panel.signal]
    indexes = index_of(directory, found, names)
    for name in found:
        index, signal = indexes[name], signal_of(name)
        if not (index.job >= 0).any():
            continue
        table = read_archive(directory, [name], at - CONTEXT, at)
        if table is None or not table.num_rows:
            continue
        samples = as_samples(table.rename_columns({"ts": "time"}))
        carriers.append((ring_of(samples, grid_of(samples, signal), at - CONTEXT, at), index))
    moment = np.array([at], np.int64)
    # A job's label counts for some minutes after its last sample, as in detection.
    return membership(carriers, moment, len(names.entities.names), JOB_HOLD).of(panel.rows.entity_code, moment)[:, 0]


def _carriers(directory: Path) -> Sequence[str]:
    """Signals whose labels may name jobs: those of jobs first, then the GPUs' utilisation."""
    have = dict.fromkeys(table_of(directory, "series").column("signal").to_pylist())
    of_jobs = [name for name in have if signal_of(name).entity_kind == "job"]
    return [*of_jobs, *(name for name in ("gpu_util",) if name in have)]


def _kinds(directory: Path, panel: Panel) -> NDArray[np.int64]:
    """The kind of node (GPU model) of each row, as a code; unlike ones are never compared."""
    models: dict[str, str] = {}
    table = table_of(directory, "series")
    for signal, name, labels in zip(*(table.column(c).to_pylist() for c in ("signal", "name", "labels")), strict=True):
        if signal == "gpu_temp" and name not in models:
            models[name] = json.loads(labels).get("modelName", "")
    codes: dict[str, int] = {}
    return np.array(
        [codes.setdefault(models.get(entity.name, ""), len(codes)) for entity in panel.rows.entities], np.int64
    )


def peer_rows(directory: Path, node: str, signal: str, at: Ms) -> list[Mapping[str, Any]]:
    """`State.peers` as rows."""
    names = Directory()
    panel = panel_of(directory, signal, at - CONTEXT, at, names)
    rows = panel.rows
    now = panel.values[:, -1]
    return [
        {
            "device": rows.devices[group.row],
            "value": _null(now[group.row]),
            "peer": rows.entities[peer].name,
            "peer_device": rows.devices[peer],
            "peer_value": _null(now[peer]),
            "group": group.common,
        }
        for group in peers_within(directory, panel, names, node, at)
        for peer in group.peers.tolist()
    ]


def _null(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
