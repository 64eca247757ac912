"""Reading published data: no database, no lock, safe while the service writes."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from anomaly.clock import HOUR, Ms, align_down, parse_time
from anomaly.errors import StoreError
from anomaly.records import Incident
from anomaly.store.publish import FORMAT, MANIFEST


def manifest(directory: Path) -> dict[str, Any]:
    """`format, collected_through, scored_through` of published data.

    Raises StoreError when nothing is published there, or by a newer program.
    """
    try:
        body: dict[str, Any] = json.loads((directory / MANIFEST).read_text())
    except FileNotFoundError:
        raise StoreError(
            f"nothing is published under {directory}",
            "start the service (`anomaly run`) or name its state directory with --state",
        ) from None
    if body["format"] > FORMAT:
        raise StoreError(f"{directory} was published by a newer program", "update this one")
    return body


def read_table(directory: Path, table: str, start: Ms | None = None, end: Ms | None = None) -> Any:
    """A published table as a pyarrow Table; of tables in parts, those that overlap [start, end].

    None when the table has no file yet. Every file is opened once, so that its replacement meanwhile is harmless.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for path in parts(directory, table, start, end):
        try:
            with path.open("rb") as opened:
                # No threads: Arrow's may still be starting when a short command ends, which then aborts the process.
                tables.append(pq.ParquetFile(opened).read(use_threads=False))
        except FileNotFoundError:
            continue  # pruned since it was listed
    return pa.concat_tables(tables) if tables else None


def parts(directory: Path, table: str, start: Ms | None = None, end: Ms | None = None) -> Iterator[Path]:
    """The files of a published table, oldest first."""
    whole = directory / f"{table}.parquet"
    if whole.exists():
        yield whole
    for folder in sorted((directory / table).glob("*=*")):
        key, _, text = folder.name.partition("=")
        begin = parse_time(text + ":00" if key == "hour" else text)
        span = HOUR if key == "hour" else 24 * HOUR
        if (end is None or begin <= end) and (start is None or begin + span > start):
            yield folder / f"{table}.parquet"


def read_incidents(directory: Path) -> list[Incident]:
    """All published incidents, by onset."""
    from anomaly.incident_json import incident_from_json

    table = read_table(directory, "incidents")
    bodies = [] if table is None else table.column("body").to_pylist()
    return [incident_from_json(json.loads(body)) for body in bodies]


def read_archive(directory: Path, signals: Sequence[str], start: Ms, end: Ms) -> Any:
    """Published samples of `signals` in [start, end] as a pyarrow Table, sorted by series and time within an hour.

    Columns `series_id, signal, kind, node, device, part, ts, value`; None when there are none. Hour files never
    change, so only their row groups that can matter are read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = [("signal", "in", list(signals)), ("ts", ">=", start), ("ts", "<=", end)]
    tables = [
        pq.read_table(str(path), filters=wanted, partitioning=None)
        for path in parts(directory, "samples", align_down(start, HOUR), end)
    ]
    return pa.concat_tables(tables) if tables else None
