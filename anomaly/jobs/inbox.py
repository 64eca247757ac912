"""The inbox: what people ask of a store that a service owns, taken into its next tick, exactly once.

A tick's transaction holds the names of the items that it acted upon, so an item is done if and only if the tick is. A
kill between the commit and the removal of the files leaves files whose names are known, and they are only removed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from anomaly.clock import Ms
from anomaly.store.inbox import InboxItem, drop, remove, take
from anomaly.store.incident_marks import LABELS, IncidentMark
from anomaly.store.store import Store

CLOSE, MARK, TRAIN = "close", "mark", "train"


@dataclass(frozen=True, slots=True)
class Asked:
    """What lies in the inbox for the next tick. `items` are done once the tick is; `stale` ones are already."""

    items: tuple[InboxItem, ...] = ()
    close: tuple[str, ...] = ()
    """Incidents that somebody wants closed, by id."""
    marks: tuple[IncidentMark, ...] = ()
    stale: tuple[InboxItem, ...] = ()
    strange: tuple[str, ...] = ()
    """Names of items that say nothing we understand: done as well, without effect."""


def ask_to_close(inbox: Path, incident_id: str, reason: str, who: str, now: Ms) -> Path:
    """Leave the wish that an incident be closed. `now` is wall time."""
    return drop(inbox, CLOSE, {"incident": incident_id, "note": reason, "who": who, "at": now}, now)


def ask_to_mark(inbox: Path, incident_id: str, label: str, note: str, who: str, now: Ms) -> Path:
    """Leave a label (one of LABELS) for an incident."""
    return drop(inbox, MARK, {"incident": incident_id, "label": label, "note": note, "who": who, "at": now}, now)


def ask_to_train(inbox: Path, start: Ms | None, end: Ms | None, who: str, now: Ms) -> Path:
    """Leave the wish that the service train soon, on that range of real time if given."""
    return drop(inbox, TRAIN, {"from": start, "to": end, "who": who, "at": now}, now)


@dataclass(frozen=True, slots=True)
class TrainingAsked:
    """A wish to train, the newest one's range; `items` are done once that training has ended, however it did.

    Training is no part of a tick. After a kill it is done again, which changes nothing but the version's name.
    """

    items: tuple[InboxItem, ...] = ()
    start: Ms | None = None
    end: Ms | None = None


def training_asked(inbox: Path) -> TrainingAsked:
    """Whether somebody wants a training, and on what."""
    items = tuple(item for item in take(inbox) if item.kind == TRAIN) if inbox.is_dir() else ()
    start, end = (items[-1].payload.get(key) if items else None for key in ("from", "to"))
    whole = [at if isinstance(at, int) and not isinstance(at, bool) else None for at in (start, end)]
    return TrainingAsked(items, *whole)


def read_inbox(inbox: Path | None, store: Store) -> Asked:
    """What waits there, in the order it was left. Kinds that are not ours stay where they are."""
    if inbox is None or not inbox.is_dir():
        return Asked()
    ours = [item for item in take(inbox) if item.kind in (CLOSE, MARK)]
    if not ours:
        return Asked()
    waiting = store.undone(ours)
    marks = {item.name: _mark(item) for item in waiting}
    understood = [mark for mark in marks.values() if mark is not None]
    return Asked(
        items=tuple(waiting),
        close=tuple(dict.fromkeys(mark.incident_id for mark in understood if mark.kind == CLOSE)),
        marks=tuple(understood),
        stale=tuple(item for item in ours if item not in waiting),
        strange=tuple(name for name, mark in marks.items() if mark is None),
    )


def clear(inbox: Path | None, items: Iterable[InboxItem]) -> None:
    """Remove items that are done."""
    if inbox is not None:
        remove(inbox, items)


def _mark(item: InboxItem) -> IncidentMark | None:
    said = item.payload
    kind: Literal["close", "label"] = "close" if item.kind == CLOSE else "label"
    label = said.get("label", "")
    at = said.get("at")
    if not _text(said, "incident") or not isinstance(at, int) or (kind == "label" and label not in LABELS):
        return None
    label = label if kind == "label" else ""
    return IncidentMark(_text(said, "incident"), kind, label, _text(said, "note"), _text(said, "who"), at)


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key, "")
    return value[:1000] if isinstance(value, str) else ""
