"""What a tick concluded, written in one transaction with the state it leaves behind."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from anomaly.clock import Ms, format_time
from anomaly.errors import StoreError
from anomaly.incident_json import incident_from_json, incident_json, line_due
from anomaly.records import Dropped, Entity, Finding, Incident, OutboxEntry, Phase
from anomaly.store.connect import Session
from anomaly.store.incident_marks import IncidentMark, put_marks
from anomaly.store.marks import counter, mark_unpublished, set_counter, set_watermark, watermark
from anomaly.store.outbox import enqueue
from anomaly.store.samples import SCORED

_FINDING_COLUMNS = ("kind", "name", *(item.name for item in fields(Finding) if item.name != "entity"))
_OPEN = (Phase.PENDING.value, Phase.FIRING.value)


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node's score for one symptom class at a tick; None: no verdict."""

    node: str
    symptom: str
    score: float | None
    detector: str


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """What share of what was expected of an entity's layer was seen at a tick."""

    entity: Entity
    layer: str
    ratio: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class TickRecord:
    """Everything one tick leaves behind. `at` is its logical time, `as_of` how far each signal had come."""

    at: Ms
    state: str
    """Opaque text that replaces the last tick's."""
    as_of: Mapping[str, Ms] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    dropped: Sequence[Dropped] = ()
    incidents: Sequence[Incident] = ()
    node_scores: Sequence[NodeScore] = ()
    coverage: Sequence[CoverageRow] = ()
    outbox: Sequence[OutboxEntry] = ()
    """To be sent; their `seq` is given here and whatever they carry is ignored."""
    consumed: Sequence[str] = ()
    """Names of the inbox items that this tick acted upon."""
    marks: Sequence[IncidentMark] = ()
    """What people said of incidents in those items."""


def commit_tick(session: Session, tick: TickRecord) -> list[Incident]:
    """Write one tick; see `commit_ticks`."""
    return commit_ticks(session, [tick])


def commit_ticks(session: Session, ticks: Sequence[TickRecord]) -> list[Incident]:
    """Write consecutive ticks and set the watermark `scored` to the last one, all in one transaction.

    Findings replace those of the same key and onset, incidents those of the same id; the state is the last tick's.
    Returns the incidents that got a line in `incident_events`. Raises StoreError for a tick that is not after the one
    before it.
    """
    scored = watermark(session, SCORED)
    for tick in ticks:
        if scored is not None and tick.at <= scored:
            raise StoreError(
                f"the tick at {format_time(tick.at)} is not after the last one, {format_time(scored)}",
                "to look at the past again, use `anomaly backtest`",
            )
        scored = tick.at
    lines: list[Incident] = []
    if not ticks:
        return lines
    with session.transaction("tick"):
        _put_findings(session, [finding for tick in ticks for finding in tick.findings])
        _put_dropped(session, ticks)
        for tick in ticks:
            lines += _put_incidents(session, tick)
        _put_rows(session, ticks)
        session.insert(
            "ticks",
            {
                "tick_at": [tick.at for tick in ticks],
                "as_of": [json.dumps(dict(tick.as_of), sort_keys=True) for tick in ticks],
                "versions": [json.dumps(dict(tick.versions), sort_keys=True) for tick in ticks],
                "findings": [len(tick.findings) for tick in ticks],
                "dropped": [
                    json.dumps(Counter(item.reason for item in tick.dropped), sort_keys=True) for tick in ticks
                ],
                "incidents": [len(tick.incidents) for tick in ticks],
            },
        )
        mark_unpublished(session, "ticks", [tick.at for tick in ticks])
        session.run("DELETE FROM state")
        session.run("INSERT INTO state VALUES (?, ?)", [ticks[-1].at, ticks[-1].state])
        consumed = [(item, tick.at) for tick in ticks for item in tick.consumed]
        session.insert("inbox_done", {"item": [item for item, _ in consumed], "tick_at": [at for _, at in consumed]})
        for tick in ticks:
            put_marks(session, tick.at, tick.marks)
        enqueue(session, [entry for tick in ticks for entry in tick.outbox])
        set_watermark(session, SCORED, ticks[-1].at)
    return lines


