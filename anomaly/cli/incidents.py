"""`anomaly incidents`: what a service has published."""

import json
from pathlib import Path

import click

from anomaly.cli import options


@click.command("incidents")
@options.state
@options.output
@click.option("--open", "open_only", is_flag=True, help="Only those that are firing now.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The newest so many.")
def command(state: Path, output: str, open_only: bool, limit: int) -> None:
    """List incidents that a service has published, oldest first.

    It reads files beside the database, so it never gets in the service's way.
    """
    from anomaly.cli.tables import incident_table
    from anomaly.clock import format_time
    from anomaly.incident_json import incident_json
    from anomaly.jobs.parts import PUBLISHED
    from anomaly.records import Phase
    from anomaly.store.published import manifest, read_incidents

    directory = state / PUBLISHED
    scored = manifest(directory)["scored_through"]
    told = [incident for incident in read_incidents(directory) if incident.phase is not Phase.PENDING]
    found = [incident for incident in told if incident.phase is Phase.FIRING or not open_only]
    shown = [incident_json(incident) for incident in found[-limit:]]
    if output == "json":
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    through = f"scored up to {format_time(scored)}" if scored else "nothing has been scored yet"
    if not shown:
        click.echo(f"no {'open ' if open_only else ''}incidents; {through}")
        return
    click.echo(incident_table(shown, ids=True))
    left = f"; {len(found) - len(shown)} older ones are left out, see --limit" if len(found) > len(shown) else ""
    options.said(f"{through}{left}")
