"""Samples in and out: one collected chunk is one transaction, and history is never changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms
from anomaly.records import Samples
from anomaly.store.connect import Session
from anomaly.store.marks import advance, watermark

COLLECTED = "collected"
SCORED = "scored"
WHY_MAX = 300
"""Characters kept of what a source says about an incomplete answer."""

_NO_IDS = np.zeros(0, np.int32)
_NO_TIMES = np.zeros(0, np.int64)
_NO_VALUES = np.zeros(0, np.float64)


@dataclass(frozen=True, slots=True)
class SignalChunk:
    """What was read of one signal for [start, end]: everything there is, so what is missing is gone, unless the source
    said that its answer was incomplete."""

    signal: str
    start: Ms
    end: Ms
    samples: Samples
    incomplete: tuple[str, ...] = ()
    """Why it may not be everything, in the source's words: then what is missing means nothing."""


@dataclass(frozen=True, slots=True)
class CollectedChunk:
    """One collected stretch of time: the signals that answered, and those that failed with their error."""

    start: Ms
    end: Ms
    per_signal: tuple[SignalChunk, ...]
    failed: tuple[tuple[str, str], ...] = ()
    scored_through: Ms = 0
    """Instants up to here have been scored: they are history."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a chunk's samples."""

    inserted: int
    replaced: int
    """Stored samples deleted because their range was read again."""
    late: int
    """Samples of scored instants that are new or differ from what was scored."""
    nan: int
    """Samples left out because NaN means "no sample"."""


def commit_chunk(session: Session, chunk: CollectedChunk) -> Committed:
    """Store a chunk and move its watermarks, all in one transaction.

    Per signal: in (scored, end] the stored samples of the range are replaced by those given, so that reading a
    range twice is the same as once; at or before `scored` nothing stored changes, and a sample that is new or
    differs goes to `late_samples`, once. Whether the reading was complete is noted with the samples, by the same rule.
    A signal that failed keeps its samples and its watermark.

    Precondition: one value for each (series, instant). Raises ValueError for a sample outside its signal's range or
    of a series that is not registered (register and commit in one `transaction()`: pruning may come in between).
    """
    for part in chunk.per_signal:
        ts = part.samples.ts
        if len(ts) and (int(ts.min()) < part.start or int(ts.max()) > part.end):
            raise ValueError(f"samples of {part.signal} lie outside the range that was read")
    with session.transaction("collect"):
        scored = max(chunk.scored_through, watermark(session, SCORED) or 0)
        given = _joined([part.samples for part in chunk.per_signal])
        _check_registered(session, given)
        keep = ~np.isnan(given.values)
        dropped = len(given) - int(np.count_nonzero(keep))
        old = keep & (given.ts <= scored)
        fresh = keep & ~old
        replaced = _delete_ranges(session, chunk.per_signal, scored)
        inserted = _insert(session, given, fresh)
        late = _insert_late(session, given, old, chunk.end) if old.any() else 0
        _note_incomplete(session, chunk.per_signal, scored)
        advance(session, {part.signal: part.end for part in chunk.per_signal} | {COLLECTED: chunk.end})
    return Committed(inserted, replaced, late, dropped)


def read(session: Session, signal: str, start: Ms, end: Ms) -> Samples:
    """The samples of one signal in [start, end], both inclusive."""
    columns = session.columns(
        """SELECT series_id, ts, value FROM samples
           SEMI JOIN (SELECT series_id FROM series WHERE signal = ?) USING (series_id) WHERE ts BETWEEN ? AND ?""",
        [signal, start, end],
    )
    return Samples(columns["series_id"], columns["ts"], columns["value"])


def read_many(session: Session, signals: Sequence[str], start: Ms, end: Ms) -> dict[str, Samples]:
    """The samples of several signals in [start, end], both inclusive, in one scan; every signal has an entry."""
    wanted = list(dict.fromkeys(signals))
    if not wanted:
        return {}
    with session.given("wanted", {"signal": wanted, "place": list(range(len(wanted)))}):
        owners = session.columns("SELECT series_id, place::USMALLINT AS place FROM series JOIN wanted USING (signal)")
    with session.given("owned", {"series_id": owners["series_id"]}):
        return _split(
            session.batches(
                """SELECT series_id, ts, value FROM samples SEMI JOIN owned USING (series_id)
                   WHERE ts BETWEEN ? AND ?""",
                [start, end],
            ),
            wanted,
            owners,
        )


def _split(
    batches: Iterable[list[NDArray[Any]]], wanted: Sequence[str], owners: Mapping[str, NDArray[Any]]
) -> dict[str, Samples]:
    """Hand each sample to the signal that owns its series."""
    place_of = np.zeros(int(owners["series_id"].max(initial=0)) + 1, np.uint16)
    place_of[owners["series_id"]] = owners["place"]
    ids: list[list[NDArray[np.int32]]] = [[] for _ in wanted]
    times: list[list[NDArray[np.int64]]] = [[] for _ in wanted]
    values: list[list[NDArray[np.float64]]] = [[] for _ in wanted]
    # Sorting batch by batch within the processor's cache is several times faster than all at once.
    for series_id, ts, value in batches:
        place = place_of[series_id]
        order = np.argsort(place, kind="stable")  # a radix sort for 16-bit integers
        series_id, ts, value = series_id[order], ts[order], value[order]
        present, bounds = np.unique(place[order], return_index=True)
        for where, low, high in zip(present, bounds, [*bounds[1:], len(place)], strict=True):
            ids[where].append(series_id[low:high])
            times[where].append(ts[low:high])
            values[where].append(value[low:high])
    return {
        signal: Samples(
            np.concatenate([_NO_IDS, *ids[where]]),
            np.concatenate([_NO_TIMES, *times[where]]),
            np.concatenate([_NO_VALUES, *values[where]]),
        )
        for where, signal in enumerate(wanted)
    }


