"""Published data: Parquet files beside the database, for readers that must block nobody.

    incidents.parquet, series.parquet,
    incident_marks.parquet                      whole, replaced when they change
    <table>/day=2026-11-30/<table>.parquet      findings, incident_events, ticks, job_runs; evidence by its firing
    <table>/hour=2026-11-30T10/<table>.parquet  node_scores, coverage, dropped; samples and rollups once closed
    manifest.json                               format, and how far the data reaches

Every file is written aside, flushed and renamed: a reader sees the old or the new one, never a part. What has
changed and is not yet published is noted in the transaction that changed it, so a crash in between loses nothing.
"""

import json
from pathlib import Path

from anomaly.clock import Ms
from anomaly.store.connect import Session
from anomaly.store.files import aside_of, flush, part_path, writing
from anomaly.store.marks import PARTS, watermark
from anomaly.store.samples import COLLECTED, SCORED

FORMAT = 1
MANIFEST = "manifest.json"

# Incidents come last: whoever sees one finds its events and findings already there.
_SELECTS = {
    "series": """SELECT series_id, signal, kind, name, device, part, labels
                 FROM series JOIN entities USING (entity_id) ORDER BY series_id""",
    "job_runs": "SELECT * FROM job_runs WHERE started_at >= $low AND started_at < $high ORDER BY ALL",
    "ticks": "SELECT * FROM ticks WHERE tick_at >= $low AND tick_at < $high ORDER BY tick_at",
    "coverage": "SELECT * FROM coverage WHERE tick_at >= $low AND tick_at < $high ORDER BY ALL",
    "node_scores": "SELECT * FROM node_scores WHERE tick_at >= $low AND tick_at < $high ORDER BY ALL",
    "dropped": "SELECT * FROM dropped WHERE tick_at >= $low AND tick_at < $high ORDER BY ALL",
    "evidence": "SELECT * FROM evidence WHERE fired_at >= $low AND fired_at < $high ORDER BY ALL",
    "incident_marks": "SELECT * FROM incident_marks ORDER BY said_at, incident_id",
    "findings": "SELECT * FROM findings WHERE onset >= $low AND onset < $high ORDER BY ALL",
    "incident_events": "SELECT * FROM incident_events WHERE tick_at >= $low AND tick_at < $high ORDER BY seq",
    "incidents": "SELECT * FROM incidents ORDER BY onset, id",
}
_ORDER = list(_SELECTS)
# The column that says which file of a table in parts a row belongs to.
_TIMES = {table: "tick_at" for table, span in PARTS.items() if span} | {
    "findings": "onset",
    "job_runs": "started_at",
    "evidence": "fired_at",
}


def publish(session: Session, directory: Path) -> list[Path]:
    """Bring the result tables under `directory` up to date; the files that were replaced.

    Only files whose rows changed since the last time are written (all of them into an empty directory), from one
    snapshot. Raises StoreError when the directory cannot be written.
    """
    manifest = directory / MANIFEST
    with writing(directory), session.transaction("publish"):
        parts = _due(session, everything=not manifest.exists())
        staged = [_stage(session, directory, table, part) for table, part in parts]
        for aside, final in staged:
            aside.replace(final)
        session.run("DELETE FROM unpublished")
        if staged or not manifest.exists():
            _write_manifest(session, manifest)
    return [final for _, final in staged]


def _due(session: Session, *, everything: bool) -> list[tuple[str, Ms]]:
    due = set(session.rows("SELECT item, part FROM unpublished"))
    if everything:
        due |= {(table, 0) for table, span in PARTS.items() if not span}
        for table, column in _TIMES.items():
            span = PARTS[table]
            found = session.rows(f"SELECT DISTINCT {column} - {column} % {span} FROM {table}")  # noqa: S608
            due |= {(table, int(part)) for (part,) in found}
    return sorted(due, key=lambda item: (_ORDER.index(item[0]), item[1]))


def _stage(session: Session, directory: Path, table: str, part: Ms) -> tuple[Path, Path]:
    """Write one file aside; (where it is, where it belongs)."""
    final = part_path(directory, table, PARTS[table], part)
    aside = aside_of(final)
    # COPY takes no parameters: the bounds are our own integers.
    bounded = _SELECTS[table].replace("$low", str(part)).replace("$high", str(part + PARTS[table]))
    target = str(aside).replace("'", "''")
    session.run(f"COPY ({bounded}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
    flush(aside)
    return aside, final


def _write_manifest(session: Session, manifest: Path) -> None:
    body = {
        "format": FORMAT,
        "collected_through": watermark(session, COLLECTED),
        "scored_through": watermark(session, SCORED),
    }
    aside = aside_of(manifest)
    aside.write_text(json.dumps(body) + "\n", encoding="utf-8")
    flush(aside)
    aside.replace(manifest)
