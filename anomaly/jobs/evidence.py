"""Evidence: freeze the samples around every incident that asked for somebody, before they are pruned."""

from collections.abc import Sequence

from anomaly.records import Incident, SeriesRow
from anomaly.signals.identity import JOB_LABELS
from anomaly.store.store import Store

MOST_SIGNALS, MOST_NODES, MOST_PEERS = 6, 8, 6
"""Of one slice: the best evidence, the incident's nodes, and others to compare them with."""


def freeze_evidence(store: Store) -> int:
    """Freeze every slice that is due; how many samples were copied. What is frozen already is not touched again."""
    copied = 0
    for due in store.evidence_due():
        incident = store.incident(due.incident_id)
        if incident is not None:
            copied += store.freeze_evidence(due, series_of(store, incident))
    return copied


def series_of(store: Store, incident: Incident) -> list[int]:
    """The series that a slice of this incident holds.

    Of the signals in evidence: every device of its nodes, and the same devices of nodes that do the same work (those
    that wait for it, then the others of its jobs, then anybody); and what its jobs say about themselves.
    """
    names = list(dict.fromkeys([item.signal for item in incident.evidence] + list(incident.signals)))[:MOST_SIGNALS]
    rows = [row for name in names for row in store.series(name)]
    own = set(incident.nodes[:MOST_NODES])
    peers = _peers(incident, rows)
    devices = {(item.signal, item.device) for item in incident.evidence}
    wanted = [
        row.series_id
        for row in rows
        if row.entity == incident.entity
        or (row.entity.kind == "node" and row.entity.name in own)
        or (row.entity.kind == "node" and row.entity.name in peers and (row.signal, row.device) in devices)
    ]
    jobs = {row.series_id for row in store.series("iteration_seconds") if row.entity.name in incident.jobs}
    return sorted({*wanted, *jobs})


def _peers(incident: Incident, rows: Sequence[SeriesRow]) -> set[str]:
    others = sorted({row.entity.name for row in rows if row.entity.kind == "node"} - set(incident.nodes))
    together = {row.entity.name for row in rows if any(row.labels.get(label) in incident.jobs for label in JOB_LABELS)}
    ranked = sorted(others, key=lambda name: (name not in incident.victims, name not in together, name))
    return set(ranked[:MOST_PEERS])
