"""Whom a node is compared with: the detectors' own peer levels, at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anomaly.analyst.measured import CONTEXT, Measured, grid_of, measure, ring_of, signal_of
from anomaly.clock import Ms
from anomaly.detect.peers import LEAST_PEERS
from anomaly.errors import UsageError
from anomaly.features.jobs import membership
from anomaly.features.levels import peer_levels
from anomaly.panels import Panel
from anomaly.pipeline import JOB_HOLD

JOB_CARRIERS = ("iteration_seconds", "gpu_util")
"""Signals whose labels tell which nodes work for which job."""

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


def peers_within(measured: Measured, panel: Panel, node: str, at: Ms) -> list[Group]:
    """For each of the node's rows the closest peer level with at least four others, as at `at`; no peers when none has.

    The levels are those of detection (`features.levels`). A signal that is not judged against peers is shown against
    the same device on the nodes of the job, then of the cluster. Raises UsageError when the node has no row.
    """
    own = [i for i, entity in enumerate(panel.rows.entities) if entity.name == node]
    if not own:
        raise UsageError(f"{panel.signal} has no series of {node}", "give a name as in state.series()")
    scheme = signal_of(panel.signal).peers_scheme
    scheme = "node" if scheme == "none" else scheme
    codes_of: dict[str, int] = {}
    models = (measured.models.get(entity.name, "") for entity in panel.rows.entities)
    kinds = np.array([codes_of.setdefault(model, len(codes_of)) for model in models], np.int64)
    levels = peer_levels(scheme, panel.rows, jobs_at(measured, panel, at), kinds)
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


def jobs_at(measured: Measured, panel: Panel, at: Ms) -> NDArray[np.int32]:
    """The training job of each row's node at `at` by code, negative for none: what the labels of series said then.

    Series of jobs that name a node say it best, as in detection; a label counts for some minutes after its last sample.
    """
    carriers = []
    for name in sorted(measured.samples, key=lambda each: signal_of(each).entity_kind != "job"):
        index, samples = measured.names.signals[name], measured.samples[name]
        if (index.job >= 0).any():
            ring = ring_of(samples, grid_of(samples, signal_of(name)), at - CONTEXT, at)
            carriers.append((ring, index))
    moment = np.array([at], np.int64)
    found = membership(carriers, moment, len(measured.names.entities.names), JOB_HOLD)
    return found.of(panel.rows.entity_code, moment)[:, 0]


def peer_rows(directory: Path, node: str, signal: str, at: Ms) -> list[Mapping[str, Any]]:
    """`State.peers` as rows."""
    measured = measure(directory, [signal], at - CONTEXT, at, also=JOB_CARRIERS)
    panel = measured.panel(signal)
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
        for group in peers_within(measured, panel, node, at)
        for peer in group.peers.tolist()
    ]


def _null(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
