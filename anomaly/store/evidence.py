"""Evidence slices: the samples around an incident, of its entity and its peers, kept when samples themselves go."""

from collections.abc import Sequence
from dataclasses import dataclass

from anomaly.clock import HOUR, Ms
from anomaly.records import Severity
from anomaly.store.connect import Session
from anomaly.store.marks import mark_unpublished, watermark
from anomaly.store.samples import COLLECTED

AROUND: Ms = HOUR
"""Before the onset, and after the firing."""

LONGEST: Ms = 6 * HOUR
"""Of one slice, however long it took an incident to fire."""


@dataclass(frozen=True, slots=True)
class Due:
    """A slice to be frozen, or to be completed: samples in [start, end], of which there are some up to `there`."""

    incident_id: str
    fired_at: Ms
    start: Ms
    end: Ms
    there: Ms


def due(session: Session) -> list[Due]:
    """Incidents that asked for somebody and have no slice, or an incomplete one whose time is over.

    So each is frozen twice: at its firing, and an hour later. Notes have none.
    """
    collected = watermark(session, COLLECTED)
    if collected is None:
        return []
    found = session.rows(
        """SELECT id, incidents.fired_at, onset, through
           FROM incidents LEFT JOIN evidence_slices ON id = incident_id
           WHERE incidents.fired_at > 0 AND severity <> ?
             AND (through IS NULL OR through < greatest(onset, incidents.fired_at) + ?)
           ORDER BY onset, id""",
        [Severity.INFO.value, AROUND],
    )
    out = []
    for incident_id, fired_at, onset, through in found:
        start = onset - AROUND
        end = min(max(onset, fired_at) + AROUND, start + LONGEST)
        if through is None or (through < end and collected >= end):
            out.append(Due(incident_id, fired_at, start, end, collected))
    return out


def freeze(session: Session, slice_: Due, series_ids: Sequence[int]) -> int:
    """Copy what there is of these series and is not frozen yet, in one transaction; how many samples came."""
    with session.transaction("evidence"), session.given("wanted", {"series_id": list(series_ids)}):
        added = session.run(
            """INSERT INTO evidence
               SELECT ?, ?, series_id, signal, kind, name, device, part, ts, value
               FROM samples SEMI JOIN wanted USING (series_id) JOIN series USING (series_id)
                 JOIN entities USING (entity_id)
               WHERE ts BETWEEN ? AND ? AND NOT EXISTS (
                 FROM evidence WHERE evidence.incident_id = ? AND evidence.series_id = samples.series_id
                   AND evidence.ts = samples.ts)""",
            [slice_.incident_id, slice_.fired_at, slice_.start, slice_.end, slice_.incident_id],
        )
        session.run("DELETE FROM evidence_slices WHERE incident_id = ?", [slice_.incident_id])
        session.run(
            "INSERT INTO evidence_slices VALUES (?, ?, ?)",
            [slice_.incident_id, slice_.fired_at, min(slice_.there, slice_.end)],
        )
        if added:
            mark_unpublished(session, "evidence", [slice_.fired_at])
    return added