def load_state(session: Session) -> str | None:
    """The text that the last tick left behind; None before the first."""
    body = session.value("SELECT body FROM state")
    return None if body is None else str(body)


def incidents(
    session: Session, *, open_only: bool = False, start: Ms | None = None, end: Ms | None = None, limit: int = 1000
) -> list[Incident]:
    """The newest `limit` incidents by onset, oldest first: all, the open ones, those alive within [start, end]."""
    found = session.rows(
        """SELECT body FROM (
             SELECT body, onset, id FROM incidents
             WHERE (NOT ? OR phase IN (?, ?)) AND onset <= coalesce(?, onset)
               AND (resolved_at IS NULL OR resolved_at >= coalesce(?, resolved_at))
             ORDER BY onset DESC, id LIMIT ?)
           ORDER BY onset, id""",
        [open_only, *_OPEN, end, start, limit],
    )
    return [incident_from_json(json.loads(body)) for (body,) in found]


def incident(session: Session, incident_id: str) -> Incident | None:
    """The incident with this id, if there is one."""
    body = session.value("SELECT body FROM incidents WHERE id = ?", [incident_id])
    return None if body is None else incident_from_json(json.loads(body))


def incident_events(
    session: Session, incident_id: str | None = None, *, start: Ms | None = None, end: Ms | None = None
) -> list[dict[str, Any]]:
    """The contract lines (of one incident) from ticks in [start, end], in the order they were written."""
    found = session.rows(
        """SELECT body FROM incident_events WHERE incident_id = coalesce(?, incident_id)
           AND tick_at >= coalesce(?, tick_at) AND tick_at <= coalesce(?, tick_at) ORDER BY seq""",
        [incident_id, start, end],
    )
    return [json.loads(body) for (body,) in found]


def findings(session: Session, start: Ms, end: Ms, entity: Entity | None = None) -> list[Finding]:
    """Findings (of one entity) that were past the boundary at some time in [start, end], by onset."""
    found = session.rows(
        f"""SELECT "{'", "'.join(_FINDING_COLUMNS)}" FROM findings WHERE onset <= ? AND last >= ?
            AND kind = coalesce(?, kind) AND name = coalesce(?, name)
            ORDER BY onset, kind, name, signal, device, detector""",  # noqa: S608 — column names of ours
        [end, start, entity.kind if entity else None, entity.name if entity else None],
    )
    return [Finding(Entity(kind, name), *rest) for kind, name, *rest in found]


def dropped(session: Session, entity: Entity, start: Ms, end: Ms) -> list[tuple[Ms, str, str, str, str, str]]:
    """What rules set aside of `entity` at ticks in [start, end]: (at, reason, because, signal, device, detector)."""
    return session.rows(
        """SELECT tick_at, reason, because, signal, device, detector FROM dropped
           WHERE kind = ? AND name = ? AND tick_at BETWEEN ? AND ? ORDER BY ALL""",
        [entity.kind, entity.name, start, end],
    )


def _put_findings(session: Session, found: Sequence[Finding]) -> None:
    if not found:
        return
    latest = {(*item.key, item.onset): item for item in found}
    columns: dict[str, list[Any]] = {
        "kind": [item.entity.kind for item in latest.values()],
        "name": [item.entity.name for item in latest.values()],
    }
    for name in _FINDING_COLUMNS[2:]:
        columns[name] = [getattr(item, name) for item in latest.values()]
    with session.given("found", columns):
        session.run(
            """DELETE FROM findings USING found WHERE findings.onset = found.onset AND findings.kind = found.kind
               AND findings.name = found.name AND findings.signal = found.signal
               AND findings.device = found.device AND findings.detector = found.detector"""
        )
        session.run("INSERT INTO findings BY NAME SELECT * FROM found")
    mark_unpublished(session, "findings", [item.onset for item in latest.values()])


