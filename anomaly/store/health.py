"""A look at a database from outside: who has it, which version it is, what waits in its outbox. Changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from anomaly.errors import StoreError, StoreLocked
from anomaly.store.connect import Session, translated
from anomaly.store.outbox import backlog
from anomaly.store.schema import NEWEST, version


@dataclass(frozen=True, slots=True)
class Health:
    """What a look found. `trouble` is why it could not be read; `locked` when that is another process."""

    there: bool = True
    trouble: StoreError | None = None
    version: int = 0
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Unsent entries by sink."""
    dead: Mapping[str, str] = field(default_factory=dict)
    """Sink → what it said to the newest entry that it refused for good, and how many there are."""

    @property
    def locked(self) -> bool:
        return isinstance(self.trouble, StoreLocked)


NEWEST_VERSION = NEWEST


def look_at(path: Path) -> Health:
    """Open `path` for a moment, reading only. A process that owns it is left alone and named in `trouble`."""
    if not path.exists():
        return Health(there=False)
    try:
        with translated(path):
            session = Session(duckdb.connect(str(path), read_only=True), path)
        try:
            known = version(session)
            if not known or known > NEWEST:
                return Health(version=known)
            refused = session.rows(
                """SELECT sink, count(*), arg_max(error, seq) FROM outbox WHERE given_up_at IS NOT NULL
                   GROUP BY sink ORDER BY sink"""
            )
            dead = {sink: f"{count} refused for good, the last with: {error}" for sink, count, error in refused}
            return Health(version=known, waiting=backlog(session), dead=dead)
        finally:
            session.close()
    except StoreError as error:
        return Health(trouble=error)
