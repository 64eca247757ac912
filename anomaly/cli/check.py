"""`anomaly check`: is this pipeline file right, and has Prometheus what it asks for?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anomaly.cli import options
from anomaly.cli.progress import progress
from anomaly.clock import Ms

if TYPE_CHECKING:
    from anomaly.jobs.parts import Parts


def _schema(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from anomaly.config.reference import json_schema

        click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        ctx.exit()


@click.command("check")
@options.pipeline
@click.option("--against", is_flag=True, help="Also ask Prometheus what it has of every signal.")
@click.option("--at", "at", type=options.Time(), metavar="TIME", help="With --against: as of then, not now.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_schema,
    help="Print the JSON Schema of pipeline files, for editors, and nothing else.",
)
@options.output
def command(pipeline: Path, against: bool, at: Ms | None, output: str) -> None:
    """Validate a pipeline file and show it as it is understood, secrets masked.

    With --against it shows instead what Prometheus really has of every signal: the metric that answers, its series and
    entities (nodes, jobs …), how often a value comes, how old the newest is, and the share that is there of what
    should be. Then the blind spots with what to switch on, a query for training metrics under other names, and
    whether storage can feed the GPUs.
    """
    from anomaly.clock import system_clock
    from anomaly.config.load import load_pipeline
    from anomaly.jobs.parts import assemble

    if at is not None and not against:
        raise click.UsageError("--at goes with --against")
    spec = load_pipeline(pipeline)
    parts = assemble(spec, system_clock)
    options.warn(spec)
    if not against:
        click.echo(_summary_json(parts) if output == "json" else _summary(parts))
        options.said(f"{pipeline} is valid")
        _say_model(parts)
        return
    from anomaly.jobs.check import look

    now = system_clock() if at is None else at
    with progress() as shown:
        seen = look(parts, now, progress=shown)
    if not any(each.there for each in seen):
        raise options.nothing_there(parts)
    from anomaly.cli.check_words import advice, listing, listing_json

    paragraphs = list(advice(parts, seen, now))
    if output == "json":
        click.echo(listing_json(seen, paragraphs))
        return
    click.echo(listing(seen, now))
    for paragraph in paragraphs:
        click.echo(paragraph)


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
