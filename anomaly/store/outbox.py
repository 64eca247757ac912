"""What is to be sent, to whom, in which order: at least once, and never a newer state before an older one.

Entries leave in the order of `seq` for each (sink, key). While one waits for its next attempt, later ones of the
same key wait behind it; one that the sink refused for good blocks nobody.
"""

from collections.abc import Iterable, Sequence

from anomaly.clock import Ms
from anomaly.records import OutboxEntry
from anomaly.store.connect import Session
from anomaly.store.marks import counter, set_counter

_COLUMNS = "seq, sink, key, incident_id, body, created_at, resolved_at, attempts, next_attempt_at, sent_at"


def enqueue(session: Session, entries: Sequence[OutboxEntry]) -> list[int]:
    """Append entries in order; the `seq` each got. The numbers rise for ever."""
    if not entries:
        return []
    with session.transaction():
        last = counter(session, "outbox")
        seqs = list(range(last + 1, last + 1 + len(entries)))
        columns: dict[str, list[object]] = {"seq": list(seqs)}
        for name in ("sink", "key", "incident_id", "body", "created_at", "resolved_at", "attempts", "next_attempt_at"):
            columns[name] = [getattr(entry, name) for entry in entries]
        session.insert("outbox", columns)
        set_counter(session, "outbox", seqs[-1])
    return seqs


def pending(session: Session, sink: str, now: Ms, limit: int = 1000) -> list[OutboxEntry]:
    """Unsent entries of `sink` that are due at `now`, by `seq`, none of whose key stands behind one that waits."""
    found = session.rows(
        f"""SELECT {_COLUMNS} FROM outbox
            WHERE sink = ? AND sent_at IS NULL AND given_up_at IS NULL
            QUALIFY max(next_attempt_at) OVER (PARTITION BY key ORDER BY seq) <= ?
            ORDER BY seq LIMIT ?""",  # noqa: S608 — column names of ours
        [sink, now, limit],
    )
    return [OutboxEntry(*fields) for fields in found]


def mark_sent(session: Session, seqs: Iterable[int], now: Ms) -> None:
    """The sink has taken these entries."""
    columns = {"seq": list(seqs)}
    if not columns["seq"]:
        return
    with session.transaction("outbox"), session.given("done", columns):
        session.run(
            """UPDATE outbox SET sent_at = ?, attempts = attempts + 1, error = NULL
               WHERE seq IN (SELECT seq FROM done)""",
            [now],
        )


def mark_failed(session: Session, seqs: Iterable[int], now: Ms, next_attempt_at: Ms | None, error: str) -> None:
    """The sink has not taken these entries: try again at `next_attempt_at`, or never (None: refused for good)."""
    columns = {"seq": list(seqs)}
    if not columns["seq"]:
        return
    with session.transaction("outbox"), session.given("done", columns):
        session.run(
            """UPDATE outbox SET attempts = attempts + 1, error = ?, next_attempt_at = coalesce(?, next_attempt_at),
               given_up_at = ? WHERE seq IN (SELECT seq FROM done)""",
            [error, next_attempt_at, now if next_attempt_at is None else None],
        )


def live(session: Session, sink: str, now: Ms, resolved_retention_ms: Ms) -> list[OutboxEntry]:
    """What the sink must be reminded of: each key's newest entry, if it was sent and fires or was resolved recently.

    A key whose newest entry is unsent or refused is not reminded of an older state.
    """
    found = session.rows(
        f"""SELECT {_COLUMNS} FROM (
              SELECT * FROM outbox WHERE sink = ?
              QUALIFY row_number() OVER (PARTITION BY key ORDER BY seq DESC) = 1)
            WHERE sent_at IS NOT NULL AND (resolved_at IS NULL OR resolved_at > ?)
            ORDER BY seq""",  # noqa: S608 — column names of ours
        [sink, now - resolved_retention_ms],
    )
    return [OutboxEntry(*fields) for fields in found]


def backlog(session: Session) -> dict[str, int]:
    """Unsent entries by sink, those given up left out."""
    return dict(
        session.rows("SELECT sink, count(*) FROM outbox WHERE sent_at IS NULL AND given_up_at IS NULL GROUP BY sink")
    )


def prune_outbox(session: Session, before: Ms) -> int:
    """Delete what nobody needs any more: sent or given up before `before`, and not the newest state of its key.

    The newest stays until it was resolved before `before`, refused or not: without it an older state would be live.
    """
    return session.run(
        """DELETE FROM outbox WHERE coalesce(sent_at, given_up_at) < ? AND seq NOT IN (
             SELECT max(seq) FROM outbox GROUP BY sink, key
             HAVING arg_max(coalesce(resolved_at, 9223372036854775807), seq) >= ?)""",
        [before, before],
    )