def late_samples(session: Session, start: Ms, end: Ms) -> list[tuple[int, Ms, float, Ms]]:
    """(series id, instant, value, end of the chunk that brought it) of late samples in [start, end]."""
    return session.rows(
        "SELECT series_id, ts, value, seen_tick FROM late_samples WHERE ts BETWEEN ? AND ? ORDER BY ALL", [start, end]
    )


def incomplete(session: Session, start: Ms, end: Ms) -> dict[str, tuple[tuple[Ms, Ms], ...]]:
    """Signal → the ranges within [start, end], both inclusive, of which its newest reading was incomplete."""
    found: dict[str, list[tuple[Ms, Ms]]] = {}
    rows = session.rows(
        'SELECT signal, "first", "last" FROM incomplete WHERE "first" <= ? AND "last" >= ? ORDER BY ALL', [end, start]
    )
    for signal, first, last in rows:
        found.setdefault(signal, []).append((max(first, start), min(last, end)))
    return {signal: tuple(ranges) for signal, ranges in found.items()}


def _note_incomplete(session: Session, parts: Sequence[SignalChunk], scored: Ms) -> None:
    """What was read now replaces what was noted of its range before; scored instants keep their note."""
    known = {signal for (signal,) in session.rows('SELECT DISTINCT signal FROM incomplete WHERE "last" > ?', [scored])}
    for part in parts:
        low, high = max(part.start, scored + 1), part.end
        if low > high or not (part.incomplete or part.signal in known):
            continue
        overlap = [part.signal, high, low]
        where = 'WHERE signal = ? AND "first" <= ? AND "last" >= ?'
        old = session.rows(f'SELECT "first", "last", why FROM incomplete {where}', overlap)  # noqa: S608 — our own text
        session.run(f"DELETE FROM incomplete {where}", overlap)  # noqa: S608 — our own text
        rows = [(first, low - 1, why) for first, _, why in old if first < low]
        rows += [(high + 1, last, why) for _, last, why in old if last > high]
        if part.incomplete:
            rows.append((low, high, "; ".join(part.incomplete)[:WHY_MAX]))
        first, last, why = ([row[i] for row in rows] for i in range(3))
        session.insert("incomplete", {"signal": [part.signal] * len(rows), "first": first, "last": last, "why": why})


def _check_registered(session: Session, given: Samples) -> None:
    with session.given("ids", {"series_id": np.unique(given.series_id)}):
        strangers = session.value("SELECT count(*) FROM ids ANTI JOIN series USING (series_id)")
    if strangers:
        raise ValueError(f"{strangers} series of these samples are not registered")


def _joined(parts: Sequence[Samples]) -> Samples:
    if len(parts) == 1:
        return parts[0]
    return Samples(
        np.concatenate([_NO_IDS, *(part.series_id for part in parts)]),
        np.concatenate([_NO_TIMES, *(part.ts for part in parts)]),
        np.concatenate([_NO_VALUES, *(part.values for part in parts)]),
    )


def _picked(given: Samples, pick: NDArray[np.bool_]) -> dict[str, NDArray[np.generic]]:
    if pick.all():
        return {"series_id": given.series_id, "ts": given.ts, "value": given.values}
    return {"series_id": given.series_id[pick], "ts": given.ts[pick], "value": given.values[pick]}


def _insert(session: Session, given: Samples, pick: NDArray[np.bool_]) -> int:
    if not pick.any():
        return 0
    with session.given("fresh", _picked(given, pick)):
        return session.run("INSERT INTO samples SELECT series_id, ts, value FROM fresh")


def _delete_ranges(session: Session, parts: Sequence[SignalChunk], scored: Ms) -> int:
    """One DELETE for each distinct range: most signals share theirs."""
    ranges: dict[tuple[Ms, Ms], list[str]] = {}
    for part in parts:
        start = max(part.start, scored + 1)
        if start <= part.end:
            ranges.setdefault((start, part.end), []).append(part.signal)
    deleted = 0
    for (start, end), signals in ranges.items():
        with session.given("reread", {"signal": signals}):
            deleted += session.run(
                """DELETE FROM samples WHERE ts BETWEEN ? AND ?
                   AND series_id IN (SELECT series_id FROM series SEMI JOIN reread USING (signal))""",
                [start, end],
            )
    return deleted


def _insert_late(session: Session, given: Samples, pick: NDArray[np.bool_], seen: Ms) -> int:
    columns = _picked(given, pick)
    low, high = int(columns["ts"].min()), int(columns["ts"].max())
    with session.given("old", columns):
        return session.run(
            """INSERT INTO late_samples
               SELECT series_id, ts, value, ? FROM old
               ANTI JOIN (SELECT series_id, ts, value FROM samples WHERE ts BETWEEN ? AND ?
                          UNION ALL
                          SELECT series_id, ts, value FROM late_samples WHERE ts BETWEEN ? AND ?)
               USING (series_id, ts, value)""",
            [seen, low, high, low, high],
        )
