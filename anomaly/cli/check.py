"""`anomaly check`: is this pipeline file right, and has Prometheus what it asks for?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anomaly.cli import options
from anomaly.cli.progress import progress
from anomaly.clock import Ms, format_time

if TYPE_CHECKING:
    from anomaly.jobs.check import Seen
    from anomaly.jobs.parts import Parts

WIDTH = 110


def _schema(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from anomaly.config.reference import json_schema

        click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        ctx.exit()


@click.command("check")
@options.pipeline
@click.option("--against", is_flag=True, help="Also ask Prometheus what it has of every signal.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_schema,
    help="Print the JSON Schema of pipeline files, for editors, and nothing else.",
)
@options.output
def command(pipeline: Path, against: bool, output: str) -> None:
    """Validate a pipeline file and show it as it is understood, secrets masked.

    With --against it shows instead, for every signal, how many series and nodes Prometheus has and how old the newest
    sample is, and says which signals are not there.
    """
    from anomaly.clock import system_clock
    from anomaly.config.load import load_pipeline
    from anomaly.jobs.parts import assemble

    spec = load_pipeline(pipeline)
    parts = assemble(spec, system_clock)
    options.warn(spec)
    if not against:
        click.echo(_summary_json(parts) if output == "json" else _summary(parts))
        options.said(f"{pipeline} is valid")
        _say_model(parts)
        return
    from anomaly.jobs.check import look

    now = system_clock()
    with progress() as shown:
        seen = look(parts, now, progress=shown)
    if not any(each.there for each in seen):
        raise options.nothing_there(parts)
    click.echo(_listing_json(seen) if output == "json" else _listing(seen, now))


def _say_model(parts: "Parts") -> None:
    from anomaly.jobs import models

    loaded = models.load(models.folder_of(parts.state_dir), parts.catalogue)
    if loaded.trouble:
        options.said(f"warning: no model takes part: {loaded.trouble}")
    elif loaded.model or loaded.lacking:
        options.said(loaded.words)


def _summary(parts: "Parts") -> str:
    import yaml

    text: str = yaml.safe_dump(parts.pipeline.dump_masked(), sort_keys=False, allow_unicode=True, width=100)
    return f"# {len(parts.catalogue.signals)} signals\n{text}".rstrip()


def _summary_json(parts: "Parts") -> str:
    body = {"signals": list(parts.catalogue.signals), "pipeline": parts.pipeline.dump_masked()}
    return json.dumps(body, indent=2, ensure_ascii=False)


def _listing_json(seen: list["Seen"]) -> str:
    body = [
        {
            "signal": each.signal,
            "series": each.series,
            "nodes": each.entities,
            "unidentified": each.unidentified,
            "newest": None if each.newest is None else format_time(each.newest),
            "asked": each.asked,
            "error": each.error or None,
        }
        for each in seen
    ]
    return json.dumps(body, indent=2, ensure_ascii=False)


def _listing(seen: list["Seen"], now: Ms) -> str:
    from anomaly.cli.tables import span, table

    rows = []
    for each in seen:
        if each.error:
            found = ["error", "", "", each.error]
        elif each.newest is None:
            doubt = "" if each.verified else " (name unverified)"
            found = ["none", "", "", f"not there{doubt}: {each.asked}"]
        else:
            strange = f"; {each.unidentified} name no node" if each.unidentified else ""
            found = [str(each.series), str(each.entities), span(now - each.newest), each.asked + strange]
        rows.append([each.signal, *found])
    missing = sum(not each.there for each in seen)
    last = f"{len(seen) - missing} of {len(seen)} signals are there"
    if missing:
        last += "; the others are not judged: switch them on in their exporter or drop their pack"
    return table(["SIGNAL", "SERIES", "NODES", "NEWEST", "ASKED FOR"], rows, width=WIDTH) + f"\n{last}"
