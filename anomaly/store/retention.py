"""What is kept how long. Whole hours and days go at once, so that a published file is never half true."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from anomaly.clock import DAY, HOUR, Ms, align_down, parse_time
from anomaly.store.connect import Session
from anomaly.store.marks import PARTS, mark_unpublished
from anomaly.store.outbox import prune_outbox


@dataclass(frozen=True, slots=True)
class Keep:
    """How long things stay, in milliseconds: samples in the database, published files, roll-ups, conclusions."""

    samples: Ms = 48 * HOUR
    archive: Ms = 30 * DAY
    rollups: Ms = 90 * DAY
    findings: Ms = 365 * DAY


# Column that says how old a row is, and which of Keep's times applies.
_AGES = (
    ("samples", "ts", "samples"),
    ("incomplete", '"last"', "samples"),
    ("late_samples", "ts", "archive"),
    ("dropped", "tick_at", "samples"),
    ("node_scores", "tick_at", "archive"),
    ("coverage", "tick_at", "archive"),
    ("ticks", "tick_at", "archive"),
    ("job_runs", "started_at", "archive"),
    ("inbox_done", "tick_at", "archive"),
    ("rollups", "hour", "rollups"),
    ("findings", "onset", "findings"),
    ("incident_events", "tick_at", "findings"),
    ("incident_marks", "tick_at", "findings"),
    ("evidence", "fired_at", "findings"),
    ("evidence_slices", "fired_at", "findings"),
)


def cutoff(now: Ms, keep: Keep, table: str) -> Ms:
    """Rows of `table` before this instant go."""
    name = next(name for candidate, _, name in _AGES if candidate == table)
    return align_down(now - int(getattr(keep, name)), PARTS.get(table) or HOUR)


def prune(session: Session, now: Ms, keep: Keep) -> dict[str, int]:
    """Delete what is older than `keep` says, in one transaction; rows deleted by table.

    Open incidents stay whatever their age. A series goes when neither samples nor roll-ups know it any more:
    every job brings new label sets, and they must not pile up for ever.
    """
    deleted = {}
    with session.transaction("prune"):
        for table, column, _ in _AGES:
            sql = f"DELETE FROM {table} WHERE {column} < ?"  # noqa: S608 — names from the table above
            deleted[table] = session.run(sql, [cutoff(now, keep, table)])
        deleted["incidents"] = session.run("DELETE FROM incidents WHERE resolved_at < ?", [now - keep.findings])
        deleted["attachments"] = session.run("DELETE FROM attachments WHERE valid_to < ?", [now - keep.findings])
        deleted["outbox"] = prune_outbox(session, now - keep.samples)
        deleted["series"] = session.run(
            """DELETE FROM series WHERE series_id NOT IN (
                 SELECT series_id FROM samples UNION SELECT series_id FROM rollups UNION
                 SELECT series_id FROM late_samples)"""
        )
        for item in ("incidents", "incident_marks", "series"):
            if deleted[item]:
                mark_unpublished(session, item, [0])
    return deleted


def prune_published(directory: Path, now: Ms, keep: Keep) -> int:
    """Delete published files whose whole span is older than `keep` says; how many directories went."""
    gone = 0
    limits = {table: cutoff(now, keep, table) for table in PARTS if PARTS[table]}
    limits["samples"] = align_down(now - keep.archive, HOUR)
    limits["rollups"] = align_down(now - keep.rollups, HOUR)
    for table, limit in limits.items():
        for part in sorted(directory.glob(f"{table}/*=*")):
            try:
                start = parse_time(part.name.partition("=")[2])
            except ValueError:
                continue  # not one of ours
            if start < limit:
                shutil.rmtree(part)
                gone += 1
    return gone
