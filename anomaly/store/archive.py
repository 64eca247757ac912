"""Closed hours as immutable Parquet: samples and roll-ups with the identity of their series, once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import HOUR, Ms
from anomaly.store.connect import Session
from anomaly.store.files import aside_of, flush, part_path, writing
from anomaly.store.rollups import closed_through

IDENTITY = ("signal", "kind", "node", "device", "part")
ROWS_AT_ONCE = 8_000_000
"""Bounds the memory that writing an hour takes (about 0.5 GB), whatever the size of the cluster."""

_COLUMNS = {"samples": ("ts", "value"), "rollups": ("hour", "samples", "median", "spread", "lowest", "highest")}


def publish_closed_hours(session: Session, directory: Path, now: Ms) -> list[Path]:
    """Write the samples and roll-ups of closed hours that are not there yet; the new files, which never change.

    Columns `series_id, signal, kind, node, device, part` (`node` is the entity's name), then `ts, value` or the
    roll-up's; sorted by series and time. It reads beside other work and keeps nobody waiting.
    """
    written = []
    closed = closed_through(session, now)
    with writing(directory), session.aside() as beside:
        for table, columns in _COLUMNS.items():
            time = columns[0]
            sql = f"SELECT DISTINCT {time} // {HOUR} FROM {table} WHERE {time} < ? ORDER BY 1"  # noqa: S608
            for (number,) in beside.rows(sql, [closed]):
                final = part_path(directory, table, HOUR, number * HOUR)
                if not final.exists():
                    _write_hour(beside, final, table, number * HOUR)
                    written.append(final)
    return written


def _write_hour(session: Session, final: Path, table: str, hour: Ms) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = _COLUMNS[table]
    time = columns[0]
    bounds = [hour, hour + HOUR]
    rows = int(session.value(f"SELECT count(*) FROM {table} WHERE {time} >= ? AND {time} < ?", bounds))  # noqa: S608
    identity = session.rows(
        """SELECT series_id, signal, kind, name, device, part FROM series JOIN entities USING (entity_id)
           ORDER BY series_id"""
    )
    ids = np.array([row[0] for row in identity], np.int32)
    words = [_coded([row[place] for row in identity]) for place in range(1, 6)]
    aside = aside_of(final)
    writer = None
    for part in np.array_split(ids, 1 + rows // ROWS_AT_ONCE):
        if not len(part):
            continue
        selected = ", ".join(columns)
        sql = f"""SELECT series_id, {selected} FROM {table}
                  WHERE {time} >= ? AND {time} < ? AND series_id BETWEEN ? AND ?"""  # noqa: S608
        found = session.columns(sql, [*bounds, int(part[0]), int(part[-1])])
        order = np.lexsort((found[time], found["series_id"]))
        places = np.searchsorted(ids, found["series_id"][order]).astype(np.int32)
        arrays: dict[str, Any] = {"series_id": found["series_id"][order]}
        for name, (codes, dictionary) in zip(IDENTITY, words, strict=True):
            arrays[name] = pa.DictionaryArray.from_arrays(codes[places], dictionary)
        arrays |= {name: found[name][order] for name in columns}
        chunk = pa.table(arrays)
        if writer is None:
            # Without Arrow's own schema in it, the file reads as plain strings everywhere.
            writer = pq.ParquetWriter(aside, chunk.schema, compression="zstd", store_schema=False)
        writer.write_table(chunk, row_group_size=1_000_000)
    if writer is not None:
        writer.close()
        flush(aside)
        aside.replace(final)


def _coded(texts: Sequence[str]) -> tuple[NDArray[np.int32], list[str]]:
    """Each text as a place in a list of the distinct ones."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return np.array([places[text] for text in texts], np.int32), list(places)
