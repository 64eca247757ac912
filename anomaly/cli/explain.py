"""`anomaly explain`: one incident in words."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anomaly.cli import options
from anomaly.cli.lookup import Told, by_id_or_name, paragraphs, told, waiting, wrapped
from anomaly.clock import Ms, format_time

if TYPE_CHECKING:
    from anomaly.records import Incident

Line = tuple[Ms, dict[str, Any]]


@click.command("explain")
@click.argument("incident", metavar="ID|NODE")
@options.state
@options.output
def command(incident: str, state: Path, output: str) -> None:
    """Tell one incident: who, since when, why, who else suffers, and what to do next.

    ID may be shortened as long as it is unique. With the name of a node, a group or a job: the newest incident about
    it, an open one first. It reads published files and gets in nobody's way.
    """
    known = told(state)
    found = by_id_or_name(known, incident)
    lines = known.events(found.id)
    marks = known.marks(found.id)
    if output == "json":
        click.echo(json.dumps(_as_json(known, found, lines, marks), indent=2, ensure_ascii=False))
        return
    click.echo(_text(known, found, lines, marks))
    others = sum(each.entity == found.entity for each in known.incidents) - 1
    if others and not found.id.startswith(incident.lower()):
        options.said(f"{others} more about {found.entity.name}; `anomaly incidents --state {state}` lists them")


def _text(known: Told, incident: "Incident", lines: list[Line], marks: list[dict[str, Any]]) -> str:
    from anomaly.cli.tables import WIDTH

    return paragraphs(
        [
            click.style(wrapped(incident.summary, width=WIDTH), bold=True),
            _facts(incident, lines),
            _evidence(incident),
            _life(known, incident, lines, marks),
            _next(incident),
        ]
    )


def _facts(incident: "Incident", lines: list[Line]) -> str:
    from anomaly.causes import family
    from anomaly.cli.tables import LEVELS, span
    from anomaly.deliver import narrate

    state = narrate.ending(incident) or "still open"
    if incident.resolved_at is not None:
        state += f" {format_time(incident.resolved_at)}, after {span(incident.resolved_at - incident.onset)}"
    told_at = f"{format_time(incident.fired_at)}, {span(incident.fired_at - incident.onset)} after it began"
    refined = f", first told as {incident.frozen_cause}" if incident.frozen_cause != incident.cause else ""
    coverage = "unknown" if incident.coverage is None else f"{incident.coverage:.0%} of what its nodes should report"
    facts = {
        "incident": f"{incident.id}, {state}",
        "where": f"{incident.entity.kind} {incident.entity.name}" + _members(incident),
        "cause": f"{incident.cause}: {family(incident.cause).title}{refined}",
        "since": narrate.onset_line(incident.onset, incident.uncertainty),
        "told": told_at,
        "level": f"{LEVELS[incident.severity]}: {severity_reason(incident, lines)}",
        "suffers": _suffering(incident),
        "seen": coverage,
    }
    return "\n".join(wrapped(value, indent=" " * 10, first=f"{name:<10}") for name, value in facts.items() if value)


def _members(incident: "Incident") -> str:
    from anomaly.deliver import narrate

    if incident.scope == "node" or not incident.nodes:
        return ""
    return f", {len(incident.nodes)} nodes: {narrate.names(incident.nodes)}"


def _suffering(incident: "Incident") -> str:
    from anomaly.deliver import narrate

    jobs = narrate.names(incident.jobs, 5)
    if incident.impact_ratio is None:
        return f"unknown; it works for {jobs}" if jobs else "no job is known to"
    out = f"{jobs or 'its job'}, {incident.impact_ratio:.0%} slower"
    if incident.victims:
        out += f"; {len(incident.victims)} nodes only wait for it: {narrate.names(incident.victims)}"
    return out


def severity_reason(incident: "Incident", lines: list[Line]) -> str:
    """Why it is as loud as it is: the larger of what the cause and what the measured impact ask for."""
    from anomaly.causes import default_severity, family
    from anomaly.cli.tables import LEVELS
    from anomaly.denoise.tier import PAGE_RATIO, TICKET_RATIO
    from anomaly.records import Severity

    ratio, level = incident.impact_ratio, incident.severity
    own = default_severity(incident.cause)
    if level is Severity.CRITICAL and ratio is not None and ratio >= PAGE_RATIO and own is not Severity.CRITICAL:
        reason = f"a job loses {ratio:.0%}, and from {PAGE_RATIO:.0%} on it is a page"
    elif level is Severity.WARNING and ratio is not None and ratio >= TICKET_RATIO:
        reason = f"a job loses {ratio:.0%}, and from {TICKET_RATIO:.0%} on it is a ticket"
    elif level is own:
        reason = f"what {incident.cause} ({family(incident.cause).title}) is by itself"
        reason += "" if ratio is not None else "; what it costs a job is not known"
    elif level.rank > own.rank:
        reason = "it rests on hard facts, or was that loud once (it only rises)"
    else:
        reason = "nothing but signals that only inform speaks for it, and no job is known to suffer"
    levels = list(dict.fromkeys(LEVELS[line["severity"]] for _, line in lines))
    return reason + (f"; it began as a {levels[0]}" if len(levels) > 1 else "")


def _evidence(incident: "Incident") -> str:
    from anomaly.cli.tables import minute, table
    from anomaly.deliver.narrate import number

    rows = [
        [
            item.signal,
            item.device,
            number(item.observed, item.unit),
            "" if item.expected is None else number(item.expected, item.unit),
            item.detector,
            f"{item.score:.3g}",
            minute(item.onset)[5:] if item.onset else "",
        ]
        for item in incident.evidence
    ]
    headers = ["EVIDENCE", "DEVICE", "OBSERVED", "EXPECTED", "DETECTOR", "SCORE", "ONSET (UTC)"]
    return table(headers, rows, give=0) if rows else ""


def _life(known: Told, incident: "Incident", lines: list[Line], marks: list[dict[str, Any]]) -> str:
    from anomaly.cli.tables import LEVELS

    told_of: list[tuple[Ms, str]] = []
    before: dict[str, Any] | None = None
    for at, line in lines:
        told_of.append((at, _change(before, line, LEVELS)))
        before = line
    out = [f"{format_time(at)}  {what}" for at, what in told_of]
    for mark in marks:
        what = "asked to close it" if mark["kind"] == "close" else f"labelled it {mark['label']}"
        note = f": {mark['note']}" if mark["note"] else ""
        out.append(f"{format_time(mark['said_at'])}  {mark['who'] or 'somebody'} {what}{note} (their clock)")
    out += [f"in the inbox, for the next tick: {kind}" for kind in waiting(known, incident.id)]
    return "\n".join(wrapped(line, indent=" " * 22, first="") for line in out)


def _change(before: dict[str, Any] | None, line: dict[str, Any], levels: dict[str, str]) -> str:
    """What a line says that the one before it did not."""
    if line["phase"] != "firing":
        by = f", absorbed by {line['absorbed_by']}" if line["absorbed_by"] else ""
        return {"lost_sight": "lost sight of it", "closed": "closed by a person"}.get(line["phase"], "resolved") + by
    if before is None or before["phase"] != "firing":
        return f"{levels[line['severity']]}: {line['cause']}, by {', '.join(line['signals'])}"
    news = []
    if line["severity"] != before["severity"]:
        news.append(f"now a {levels[line['severity']]}")
    if line["cause"] != before["cause"]:
        news.append(f"now {line['cause']}")
    if more := sorted(set(line["signals"]) - set(before["signals"])):
        news.append(f"also {', '.join(more)}")
    if line["impact_known"] and not before["impact_known"]:
        news.append(f"a job is {line['impact_ratio']:.0%} slower")
    return "; ".join(news) or "goes on"


def _next(incident: "Incident") -> str:
    steps, _, _ = incident.advice.partition(" Run ")
    after = incident.advice.rpartition("`. ")[2] if "`. " in incident.advice else ""
    lines = [wrapped(f"Next: {steps}"), *(f"  $ {each}" for each in commands_of(incident))]
    return "\n".join([*lines, wrapped(after)] if after else lines)


def commands_of(incident: "Incident") -> tuple[str, ...]:
    """The commands to run on the node (or on a member), devices filled in."""
    from anomaly.causes import commands

    return commands(incident.cause, [item.device for item in incident.evidence if item.device])


def _as_json(known: Told, incident: "Incident", lines: list[Line], marks: list[dict[str, Any]]) -> dict[str, Any]:
    from anomaly.incident_json import incident_json

    labels = [mark["label"] for mark in marks if mark["kind"] == "label"]
    return {
        "incident": incident_json(incident),
        "severity_reason": severity_reason(incident, lines),
        "commands": list(commands_of(incident)),
        "events": [line for _, line in lines],
        "label": labels[-1] if labels else None,
        "said": [{**mark, "said_at": format_time(mark["said_at"])} for mark in marks],
        "waiting": waiting(known, incident.id),
    }
