"""Published tables as Arrow tables that an analyst can read: times are instants, columns are there even when empty."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anomaly.clock import Ms, parse_time, to_ms
from anomaly.errors import UsageError
from anomaly.store.published import read_table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Time = str | datetime
"""Text as on the command line (`2026-11-30T10:00Z`) or a datetime, pandas' Timestamp included; UTC without a zone."""

_TABLES = {
    "findings": "kind:text name:text signal:text device:text detector:text cause:text symptom:text hard:bool "
    "asymmetric:bool onset:time uncertainty:int last:time peak:number score:number direction:text observed:number "
    "expected:number unit:text hint:text confirmed:time",
    "dropped": "tick_at:time reason:text because:text kind:text name:text signal:text device:text detector:text "
    "onset:time score:number",
    "node_scores": "tick_at:time node:text symptom:text score:number detector:text",
    "coverage": "tick_at:time kind:text name:text layer:text ratio:number verdict:text",
    "ticks": "tick_at:time as_of:text versions:text findings:int dropped:text incidents:int",
    "job_runs": "job:text started_at:time ended_at:time outcome:text detail:text",
    "series": "series_id:int signal:text kind:text name:text device:text part:text labels:text",
    "rollups": "series_id:int signal:text kind:text name:text device:text part:text hour:time samples:int "
    "median:number spread:number lowest:number highest:number",
    "samples": "series_id:int signal:text kind:text name:text device:text part:text time:time value:number",
}


def columns(table: str) -> dict[str, str]:
    """Column → type (`time`, `text`, `number`, `int`, `bool`) of a published table, as analysts see it."""
    return dict(entry.split(":") for entry in _TABLES[table].split())


def table_of(directory: Path, table: str, by: str = "", start: Ms | None = None, end: Ms | None = None) -> Any:
    """A published table (Arrow) whose rows have the column `by` in [start, end]; empty when nothing is there yet."""
    found = read_table(directory, table, start, end)
    if found is not None and by and (start is not None or end is not None):
        found = _within(found, by, start, end)
    return shaped(found, columns(table))


def _within(table: Any, by: str, start: Ms | None, end: Ms | None) -> Any:
    import pyarrow.compute as pc

    keep = pc.field(by).is_valid()
    keep = keep & (pc.field(by) >= start) if start is not None else keep
    return table.filter(keep & (pc.field(by) <= end) if end is not None else keep)


def shaped(table: Any, wanted: Mapping[str, str]) -> Any:
    """An Arrow table with exactly the columns `wanted`, times as instants; None becomes an empty table.

    Milliseconds become `timestamp[ms, UTC]`; zero, which stands for "not yet" in the records, becomes null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    types = _types()
    schema = pa.schema([(name, types[kind]) for name, kind in wanted.items()])
    if table is None:
        return schema.empty_table()
    out = []
    for name, kind in wanted.items():
        column = table.column(name)
        if kind == "time" and pa.types.is_integer(column.type):
            column = pc.if_else(pc.equal(column, 0), pa.scalar(None, pa.int64()), pc.cast(column, pa.int64()))
        out.append(column.cast(types[kind]))
    return pa.table(out, schema=schema)


def from_rows(rows: Sequence[Mapping[str, Any]], wanted: Mapping[str, str]) -> Any:
    """An Arrow table of rows given as mappings; times are milliseconds or None."""
    import pyarrow as pa

    types = _types() | {"time": pa.int64()}
    raw = {name: pa.array([row[name] for row in rows], types[kind]) for name, kind in wanted.items()}
    return shaped(pa.table(raw), wanted)


def _types() -> dict[str, Any]:
    import pyarrow as pa

    return {
        "time": pa.timestamp("ms", tz="UTC"),
        "text": pa.string(),
        "number": pa.float64(),
        "int": pa.int64(),
        "bool": pa.bool_(),
        "texts": pa.list_(pa.string()),
    }


def to_pandas(table: Any) -> "pd.DataFrame":
    """Arrow → pandas."""
    frame: pd.DataFrame = table.to_pandas()
    return frame


def to_polars(table: Any) -> "pl.DataFrame":
    """Arrow → polars."""
    import polars as pl

    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def instant(given: Time) -> Ms:
    """A time that an analyst gave, in milliseconds. Raises UsageError for what is none."""
    if isinstance(given, datetime):
        return to_ms(given if given.tzinfo else given.replace(tzinfo=UTC))
    try:
        return parse_time(given)
    except ValueError as error:
        raise UsageError(str(error), "give RFC 3339 text or a datetime") from None
