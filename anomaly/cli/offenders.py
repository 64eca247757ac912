"""`anomaly offenders`: which nodes come back."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anomaly.cli import options
from anomaly.cli.lookup import Told, told
from anomaly.clock import DAY, Ms, format_time

if TYPE_CHECKING:
    from anomaly.records import Incident


@dataclass(slots=True)
class Record:
    """What one node has been through in the period."""

    node: str
    culprit: list["Incident"] = field(default_factory=list)
    """Incidents about it that asked for somebody and that nobody has labelled false."""
    member: int = 0
    victim: int = 0
    false: int = 0

    def order(self) -> tuple[int, int, int, str]:
        pages = sum(incident.severity.rank == 2 for incident in self.culprit)
        return (-len(self.culprit), -pages, -self.member, self.node)


@click.command("offenders")
@click.option("--days", type=click.IntRange(min=1), default=28, show_default=True, help="How far to look back.")
@click.option("--limit", type=click.IntRange(min=1), default=30, show_default=True, help="The worst so many.")
@options.state
@options.output
def command(days: int, limit: int, state: Path, output: str) -> None:
    """List the nodes that come back, worst first: incidents as culprit, as member of a group, as mere victim.

    Notes count for nobody, and neither does what was labelled false (see `anomaly mark`).
    """
    known = told(state)
    through = known.through or 0
    start = through - days * DAY
    records = sorted(_records(known, start).values(), key=Record.order)
    shown = [record for record in records if record.culprit or record.member][:limit]
    if output == "json":
        click.echo(json.dumps([_as_json(record) for record in shown], indent=2, ensure_ascii=False))
        return
    if not shown:
        click.echo(f"no node had an incident in the {days} days up to {format_time(through)}")
        return
    click.echo(_table(shown))
    options.said(f"{len(shown)} of {len(known.nodes())} nodes, incidents of {days} days up to {format_time(through)}")


def _records(known: Told, start: Ms) -> dict[str, Record]:
    from anomaly.records import Severity

    labels = known.labels()
    records: dict[str, Record] = {}

    def of(node: str) -> Record:
        return records.setdefault(node, Record(node))

    for incident in known.incidents:
        if incident.onset < start or incident.severity is Severity.INFO:
            continue
        if incident.scope == "node" and labels.get(incident.id) == "false":
            of(incident.entity.name).false += 1
        elif incident.scope == "node":
            of(incident.entity.name).culprit.append(incident)
        else:
            for node in incident.nodes:
                of(node).member += 1
        for node in incident.victims:
            of(node).victim += 1
    return records


def _causes(record: Record) -> dict[str, int]:
    counts: dict[str, int] = {}
    for incident in record.culprit:
        counts[incident.cause] = counts.get(incident.cause, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _table(records: list[Record]) -> str:
    from anomaly.cli.tables import minute, table

    rows = []
    for record in records:
        causes = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in _causes(record).items())
        pages = sum(incident.severity.rank == 2 for incident in record.culprit)
        still = sum(incident.resolved_at is None for incident in record.culprit)
        last = max((incident.onset for incident in record.culprit), default=None)
        rows.append(
            [
                record.node,
                str(len(record.culprit)),
                str(pages),
                str(still or "-"),
                str(record.member or "-"),
                str(record.victim or "-"),
                str(record.false or "-"),
                "" if last is None else minute(last)[5:],
                causes,
            ]
        )
    return table(["NODE", "CULPRIT", "PAGES", "OPEN", "MEMBER", "VICTIM", "FALSE", "LAST (UTC)", "CAUSES"], rows)


def _as_json(record: Record) -> dict[str, Any]:
    last = max((incident.onset for incident in record.culprit), default=None)
    still = sum(incident.resolved_at is None for incident in record.culprit)
    return {
        "node": record.node,
        "incidents": len(record.culprit),
        "pages": sum(incident.severity.rank == 2 for incident in record.culprit),
        "open": still,
        "recovered": len(record.culprit) - still,
        "member": record.member,
        "victim": record.victim,
        "labelled_false": record.false,
        "causes": _causes(record),
        "last_onset": None if last is None else format_time(last),
        "ids": [incident.id for incident in record.culprit],
    }
