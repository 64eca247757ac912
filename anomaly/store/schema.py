"""The tables, as ordered migrations: each runs once, in one transaction with its line in `schema_version`.

A migration that has been released is never edited; a change is a new one. `tests/store/frozen/` keeps a database
of every released version as SQL, and every one of them must still open.

All instants and durations are integer milliseconds. There is no index and no primary key on `samples`: with one,
19 M rows take 20-35 s and 57 bytes each to insert, without it 2 s and 4 bytes.
"""

from collections.abc import Sequence

from anomaly.errors import StoreError
from anomaly.store.connect import Session, damaged

V1 = (
    # Who and what. A series is one signal with one label set; `labels` is canonical JSON (sorted keys).
    "CREATE TABLE entities (entity_id INTEGER, kind VARCHAR, name VARCHAR)",
    """CREATE TABLE series (series_id INTEGER, signal VARCHAR, entity_id INTEGER, device VARCHAR, part VARCHAR,
       labels VARCHAR)""",
    """CREATE TABLE attachments (kind VARCHAR, name VARCHAR, key VARCHAR, value VARCHAR, valid_from BIGINT,
       valid_to BIGINT)""",
    # What was measured.
    "CREATE TABLE samples (series_id INTEGER, ts BIGINT, value DOUBLE)",
    "CREATE TABLE late_samples (series_id INTEGER, ts BIGINT, value DOUBLE, seen_tick BIGINT)",
    """CREATE TABLE rollups (series_id INTEGER, hour BIGINT, samples INTEGER, median DOUBLE, spread DOUBLE,
       lowest DOUBLE, highest DOUBLE)""",
    "CREATE TABLE baselines (name VARCHAR, key VARCHAR, bucket_end BIGINT, value DOUBLE)",
    "CREATE TABLE watermarks (name VARCHAR, through BIGINT)",
    # What was concluded.
    "CREATE TABLE state (tick_at BIGINT, body VARCHAR)",
    """CREATE TABLE ticks (tick_at BIGINT, as_of VARCHAR, versions VARCHAR, findings INTEGER, dropped VARCHAR,
       incidents INTEGER)""",
    """CREATE TABLE findings (kind VARCHAR, name VARCHAR, signal VARCHAR, device VARCHAR, detector VARCHAR,
       cause VARCHAR, symptom VARCHAR, hard BOOLEAN, "asymmetric" BOOLEAN, onset BIGINT, uncertainty BIGINT,
       last BIGINT, peak DOUBLE, score DOUBLE, direction VARCHAR, observed DOUBLE, expected DOUBLE, unit VARCHAR,
       hint VARCHAR, confirmed BIGINT)""",
    """CREATE TABLE dropped (tick_at BIGINT, reason VARCHAR, because VARCHAR, kind VARCHAR, name VARCHAR,
       signal VARCHAR, device VARCHAR, detector VARCHAR, onset BIGINT, score DOUBLE)""",
    """CREATE TABLE incidents (id VARCHAR, phase VARCHAR, severity VARCHAR, scope VARCHAR, kind VARCHAR, name VARCHAR,
       cause VARCHAR, onset BIGINT, fired_at BIGINT, updated_at BIGINT, resolved_at BIGINT, body VARCHAR)""",
    "CREATE TABLE incident_events (seq BIGINT, tick_at BIGINT, incident_id VARCHAR, body VARCHAR)",
    "CREATE TABLE node_scores (tick_at BIGINT, node VARCHAR, symptom VARCHAR, score DOUBLE, detector VARCHAR)",
    """CREATE TABLE coverage (tick_at BIGINT, kind VARCHAR, name VARCHAR, layer VARCHAR, ratio DOUBLE,
       verdict VARCHAR)""",
    # What is to be sent, done and published.
    """CREATE TABLE outbox (seq BIGINT, sink VARCHAR, key VARCHAR, incident_id VARCHAR, body VARCHAR, created_at BIGINT,
       resolved_at BIGINT, attempts INTEGER, next_attempt_at BIGINT, sent_at BIGINT, given_up_at BIGINT,
       error VARCHAR)""",
    """CREATE TABLE job_runs (job VARCHAR, started_at BIGINT, ended_at BIGINT, outcome VARCHAR,
       detail VARCHAR)""",
    "CREATE TABLE inbox_done (item VARCHAR, tick_at BIGINT)",
    "CREATE TABLE unpublished (item VARCHAR, part BIGINT)",
    "CREATE TABLE counters (name VARCHAR, value BIGINT)",
    # Everything about a series besides its identity is an attribute, valid while samples carried it. A label set
    # never changes within a series, so this needs no table of its own.
    """CREATE VIEW attributes AS
       WITH seen AS (
         SELECT series_id, min(first_at) AS valid_from, max(last_at) AS valid_to FROM (
           SELECT series_id, min(ts) AS first_at, max(ts) AS last_at FROM samples GROUP BY series_id
           UNION ALL
           SELECT series_id, min(hour), max(hour) FROM rollups GROUP BY series_id)
         GROUP BY series_id)
       SELECT series.series_id, label.key AS key, label.value ->> '$' AS value, valid_from, valid_to
       FROM series JOIN seen USING (series_id), json_each(series.labels) AS label""",
)

V2 = (
    # Where a signal's newest reading was incomplete: nothing may be concluded from what is missing there.
    'CREATE TABLE incomplete (signal VARCHAR, "first" BIGINT, "last" BIGINT, why VARCHAR)',
)

V3 = (
    # What people said about incidents: labels, and that they closed one. `said_at` is wall time, `tick_at` logical.
    """CREATE TABLE incident_marks (incident_id VARCHAR, kind VARCHAR, label VARCHAR, note VARCHAR, who VARCHAR,
       said_at BIGINT, tick_at BIGINT)""",
    # Samples kept with an incident, its entity's and its peers', for longer than samples are kept.
    """CREATE TABLE evidence (incident_id VARCHAR, fired_at BIGINT, series_id INTEGER, signal VARCHAR, kind VARCHAR,
       name VARCHAR, device VARCHAR, part VARCHAR, ts BIGINT, value DOUBLE)""",
    "CREATE TABLE evidence_slices (incident_id VARCHAR, fired_at BIGINT, through BIGINT)",
)

MIGRATIONS: Sequence[tuple[int, Sequence[str]]] = ((1, V1), (2, V2), (3, V3))
NEWEST = MIGRATIONS[-1][0]


def version(session: Session) -> int:
    """The schema version of the file; 0 for an empty one. Raises StoreError for somebody else's database."""
    tables = {name for (name,) in session.rows("SELECT table_name FROM information_schema.tables")}
    if "schema_version" in tables:
        return int(session.value("SELECT max(version) FROM schema_version") or 0)
    if tables:
        raise damaged(session.path, f"it holds other tables, such as {min(tables)}")
    return 0


def migrate(session: Session, through: int = NEWEST) -> int:
    """Bring the file to version `through`, one transaction a step; how many steps it took.

    Raises StoreError when the file is newer than this program.
    """
    have = version(session)
    if have > NEWEST:
        raise StoreError(
            f"the database {session.path} has schema version {have}, this program knows {NEWEST}",
            "use the newer program that wrote it, or move the file aside",
        )
    steps = [(number, statements) for number, statements in MIGRATIONS if have < number <= through]
    for number, statements in steps:
        with session.transaction("migrate"):
            session.run("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER)")
            for statement in statements:
                session.run(statement)
            session.run("INSERT INTO schema_version VALUES (?)", [number])
    return len(steps)
