"""What the commands that write have in common: they leave a note for whoever owns the database."""

import getpass
import time
from pathlib import Path

from anomaly.cli import options
from anomaly.cli.lookup import Told
from anomaly.clock import MINUTE, Ms

LATELY: Ms = 10 * MINUTE
"""A service that published since then is taken to be running."""


def who() -> str:
    """The login name, for the record; empty where the system knows none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def say_when(known: Told, what: str, left: Path) -> None:
    """Say on standard error that a note was left, and when it takes effect."""
    from anomaly.cli.tables import span
    from anomaly.store.publish import MANIFEST

    age = round(time.time() * 1000 - (known.directory / MANIFEST).stat().st_mtime * 1000)
    if age <= LATELY:
        when = f"with the next tick of the service, which published {span(age)} ago"
    else:
        when = (
            f"with the next tick; nothing has been published for {span(age)}, so start the service (`anomaly run`) "
            "or run `anomaly score`"
        )
    options.said(f"{what} {when}")
    options.said(f"until then the note lies in {left}")
