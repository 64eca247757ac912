"""Identity: label sets become small integers, once."""

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anomaly.records import Entity, Labels, SeriesRow
from anomaly.store.connect import Session
from anomaly.store.marks import counter, mark_unpublished, set_counter

Registration = tuple[str, Entity, str, str, Labels]
"""signal, entity, device, part, labels."""

Identity = tuple[Entity, str, str]
"""entity, device, part."""

_UNMET = -2

_SELECT = """SELECT series_id, signal, kind, name, device, part, labels
             FROM series JOIN entities USING (entity_id)"""
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def canonical(labels: Labels) -> str:
    """The labels as JSON that is equal exactly when the label sets are."""
    return _encode(dict(labels))


def _quick_key(labels: Labels) -> str:
    """A key that is unequal for unequal label sets, three times cheaper than JSON.

    The same set in another order only misses the cache. A separator inside a label falls back to JSON.
    """
    key = "\0".join([*labels, *labels.values()])
    return key if key.count("\0") == 2 * len(labels) - 1 else canonical(labels)


class SeriesIndex:
    """Which id a label set has: what this process has met, over the tables."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ids: dict[str, dict[str, int]] = {}
        self._identities: dict[int, Identity] = {}
        self._rows: dict[int, SeriesRow] = {}
        self._entities: dict[Entity, int] = {}
        self._settled: dict[str, tuple[object, dict[str, int]]] = {}
        self.changes = 0
        """Rises whenever a series is added, re-identified or forgotten: whoever keeps rows can tell."""
        session.on_rollback(self.forget)

    def forget(self) -> None:
        """Drop what is remembered (after a rollback or pruning); the tables are the truth."""
        self._ids.clear()
        self._identities.clear()
        self._rows.clear()
        self._entities.clear()
        self._settled.clear()
        self.changes += 1

    def ids_of(
        self, signal: str, labels: Sequence[Labels], identify: Callable[[Labels], Identity | None], version: object
    ) -> NDArray[np.int32]:
        """The id of every label set of `signal`, in order; -1 for those that `identify` knows no entity for.

        `identify` is asked once for a label set under one `version`: a pull brings the same hundreds of thousands
        every minute. Whatever it depends on must change the version.
        """
        known_version, known = self._settled.get(signal, (None, {}))
        if known_version != version:
            known = {}
        keys = list(map(_quick_key, labels))
        ids = np.fromiter(map(known.get, keys, itertools.repeat(_UNMET)), np.int32, len(keys))
        new = np.flatnonzero(ids == _UNMET).tolist()
        if new:
            found = [(place, identify(labels[place])) for place in new]
            ids[new] = -1
            named = [(place, identity) for place, identity in found if identity is not None]
            given = [(signal, *identity, labels[place]) for place, identity in named]
            ids[[place for place, _ in named]] = self.register(given)
            known.update((keys[place], int(ids[place])) for place in new)
        self._settled[signal] = (version, known)
        return ids

    def register(self, given: Sequence[Registration]) -> NDArray[np.int32]:
        """The id of every label set, in order; new ones are created, changed identities updated."""
        ids = np.zeros(len(given), np.int32)
        unknown: list[int] = []
        moved: list[int] = []
        identities = self._identities
        for position, (signal, entity, device, part, labels) in enumerate(given):
            known = self._ids.get(signal)
            series_id = known.get(_quick_key(labels)) if known else None
            if series_id is None:
                unknown.append(position)
                continue
            ids[position] = series_id
            if identities[series_id] != (entity, device, part):
                moved.append(position)
        if unknown or moved:
            with self._session.transaction():
                if unknown:
                    moved += self._meet(given, unknown, ids)
                if moved:
                    self._move({int(ids[position]): given[position] for position in moved})
                    self.changes += 1
        return ids

    def rows(self, signal: str | None = None) -> list[SeriesRow]:
        """All series (of one signal), by id."""
        where = "" if signal is None else " WHERE signal = ?"
        found = self._session.rows(f"{_SELECT}{where} ORDER BY series_id", [] if signal is None else [signal])
        return [self._row(*fields) for fields in found]

    def rows_of(self, ids: Iterable[int]) -> list[SeriesRow]:
        """The series with these ids, by id; ids that nobody has are left out."""
        wanted = np.unique(np.fromiter(ids, np.int32))
        missing = np.array([i for i in wanted.tolist() if i not in self._rows], np.int32)
        if len(missing):
            with self._session.given("wanted", {"series_id": missing}):
                for fields in self._session.rows(f"{_SELECT} SEMI JOIN wanted USING (series_id)"):
                    self._row(*fields)
        return [self._rows[i] for i in wanted.tolist() if i in self._rows]

    # ── the slow path: label sets that this process meets for the first time ──

    def _meet(self, given: Sequence[Registration], unknown: Sequence[int], ids: NDArray[np.int32]) -> list[int]:
        """Look up in the tables what the cache does not know, create what they do not; returns whose identity moved."""
        # Columns rather than tuples: a large cluster brings hundreds of thousands at the first start.
        places: dict[str, int] = {}
        signals: list[str] = []
        texts: list[str] = []
        firsts: list[Registration] = []
        place_of = np.zeros(len(unknown), np.int64)
        for number, position in enumerate(unknown):
            registration = given[position]
            text = canonical(registration[4])
            place = places.setdefault(f"{registration[0]}\0{text}", len(places))
            if place == len(firsts):
                signals.append(registration[0])
                texts.append(text)
                firsts.append(registration)
            place_of[number] = place
        found = np.zeros(len(firsts), np.int32)
        identities: dict[int, Identity] = {}
        with self._session.given("met", {"signal": signals, "labels": texts, "place": list(range(len(firsts)))}):
            for place, series_id, kind, name, device, part in self._session.rows(
                """SELECT place, series_id, kind, name, device, part
                   FROM met JOIN series USING (signal, labels) JOIN entities USING (entity_id)"""
            ):
                found[place] = series_id
                identities[series_id] = (Entity(kind, name), device, part)
        new = np.flatnonzero(found == 0)
        if len(new):
            created = [firsts[place] for place in new.tolist()]
            found[new] = self._create(created, [texts[place] for place in new.tolist()])
            identities |= {
                series_id: registration[1:4]
                for series_id, registration in zip(found[new].tolist(), created, strict=True)
            }
        ids[unknown] = found[place_of]
        self._identities |= identities
        moved = []
        for position in unknown:
            signal, entity, device, part, labels = given[position]
            series_id = int(ids[position])
            self._ids.setdefault(signal, {})[_quick_key(labels)] = series_id
            if identities[series_id] != (entity, device, part):
                moved.append(position)
        return moved

    def _create(self, new: Sequence[Registration], texts: Sequence[str]) -> NDArray[np.int32]:
        # Ids are never given twice, even after pruning took the newest: published files refer to them.
        last = counter(self._session, "series_id")
        ids = np.arange(last + 1, last + 1 + len(new), dtype=np.int32)
        self._session.insert(
            "series",
            {
                "series_id": ids,
                "signal": [registration[0] for registration in new],
                "entity_id": self._entity_ids([registration[1] for registration in new]),
                "device": [registration[2] for registration in new],
                "part": [registration[3] for registration in new],
                "labels": texts,
            },
        )
        set_counter(self._session, "series_id", last + len(new))
        mark_unpublished(self._session, "series", [0])
        self.changes += 1
        return ids

    def _move(self, moved: Mapping[int, Registration]) -> None:
        """The alias map has changed: known label sets now belong to another entity, device or part."""
        columns: dict[str, list[Any]] = {
            "series_id": list(moved),
            "entity_id": self._entity_ids([registration[1] for registration in moved.values()]),
            "device": [registration[2] for registration in moved.values()],
            "part": [registration[3] for registration in moved.values()],
        }
        with self._session.given("moved", columns):
            self._session.run(
                """UPDATE series SET entity_id = moved.entity_id, device = moved.device, part = moved.part
                   FROM moved WHERE series.series_id = moved.series_id"""
            )
        for series_id, registration in moved.items():
            self._identities[series_id] = registration[1:4]
            self._rows.pop(series_id, None)
        mark_unpublished(self._session, "series", [0])

    def _entity_ids(self, entities: Sequence[Entity]) -> list[int]:
        if not self._entities:
            for entity_id, kind, name in self._session.rows("SELECT entity_id, kind, name FROM entities"):
                self._entities[Entity(kind, name)] = entity_id
        new = [entity for entity in dict.fromkeys(entities) if entity not in self._entities]
        next_id = 1 + max(self._entities.values(), default=0)
        for offset, entity in enumerate(new):
            self._entities[entity] = next_id + offset
        if new:
            columns: dict[str, list[Any]] = {
                "entity_id": [self._entities[entity] for entity in new],
                "kind": [entity.kind for entity in new],
                "name": [entity.name for entity in new],
            }
            self._session.insert("entities", columns)
        return [self._entities[entity] for entity in entities]

    def _row(self, series_id: int, signal: str, kind: str, name: str, device: str, part: str, labels: str) -> SeriesRow:
        row = self._rows.get(series_id)
        if row is None:
            row = SeriesRow(series_id, signal, Entity(kind, name), device, part, _interned(json.loads(labels)))
            self._rows[series_id] = row
        return row


def _interned(labels: Labels) -> dict[str, str]:
    """Label values repeat over thousands of series: one string each."""
    return {sys.intern(str(key)): sys.intern(str(value)) for key, value in labels.items()}
