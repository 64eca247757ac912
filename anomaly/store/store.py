"""The store as the other rooms see it: one object over one database file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms
from anomaly.records import Attachment, Entity, Finding, Floats, Incident, Ints, Labels, OutboxEntry, Samples, SeriesRow
from anomaly.store import (
    archive,
    baselines,
    context,
    evidence,
    inbox,
    incident_marks,
    marks,
    outbox,
    publish,
    results,
    retention,
    rollups,
    samples,
    schema,
)
from anomaly.store.connect import Hooks, Session, ignore, open_session
from anomaly.store.incident_marks import IncidentMark
from anomaly.store.series import Identity, Registration, SeriesIndex


class Store:
    """One open database. Threads may share it: calls take turns, a transaction keeps its turn until it ends.

    Every method that writes does so in one transaction, or joins the one it is called in.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._series = SeriesIndex(session)

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file free. Closing twice is harmless."""
        self._session.close()

    def transaction(self) -> AbstractContextManager[None]:
        """Several calls, all or nothing; inside another one it joins that."""
        return self._session.transaction()

    # ── series ──

    def register(self, rows: Sequence[Registration]) -> NDArray[np.int32]:
        """The id of each (signal, entity, device, part, labels), in order; see `SeriesIndex.register`."""
        return self._series.register(rows)

    def ids_of(
        self, signal: str, labels: Sequence[Labels], identify: Callable[[Labels], Identity | None], version: object
    ) -> NDArray[np.int32]:
        """The ids of one pull's label sets, registered where they are new; see `SeriesIndex.ids_of`."""
        return self._series.ids_of(signal, labels, identify, version)

    def series(self, signal: str | None = None) -> list[SeriesRow]:
        """All series (of one signal), by id."""
        return self._series.rows(signal)

    def series_of(self, ids: Iterable[int]) -> list[SeriesRow]:
        """The series with these ids, by id."""
        return self._series.rows_of(ids)

    @property
    def series_changes(self) -> int:
        """Rises whenever series are added, re-identified or pruned: kept rows are good while it stands still."""
        return self._series.changes

    def attach(self, attachments: Sequence[Attachment]) -> None:
        """Record context of entities from outside."""
        context.attach(self._session, attachments)

    def attachments(self, start: Ms, end: Ms) -> list[Attachment]:
        """Context valid at some time in [start, end]."""
        return context.attachments(self._session, start, end)

    # ── samples ──

    def commit_chunk(self, chunk: samples.CollectedChunk) -> samples.Committed:
        """Store what was collected and move the watermarks; see `samples.commit_chunk`."""
        return samples.commit_chunk(self._session, chunk)

    def read(self, signal: str, start: Ms, end: Ms) -> Samples:
        """The samples of one signal in [start, end], both inclusive."""
        return samples.read(self._session, signal, start, end)

    def read_many(self, signals: Sequence[str], start: Ms, end: Ms) -> dict[str, Samples]:
        """The samples of several signals in [start, end], both inclusive, in one scan."""
        return samples.read_many(self._session, signals, start, end)

    def incomplete(self, start: Ms, end: Ms) -> dict[str, tuple[tuple[Ms, Ms], ...]]:
        """Signal → the ranges within [start, end] of which its newest reading was incomplete."""
        return samples.incomplete(self._session, start, end)

    def late_samples(self, start: Ms, end: Ms) -> list[tuple[int, Ms, float, Ms]]:
        """(series id, instant, value, end of the chunk that brought it) of late samples in [start, end]."""
        return samples.late_samples(self._session, start, end)

    def watermark(self, name: str) -> Ms | None:
        """How far a signal, `collected`, `scored` or `rolled_up` has come; None: not begun."""
        return marks.watermark(self._session, name)

    def watermarks(self) -> dict[str, Ms]:
        """All of them."""
        return marks.watermarks(self._session)

    def set_watermark(self, name: str, at: Ms) -> None:
        """`name` has come to exactly `at`."""
        with self._session.transaction():
            marks.set_watermark(self._session, name, at)

    # ── results ──

    def commit_tick(self, tick: results.TickRecord) -> list[Incident]:
        """Write a tick; the incidents that got a line in `incident_events`. See `results.commit_tick`."""
        return results.commit_tick(self._session, tick)

    def commit_ticks(self, ticks: Sequence[results.TickRecord]) -> list[Incident]:
        """Write consecutive ticks in one transaction; see `results.commit_ticks`."""
        return results.commit_ticks(self._session, ticks)

    def put_baselines(self, end: Ms, buckets: Mapping[str, baselines.Buckets], forgotten_before: Ms) -> None:
        """Store the buckets that ended at `end`; see `baselines.put_buckets`."""
        baselines.put_buckets(self._session, end, buckets, forgotten_before)

    def baselines(self) -> dict[str, tuple[tuple[str, ...], Ints, Floats]]:
        """Every stored bucket, per name: (row keys, bucket ends, values)."""
        return baselines.get_buckets(self._session)

    def load_state(self) -> str | None:
        """The text that the last tick left behind; None before the first."""
        return results.load_state(self._session)

    def scored_through(self) -> Ms | None:
        """The logical time of the last tick; None before the first."""
        return marks.watermark(self._session, samples.SCORED)

    def incidents(
        self, *, open_only: bool = False, start: Ms | None = None, end: Ms | None = None, limit: int = 1000
    ) -> list[Incident]:
        """The newest `limit` incidents by onset, oldest first: all, the open ones, those alive within [start, end]."""
        return results.incidents(self._session, open_only=open_only, start=start, end=end, limit=limit)

    def incident(self, incident_id: str) -> Incident | None:
        """The incident with this id, if there is one."""
        return results.incident(self._session, incident_id)

    def incident_events(
        self, incident_id: str | None = None, *, start: Ms | None = None, end: Ms | None = None
    ) -> list[dict[str, Any]]:
        """The contract lines (of one incident) from ticks in [start, end], in the order they were written."""
        return results.incident_events(self._session, incident_id, start=start, end=end)

    def findings(self, start: Ms, end: Ms, entity: Entity | None = None) -> list[Finding]:
        """Findings (of one entity) past the boundary at some time in [start, end]."""
        return results.findings(self._session, start, end, entity)

    def dropped(self, entity: Entity, start: Ms, end: Ms) -> list[tuple[Ms, str, str, str, str, str]]:
        """What rules set aside of an entity: (at, reason, because, signal, device, detector)."""
        return results.dropped(self._session, entity, start, end)

    def record_job(self, job: str, started_at: Ms, ended_at: Ms, outcome: str, detail: str = "") -> None:
        """One run of one job."""
        results.record_job(self._session, job, started_at, ended_at, outcome, detail)

    def undone(self, items: Sequence[inbox.InboxItem]) -> list[inbox.InboxItem]:
        """Inbox items that no committed tick has acted upon."""
        return inbox.undone(self._session, items)

    def incident_marks(self, incident_id: str | None = None) -> list[IncidentMark]:
        """What people said of incidents (of one), oldest first."""
        return incident_marks.get_marks(self._session, incident_id)

    def evidence_due(self) -> list[evidence.Due]:
        """Slices to be frozen or completed; see `evidence.due`."""
        return evidence.due(self._session)

    def freeze_evidence(self, slice_: evidence.Due, series_ids: Sequence[int]) -> int:
        """Keep samples of these series with an incident; how many came."""
        return evidence.freeze(self._session, slice_, series_ids)

    # ── outbox ──

    def enqueue(self, entries: Sequence[OutboxEntry]) -> list[int]:
        """Append entries outside a tick; the `seq` each got."""
        return outbox.enqueue(self._session, entries)

    def pending(self, sink: str, now: Ms, limit: int = 1000) -> list[OutboxEntry]:
        """Unsent entries of a sink that are due, in order."""
        return outbox.pending(self._session, sink, now, limit)

    def mark_sent(self, seqs: Iterable[int], now: Ms) -> None:
        """The sink has taken these entries."""
        outbox.mark_sent(self._session, seqs, now)

    def mark_failed(self, seqs: Iterable[int], now: Ms, next_attempt_at: Ms | None, error: str) -> None:
        """The sink has not taken these entries; None as next attempt: refused for good."""
        outbox.mark_failed(self._session, seqs, now, next_attempt_at, error)

    def live(self, sink: str, now: Ms, resolved_retention_ms: Ms) -> list[OutboxEntry]:
        """What the sink must be reminded of: each key's newest sent entry, firing or recently resolved."""
        return outbox.live(self._session, sink, now, resolved_retention_ms)

    def backlog(self) -> dict[str, int]:
        """Unsent entries by sink."""
        return outbox.backlog(self._session)

    # ── publishing, roll-ups, retention ──

    def publish(self, directory: Path) -> list[Path]:
        """Bring the published result tables up to date; the files replaced."""
        return publish.publish(self._session, directory)

    def publish_closed_hours(self, directory: Path, now: Ms) -> list[Path]:
        """Write samples and roll-ups of closed hours as immutable files; the new ones."""
        return archive.publish_closed_hours(self._session, directory, now)

    def roll_up(self, now: Ms) -> int:
        """Compute the roll-ups of newly closed hours; how many rows came."""
        return rollups.roll_up(self._session, now)

    def read_rollups(self, signals: Sequence[str], start: Ms, end: Ms) -> dict[str, Floats]:
        """Roll-ups of signals whose hour begins in [start, end], as columns."""
        return rollups.read_rollups(self._session, signals, start, end)

    def prune(self, now: Ms, keep: retention.Keep) -> dict[str, int]:
        """Delete what is too old; rows deleted by table."""
        deleted = retention.prune(self._session, now, keep)
        self._series.forget()
        return deleted


def open_store(path: Path, *, memory: bool = False, hooks: Hooks = ignore) -> Store:
    """Open the database at `path` (created with its directory if need be), brought to the newest schema.

    Raises StoreLocked when another process has it open, StoreError when it is somebody else's, damaged, newer
    than this program or cannot be written.
    """
    session = open_session(path, memory=memory, hooks=hooks)
    try:
        schema.migrate(session)
    except BaseException:
        session.close()
        raise
    return Store(session)
