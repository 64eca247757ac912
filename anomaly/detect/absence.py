"""Absence, classified: a node is lost only when its targets agree, a GPU only when its neighbours still report."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anomaly.panels import Panel
from anomaly.records import Bools, Entity, Floats, Ints


@dataclass(frozen=True, slots=True)
class Absent:
    """Entities (and devices) × steps: 1 gone, 0 there, NaN no verdict."""

    entities: tuple[Entity, ...]
    devices: tuple[str, ...]
    times: Ints
    score: Floats


def lost_nodes(up: Panel) -> Absent:
    """Nodes all of whose targets are down. A target counts once it has been seen up; at least two must agree.

    No verdict at steps where no target of the whole cluster has a sample (then it is Prometheus that was away), nor
    for nodes none of whose targets says 0 (removed from service discovery, or beyond the lookback).
    """
    nodes, member = np.unique(up.rows.entity_code, return_inverse=True)
    first = up.first
    known = seen_so_far(np.equal(up.values, 1.0))[:, first:]
    new = up.values[:, first:]
    source_alive: Bools = np.any(~np.isnan(new), axis=0)
    targets = counts(known, member, len(nodes))
    down = counts(known & (np.isnan(new) | (new == 0.0)), member, len(nodes))
    said = counts(known & (new == 0.0), member, len(nodes))
    verdict = np.where(down >= targets, np.where(said > 0, 1.0, np.nan), 0.0)
    score = np.where((targets >= 2) & source_alive[None, :], verdict, np.nan)
    entity_of = {int(code): up.rows.entities[i] for i, code in enumerate(up.rows.entity_code)}
    return Absent(tuple(entity_of[int(code)] for code in nodes), ("",) * len(nodes), up.times[first:], score)


def silent_targets(up: Panel) -> Absent:
    """Targets that are down while another target of the same node answers: a monitoring fault, never hardware."""
    first = up.first
    new = up.values[:, first:]
    known = seen_so_far(np.equal(up.values, 1.0))[:, first:]
    size = int(up.rows.entity_code.max(initial=-1)) + 1
    alive = counts(new == 1.0, up.rows.entity_code, size)
    others = alive[up.rows.entity_code] - (new == 1.0)
    score = np.where(known & (new == 0.0) & (others > 0), 1.0, np.where(new == 1.0, 0.0, np.nan))
    return Absent(up.rows.entities, up.rows.devices, up.times[first:], score)


def lost_devices(panel: Panel, released: Bools | None = None) -> Absent:
    """Devices that had samples within the panel's context and have none now, while another device of the node has.

    All devices of a node gone at once is no verdict here: that is the exporter, the driver or the node. Neither are
    those that were given back (`released`, rows × new steps).
    """
    first = panel.first
    present = ~np.isnan(panel.values)
    before = seen_so_far(present)[:, first:]
    new = present[:, first:]
    size = int(panel.rows.entity_code.max(initial=-1)) + 1
    alive = counts(new, panel.rows.entity_code, size)
    others = alive[panel.rows.entity_code] - new
    gone = before & (others > 0) if released is None else before & (others > 0) & ~released
    score = np.where(new, 0.0, np.where(gone, 1.0, np.nan))
    return Absent(panel.rows.entities, panel.rows.devices, panel.times[first:], score)


def vanished_nodes(up: Panel) -> Absent:
    """Nodes that had targets and have none any more, not even one that is down: removed, drained, or a source that
    lost sight of them. Never hardware; 0 where any target has a sample."""
    first = up.first
    nodes, member = np.unique(up.rows.entity_code, return_inverse=True)
    there = ~np.isnan(up.values)
    known = seen_so_far(counts(there & (up.values == 1.0), member, len(nodes)) > 0)[:, first:]
    now = counts(there[:, first:], member, len(nodes)) > 0
    score = np.where(now, 0.0, np.where(known, 1.0, np.nan))
    entity_of = {int(code): up.rows.entities[i] for i, code in enumerate(up.rows.entity_code)}
    return Absent(tuple(entity_of[int(code)] for code in nodes), ("",) * len(nodes), up.times[first:], score)


def unseen_devices(panel: Panel, answers: Bools) -> Absent:
    """Nodes all of whose devices are gone although a target of the node answers (`answers`, rows × new steps): the
    exporter, the driver or its service, and no single device. 0 where one device reports; NaN where nothing answers."""
    first = panel.first
    nodes, member = np.unique(panel.rows.entity_code, return_inverse=True)
    present = ~np.isnan(panel.values)
    known = seen_so_far(counts(present, member, len(nodes)) > 0)[:, first:]
    now = counts(present[:, first:], member, len(nodes)) > 0
    answered = counts(answers, member, len(nodes)) > 0
    score = np.where(now, 0.0, np.where(known & answered, 1.0, np.nan))
    entity_of = {int(code): panel.rows.entities[i] for i, code in enumerate(panel.rows.entity_code)}
    return Absent(tuple(entity_of[int(code)] for code in nodes), ("",) * len(nodes), panel.times[first:], score)


def released(panel: Panel, holder: Ints, *, per_node: bool) -> Bools:
    """rows × new steps: devices that went together with the last of their job's, where devices that nobody holds are
    never shown: given back, as with dynamic resource allocation. `holder` (rows × all steps) is each device's last job,
    negative for none. `per_node`: the job's devices on the same node count, otherwise all of them."""
    first = panel.first
    present = ~np.isnan(panel.values)
    free: Bools = np.any(present & (holder < 0), axis=0, keepdims=True)
    free_shown = seen_so_far(free)[:, first:]
    new, holder = present[:, first:], holder[:, first:]
    out: Bools = ~new & (holder >= 0) & ~free_shown
    if not out.any():
        return out
    size = int(holder.max()) + 1
    node = panel.rows.entity_code.astype(np.int64) if per_node else np.zeros(len(panel.rows), np.int64)
    for column in range(out.shape[1]):
        group = node * size + np.maximum(holder[:, column], 0)
        alive = np.bincount(group, weights=new[:, column] & (holder[:, column] >= 0))
        out[:, column] &= alive[group] == 0
    return out


def seen_so_far(flags: Bools) -> Bools:
    """Whether the flag has been set at or before each column."""
    out: Bools = np.logical_or.accumulate(flags, axis=1)
    return out


def counts(flags: Bools, member: NDArray[np.integer[Any]], groups: int, weights: Ints | None = None) -> Floats:
    """How many rows of each group are set (or the sum of their `weights`), groups × columns."""
    amounts = flags if weights is None else np.where(flags, weights, 0)
    out = np.zeros((groups, flags.shape[1]))
    for column in range(flags.shape[1]):
        out[:, column] = np.bincount(member, weights=amounts[:, column], minlength=groups)
    return out
