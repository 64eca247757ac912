"""Small marks in the tables: watermarks, numbers given out, what still has to be published."""

from collections.abc import Iterable
from typing import Any

from anomaly.clock import DAY, HOUR, Ms, align_down
from anomaly.store.connect import Session

PARTS: dict[str, Ms] = {
    "series": 0,
    "incidents": 0,
    "incident_marks": 0,
    "findings": DAY,
    "incident_events": DAY,
    "evidence": DAY,
    "ticks": DAY,
    "job_runs": DAY,
    "node_scores": HOUR,
    "coverage": HOUR,
    "dropped": HOUR,
}
"""The published tables, and the span of one file of each (0: one file): only files that changed are rewritten."""


def watermark(session: Session, name: str) -> Ms | None:
    """How far `name` (a signal, `collected`, `scored`) has come; None: not begun."""
    value = session.value("SELECT through FROM watermarks WHERE name = ?", [name])
    return None if value is None else int(value)


def watermarks(session: Session) -> dict[str, Ms]:
    """All watermarks."""
    return {name: int(at) for name, at in session.rows("SELECT name, through FROM watermarks ORDER BY name")}


def set_watermark(session: Session, name: str, at: Ms) -> None:
    """`name` has come to exactly `at`."""
    session.run("DELETE FROM watermarks WHERE name = ?", [name])
    session.run("INSERT INTO watermarks VALUES (?, ?)", [name, at])


def advance(session: Session, names: dict[str, Ms]) -> None:
    """Each name has come to its instant at least: reading an older range again does not turn a watermark back."""
    columns: dict[str, list[Any]] = {"name": list(names), "through": list(names.values())}
    with session.given("advanced", columns):
        session.run(
            """UPDATE watermarks SET through = greatest(watermarks.through, advanced.through)
               FROM advanced WHERE watermarks.name = advanced.name"""
        )
        session.run("INSERT INTO watermarks SELECT name, through FROM advanced ANTI JOIN watermarks USING (name)")


def counter(session: Session, name: str) -> int:
    """The last number given out under `name`; 0 at first."""
    return int(session.value("SELECT max(value) FROM counters WHERE name = ?", [name]) or 0)


def set_counter(session: Session, name: str, value: int) -> None:
    """Numbers up to `value` are given out and never come again."""
    session.run("DELETE FROM counters WHERE name = ?", [name])
    session.run("INSERT INTO counters VALUES (?, ?)", [name, value])


def mark_unpublished(session: Session, item: str, instants: Iterable[Ms]) -> None:
    """The published files of `item` that cover `instants` are out of date."""
    span = PARTS[item]
    parts = sorted({align_down(instant, span) if span else 0 for instant in instants})
    for part in parts:
        session.run("DELETE FROM unpublished WHERE item = ? AND part = ?", [item, part])
        session.run("INSERT INTO unpublished VALUES (?, ?)", [item, part])
