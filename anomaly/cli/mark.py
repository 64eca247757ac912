"""`anomaly mark`: a person says what an incident really was."""

from pathlib import Path

import click

from anomaly.cli import options
from anomaly.cli.lookup import by_id, told
from anomaly.cli.wishes import say_when, who


@click.command("mark")
@click.argument("incident", metavar="ID")
@click.option(
    "--label", required=True, type=click.Choice(["real", "false", "maintenance", "known"]), help="What it was."
)
@click.option("--note", default="", metavar="TEXT", help="More, for the record.")
@options.state
def command(incident: str, label: str, note: str, state: Path) -> None:
    """Label an incident: real (a fault), false (nothing was wrong), maintenance (people were at work) or known.

    Labels count in `anomaly report` and for training; they never change an alert. The newest label of an incident
    holds. A note is left in the inbox beside the database; it is taken in with the next tick.
    """
    from anomaly.clock import system_clock
    from anomaly.jobs.inbox import ask_to_mark
    from anomaly.jobs.parts import INBOX

    known = told(state)
    found = by_id(known, incident)
    left = ask_to_mark(state / INBOX, found.id, label, note, who(), system_clock())
    say_when(known, f"{found.id} ({found.entity.name}, {found.cause}) is labelled {label}", left)
