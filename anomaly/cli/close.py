"""`anomaly close`: a person ends an incident."""

from pathlib import Path

import click

from anomaly.cli import options
from anomaly.cli.lookup import by_id, told, waiting
from anomaly.cli.wishes import say_when, who
from anomaly.errors import UsageError


@click.command("close")
@click.argument("incident", metavar="ID")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
@options.state
def command(incident: str, reason: str, state: Path) -> None:
    """End an incident by hand; its alert resolves.

    It does not reopen while the findings last that it was about. What begins later, and a hard fact (a lost GPU, an
    uncorrectable error) that had not been seen yet, opens a new one. A note is left in the inbox beside the database;
    it is taken in with the next tick.
    """
    from anomaly.clock import format_time, system_clock
    from anomaly.deliver.narrate import ending
    from anomaly.jobs.inbox import CLOSE, ask_to_close
    from anomaly.jobs.parts import INBOX

    known = told(state)
    found = by_id(known, incident)
    if found.resolved_at is not None:
        raise UsageError(
            f"{found.id} ({found.entity.name}) has ended already: {ending(found)} {format_time(found.resolved_at)}",
            "there is nothing to close",
        )
    if CLOSE in waiting(known, found.id):
        raise UsageError(f"{found.id} ({found.entity.name}) is to be closed already", "wait for the next tick")
    left = ask_to_close(state / INBOX, found.id, reason, who(), system_clock())
    say_when(known, f"{found.id} ({found.entity.name}, {found.cause}) ends", left)
