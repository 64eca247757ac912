"""What a chart compares: an incident's node, the devices that the evidence names, and who they are held against."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anomaly.analyst.drawing import axis_of
from anomaly.analyst.frames import table_of
from anomaly.analyst.measured import Measured, signal_of
from anomaly.analyst.peers import Group, peers_within
from anomaly.analyst.state import State
from anomaly.detect.peers import LEAST_PEERS
from anomaly.errors import UsageError
from anomaly.panels import Panel
from anomaly.records import Floats, Incident, Ints
from anomaly.signals.model import Signal


@dataclass(frozen=True, slots=True)
class Compared:
    """One signal of one node and of those it is compared with, in the axis' unit, over the window of an incident."""

    signal: Signal
    unit: str
    times: Ints
    own: Floats
    own_devices: tuple[str, ...]
    others: Floats
    other_nodes: tuple[str, ...]
    common: str


def incident_of(state: State[Any], incident: str | Incident) -> Incident:
    return incident if isinstance(incident, Incident) else state.incident(incident)


def rank(incident: Incident, signal: str) -> int:
    """Where the signal first stands in the evidence, which is worst first."""
    places = [i for i, item in enumerate(incident.evidence) if item.signal == signal]
    return min(places, default=len(incident.evidence))


def worst_node(state: State[Any], incident: Incident) -> str:
    """The node itself; of a group or job the member with the highest score for one of its signals."""
    if incident.scope == "node" or not incident.nodes:
        return incident.entity.name
    until = incident.resolved_at or incident.updated_at
    found = [
        row
        for row in table_of(
            state.directory, "findings", "onset", incident.onset - incident.uncertainty, until
        ).to_pylist()
        if row["name"] in incident.nodes and row["signal"] in incident.signals
    ]
    return max(found, key=lambda row: row["peak"])["name"] if found else incident.nodes[0]


def has_samples(measured: Measured, name: str, node: str, incident: Incident) -> bool:
    if name not in measured.samples:
        return False
    whose = (*incident.jobs, incident.entity.name) if signal_of(name).entity_kind == "job" else (node,)
    return any(entity.name in whose for entity in measured.names.signals[name].rows.entities)


def compare(measured: Measured, incident: Incident, name: str, node: str) -> Compared:
    """The rows of the node's devices that the evidence names (all when it names none of them), and their peers'."""
    panel = measured.panel(name)
    signal = signal_of(name)
    unit, factor = axis_of(signal)
    if signal.entity_kind == "job":
        groups, common = _jobs(panel, incident), "all other jobs"
    else:
        groups = peers_within(measured, panel, node, incident.onset)
        named = {item.device for item in incident.evidence if item.signal == name}
        groups = [each for each in groups if panel.rows.devices[each.row] in named] or groups
        common = _in_words(panel, groups)
    if incident.scope == "group" and signal.entity_kind != "job":
        groups, common = _outsiders(panel, incident, groups)
    own = [each.row for each in groups]
    peers = np.unique(np.concatenate([each.peers for each in groups])).astype(np.int64)
    return Compared(
        signal,
        unit,
        panel.times,
        panel.values[own] * factor,
        tuple(panel.rows.devices[row] for row in own),
        panel.values[peers] * factor,
        tuple(panel.rows.entities[row].name for row in peers.tolist()),
        common,
    )


def _in_words(panel: Panel, groups: Sequence[Group]) -> str:
    nodes = {panel.rows.entities[row].name for each in groups for row in each.peers.tolist()}
    return f"{groups[0].common} ({len(nodes)} nodes)" if nodes else "none: too few like it"


def _outsiders(panel: Panel, incident: Incident, groups: Sequence[Group]) -> tuple[list[Group], str]:
    """Members of a group suffer alike: those outside show what is normal, on the same device where enough have it."""
    outside = np.array([entity.name not in incident.nodes for entity in panel.rows.entities])
    device = np.array(panel.rows.devices)
    out = []
    for each in groups:
        same = np.flatnonzero(outside & (device == device[each.row]))
        out.append(Group(each.row, same if len(same) + 1 >= LEAST_PEERS else np.flatnonzero(outside), "outside"))
    nodes = {panel.rows.entities[row].name for each in out for row in each.peers.tolist()}
    return out, f"the {len(nodes)} nodes that {incident.entity.name} did not touch"


def fellow_members(measured: Measured, incident: Incident, each: Compared, node: str) -> dict[str, Floats]:
    """The same devices on the other nodes of a group's incident, node by node."""
    if incident.scope != "group":
        return {}
    panel = measured.panel(each.signal.name)
    rows: dict[str, list[int]] = {}
    for row, (entity, device) in enumerate(zip(panel.rows.entities, panel.rows.devices, strict=True)):
        if entity.name in incident.nodes and entity.name != node and device in each.own_devices:
            rows.setdefault(entity.name, []).append(row)
    factor = axis_of(each.signal)[1]
    return {name: panel.values[places] * factor for name, places in rows.items()}


def _jobs(panel: Panel, incident: Incident) -> list[Group]:
    touched = np.array([e.name in (*incident.jobs, incident.entity.name) for e in panel.rows.entities])
    if not touched.any():
        raise UsageError(f"{panel.signal} has no series of the incident's jobs", "look at state.series()")
    return [Group(row, np.flatnonzero(~touched), "other jobs") for row in np.flatnonzero(touched).tolist()]
