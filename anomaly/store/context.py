"""Context of entities from outside the signals (cordons, maintenance, job placement), with its validity."""

from collections.abc import Sequence

from anomaly.clock import Ms
from anomaly.records import Attachment, Entity
from anomaly.store.connect import Session


def attach(session: Session, attachments: Sequence[Attachment]) -> None:
    """Record context of entities from outside. The same (entity, key, start) again replaces value and end."""
    with session.transaction():
        for item in attachments:
            place = [item.entity.kind, item.entity.name, item.key]
            session.run(
                "DELETE FROM attachments WHERE kind = ? AND name = ? AND key = ? AND valid_from = ?",
                [*place, item.start],
            )
            session.run("INSERT INTO attachments VALUES (?, ?, ?, ?, ?, ?)", [*place, item.value, item.start, item.end])


def attachments(session: Session, start: Ms, end: Ms) -> list[Attachment]:
    """Context valid at some time in [start, end], by start."""
    found = session.rows(
        """SELECT kind, name, key, value, valid_from, valid_to FROM attachments
           WHERE valid_from <= ? AND (valid_to IS NULL OR valid_to >= ?) ORDER BY valid_from, kind, name, key""",
        [end, start],
    )
    return [Attachment(Entity(kind, name), key, value, since, until) for kind, name, key, value, since, until in found]
