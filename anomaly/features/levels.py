"""Peer levels: for each row, whom it may be compared with, closest first."""

import numpy as np
from numpy.typing import NDArray

from anomaly.panels import Rows
from anomaly.signals.identity import SLICE
from anomaly.signals.model import PeerScheme

Codes = NDArray[np.int64]


def peer_levels(scheme: PeerScheme, rows: Rows, job: NDArray[np.int32], kind: NDArray[np.int64]) -> list[Codes]:
    """Group codes per row and level, negative for none, for one stretch of steps with constant jobs.

    gpu: same slot across the job → all GPUs of the job → the host's own GPUs → the same slot across the fleet.
    nic: same rail across the job → the job's rails → the host's own rails → the same rail across the fleet.
    node: the job → the fleet. Every level stays within one kind of node (SKU); a node with two jobs has none. A slice
    of a GPU (MIG) is compared with slices only.
    """
    slot = rows.device_code.astype(np.int64)
    node = rows.entity_code.astype(np.int64)
    if scheme == "gpu":
        sliced = np.array([SLICE in device for device in rows.devices], np.int64)
        kind, node = combine(kind, sliced), combine(node, sliced)
    by_job = combine(job.astype(np.int64), kind)
    if scheme in ("gpu", "nic"):
        return [combine(by_job, slot), by_job, node, combine(kind, slot)]
    if scheme == "node":
        return [combine(by_job, slot), combine(kind, slot)]
    return []


def combine(*parts: Codes) -> Codes:
    """One code per row from several; negative where any part is."""
    out = np.zeros(len(parts[0]), np.int64)
    valid = np.ones(len(parts[0]), bool)
    for part in parts:
        valid &= part >= 0
        out = out * (int(part.max(initial=0)) + 1) + np.maximum(part, 0)
    return np.where(valid, out, -1)