def _put_dropped(session: Session, ticks: Sequence[TickRecord]) -> None:
    dropped = [(tick.at, item) for tick in ticks for item in tick.dropped]
    if not dropped:
        return
    columns: dict[str, list[Any]] = {
        "tick_at": [at for at, _ in dropped],
        "reason": [item.reason for _, item in dropped],
        "because": [item.because for _, item in dropped],
        "kind": [item.finding.entity.kind for _, item in dropped],
        "name": [item.finding.entity.name for _, item in dropped],
    }
    for name in ("signal", "device", "detector", "onset", "score"):
        columns[name] = [getattr(item.finding, name) for _, item in dropped]
    session.insert("dropped", columns)
    mark_unpublished(session, "dropped", columns["tick_at"])


def _put_incidents(session: Session, tick: TickRecord) -> list[Incident]:
    latest = {item.id: item for item in tick.incidents}
    if not latest:
        return []
    forms = {key: incident_json(item) for key, item in latest.items()}
    bodies = {key: json.dumps(form, ensure_ascii=False, allow_nan=False) for key, form in forms.items()}
    columns: dict[str, list[Any]] = {"id": list(latest)}
    with session.given("changed", columns):
        stored = session.rows("SELECT id, body FROM incidents SEMI JOIN changed USING (id)")
        before = {key: incident_from_json(json.loads(body)) for key, body in stored}
        session.run("DELETE FROM incidents WHERE id IN (SELECT id FROM changed)")
    for name in ("phase", "severity", "scope", "cause"):
        columns[name] = [str(getattr(item, name)) for item in latest.values()]
    for name in ("onset", "fired_at", "updated_at", "resolved_at"):
        columns[name] = [getattr(item, name) for item in latest.values()]
    columns["kind"] = [item.entity.kind for item in latest.values()]
    columns["name"] = [item.entity.name for item in latest.values()]
    columns["body"] = list(bodies.values())
    session.insert("incidents", columns)
    if any(before.get(key) != item for key, item in latest.items()):
        mark_unpublished(session, "incidents", [0])
    lines = [item for key, item in latest.items() if line_due(before.get(key), item)]
    if lines:
        seq = counter(session, "incident_event")
        columns = {
            "seq": list(range(seq + 1, seq + 1 + len(lines))),
            "tick_at": [tick.at] * len(lines),
            "incident_id": [item.id for item in lines],
            "body": [bodies[item.id] for item in lines],
        }
        session.insert("incident_events", columns)
        set_counter(session, "incident_event", seq + len(lines))
        mark_unpublished(session, "incident_events", [tick.at])
    return lines


def _put_rows(session: Session, ticks: Sequence[TickRecord]) -> None:
    scores = [(tick.at, item) for tick in ticks for item in tick.node_scores]
    if scores:
        columns: dict[str, list[Any]] = {"tick_at": [at for at, _ in scores]}
        for name in ("node", "symptom", "score", "detector"):
            columns[name] = [getattr(item, name) for _, item in scores]
        session.insert("node_scores", columns)
        mark_unpublished(session, "node_scores", columns["tick_at"])
    covered = [(tick.at, item) for tick in ticks for item in tick.coverage]
    if covered:
        columns = {
            "tick_at": [at for at, _ in covered],
            "kind": [item.entity.kind for _, item in covered],
            "name": [item.entity.name for _, item in covered],
            "layer": [item.layer for _, item in covered],
            "ratio": [item.ratio for _, item in covered],
            "verdict": [item.verdict for _, item in covered],
        }
        session.insert("coverage", columns)
        mark_unpublished(session, "coverage", columns["tick_at"])


def record_job(session: Session, job: str, started_at: Ms, ended_at: Ms, outcome: str, detail: str = "") -> None:
    """One run of one job."""
    with session.transaction():
        session.run("INSERT INTO job_runs VALUES (?, ?, ?, ?, ?)", [job, started_at, ended_at, outcome, detail])
        mark_unpublished(session, "job_runs", [started_at])
