"""`anomaly doctor`: what stands in the way."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anomaly.cli import options

if TYPE_CHECKING:
    from anomaly.jobs.doctor import Check

_COLOURS = {"ok": "green", "problem": "red", "skipped": None}


@click.command("doctor")
@click.argument("pipeline", type=options.PATH, required=False)
@options.state
@options.output
def command(pipeline: Path | None, state: Path, output: str) -> int:
    """Check state, database, clock and all that is talked to, one after the other, each with a next step.

    With PIPELINE: the file, its state directory, its service, Prometheus and every Alertmanager. Without: the state
    directory alone. It reads and asks only, and exits with 1 where there is a problem.
    """
    from anomaly.clock import system_clock
    from anomaly.jobs.doctor import examine

    found = []
    for check in examine(pipeline, state, system_clock):
        found.append(check)
        if output == "table":
            click.echo(_line(check))
    problems = sum(check.verdict == "problem" for check in found)
    if output == "json":
        body = [
            {"check": each.name, "verdict": each.verdict, "said": each.said, "next_step": each.next_step or None}
            for each in found
        ]
        click.echo(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        options.said(f"{problems} problem{'s' * (problems > 1)}" if problems else "nothing is wrong")
    return 1 if problems else 0


def _line(check: "Check") -> str:
    from anomaly.cli.lookup import wrapped

    text = wrapped(f"{check.verdict:<9}{check.name:<17}{check.said}", indent=" " * 26, first="")
    shown = click.style(check.verdict, fg=_COLOURS[check.verdict]) + text[len(check.verdict) :]
    if not check.next_step:
        return shown
    return f"{shown}\n{wrapped(f'→ {check.next_step}', indent=' ' * 26, first=' ' * 24)}"
