"""What people said about incidents: labels for reports and training, and that they closed one. Never forgotten with
the incident's own changes, and never the reason of any alert."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from anomaly.clock import Ms
from anomaly.store.connect import Session
from anomaly.store.marks import mark_unpublished

LABELS = ("real", "false", "maintenance", "known")


@dataclass(frozen=True, slots=True)
class IncidentMark:
    """One thing that a person said. `label` is one of LABELS, empty for a closing; `said_at` is wall time."""

    incident_id: str
    kind: Literal["label", "close"]
    label: str
    note: str
    who: str
    said_at: Ms


def put_marks(session: Session, tick_at: Ms, marks: Sequence[IncidentMark]) -> None:
    """Append, as taken in by the tick at `tick_at`; the newest label of an incident counts."""
    if not marks:
        return
    columns: dict[str, list[Any]] = {
        item.name: [getattr(mark, item.name) for mark in marks] for item in fields(IncidentMark)
    }
    session.insert("incident_marks", columns | {"tick_at": [tick_at] * len(marks)})
    mark_unpublished(session, "incident_marks", [0])


def get_marks(session: Session, incident_id: str | None = None) -> list[IncidentMark]:
    """What was said (of one incident), oldest first."""
    found = session.rows(
        """SELECT incident_id, kind, label, note, who, said_at FROM incident_marks
           WHERE incident_id = coalesce(?, incident_id) ORDER BY said_at, tick_at, kind""",
        [incident_id],
    )
    return [IncidentMark(*row) for row in found]
