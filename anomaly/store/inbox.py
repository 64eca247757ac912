"""The inbox: how anybody else writes to a database that the service owns.

A writer drops a small JSON file; the service takes the files in order, acts on them within its next tick's
transaction (`TickRecord.consumed` names them) and removes them after the commit. Killed in between, it meets them
again and knows from `inbox_done` that they are done.
"""

import json
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anomaly.clock import Ms
from anomaly.errors import StoreError
from anomaly.store.connect import Session

_KIND = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class InboxItem:
    """One dropped file: its name (which never comes again), what it is, what it says."""

    name: str
    kind: str
    payload: dict[str, Any]


def drop(directory: Path, kind: str, payload: dict[str, Any], now: Ms) -> Path:
    """Leave `payload` for the service; it is there as a whole or not at all."""
    if not _KIND.fullmatch(kind):
        raise ValueError(f"{kind!r} is not a kind of inbox item")
    try:
        new = not directory.exists()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if new:
            _give_away(directory, directory.parent)
        # Names sort by time, then by how many stood there already in the same millisecond.
        same = len(list(directory.glob(f"{now:015d}-*")))
        path = directory / f"{now:015d}-{same:04d}-{secrets.token_hex(4)}.json"
        aside = path.with_suffix(".aside")
        with aside.open("w", encoding="utf-8") as written:
            json.dump({"kind": kind, "payload": payload}, written)
            written.flush()
            os.fsync(written.fileno())
        _give_away(aside, directory)
        aside.replace(path)
    except OSError as error:
        raise StoreError(
            f"nothing can be left in {directory}: {error.strerror or error}",
            "run this as the user that runs the service, or name its state directory with --state",
        ) from error
    return path


def _give_away(path: Path, like: Path) -> None:
    """What root leaves belongs to the owner of `like`: the service must be able to read it."""
    if os.geteuid() == 0:
        owner = like.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def take(directory: Path) -> list[InboxItem]:
    """What lies in the inbox, in order. A file that cannot be read as an item is set aside as `<name>.bad`.

    One that another thread has dealt with meanwhile is gone. Raises StoreError where a file can be neither read nor
    moved.
    """
    items = []
    for path in sorted(directory.glob("*.json")):
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            kind, payload = body["kind"], body["payload"]
            if not isinstance(kind, str) or not isinstance(payload, dict):
                raise TypeError("not an inbox item")
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError):
            _set_aside(path)
            continue
        items.append(InboxItem(path.name, kind, payload))
    return items


def _set_aside(path: Path) -> None:
    try:
        path.replace(path.with_name(path.name + ".bad"))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreError(
            f"{path} can be neither read nor moved: {error.strerror or error}",
            "let the user that runs this own the directory and what is in it",
        ) from error


def undone(session: Session, items: Sequence[InboxItem]) -> list[InboxItem]:
    """Those that no committed tick has acted upon."""
    with session.given("met", {"item": [item.name for item in items]}):
        done = {name for (name,) in session.rows("SELECT item FROM inbox_done SEMI JOIN met USING (item)")}
    return [item for item in items if item.name not in done]


def remove(directory: Path, items: Iterable[InboxItem]) -> None:
    """Items that are done leave the inbox."""
    for item in items:
        (directory / item.name).unlink(missing_ok=True)
