"""`anomaly backtest`: what this pipeline would have said about a stretch of the past."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anomaly.cli import options
from anomaly.cli.progress import progress
from anomaly.clock import Ms, format_time

if TYPE_CHECKING:
    from anomaly.backtest import Backtest
    from anomaly.truth import Report


@click.command("backtest")
@options.pipeline
@options.needed_start
@options.needed_end
@click.option("--incidents", type=options.PATH, metavar="FILE", help="Write incidents there as JSON lines.")
@click.option("--truth", type=options.PATH, metavar="FILE", help="Compare with the faults in this JSON file.")
@click.option(
    "--source",
    type=click.Choice(["pipeline", "store"]),
    default="pipeline",
    show_default=True,
    help="Samples from the pipeline's source, or from what its service has published.",
)
@options.output
def command(
    pipeline: Path, start: Ms, end: Ms, incidents: Path | None, truth: Path | None, source: str, output: str
) -> None:
    """Replay a stretch of the past through the production code and show what it would have said.

    Everything is pulled into a scratch store that is gone afterwards; nothing is sent and the service's own store is
    left alone. With `--source store` the samples are those that the service has published, hour by hour, and no
    Prometheus is asked. It exits with 0 whatever it finds: judging that is your part.
    """
    from anomaly.backtest import backtest
    from anomaly.clock import system_clock
    from anomaly.config.load import load_pipeline
    from anomaly.jobs.parts import assemble
    from anomaly.jobs.stored import StoredSource
    from anomaly.truth import judge, read_truth

    options.not_empty(start, end)
    if incidents:
        options.writable_file(incidents)
    facts = read_truth(options.text_of(truth), str(truth)) if truth else None
    parts = assemble(load_pipeline(pipeline), system_clock)
    if source == "store":
        parts = replace(parts, source=StoredSource(parts.state_dir))
    with progress() as shown:
        run = backtest(parts, start, end, progress=shown)
    options.report_collected(run.collected)
    if not run.nodes and not run.collected.inserted:
        raise options.nothing_there(parts, run.start, run.end)
    if incidents:
        lines = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in run.lines)
        options.write_file(incidents, "".join(f"{line}\n" for line in lines))
    report = judge(facts, run.lines, start=run.start, end=run.end, nodes=run.nodes) if facts else None
    click.echo(
        json.dumps(_as_json(run, report), indent=2, ensure_ascii=False) if output == "json" else _text(run, report)
    )


def _as_json(run: "Backtest", report: "Report | None") -> dict[str, Any]:
    from anomaly.cli.tables import latest

    out: dict[str, Any] = {
        "start": format_time(run.start),
        "end": format_time(run.end),
        "nodes": run.nodes,
        "ticks": run.ticks,
        "incidents": latest(run.lines),
    }
    return out | ({"truth": report.to_json()} if report else {})


def _text(run: "Backtest", report: "Report | None") -> str:
    from anomaly.cli.comparison import comparison
    from anomaly.cli.tables import incident_table, latest

    found = latest(run.lines)
    nodes = "1 node" if run.nodes == 1 else f"{run.nodes} nodes"
    count = {0: "no incidents", 1: "1 incident"}.get(len(found), f"{len(found)} incidents")
    parts = [f"{nodes} from {format_time(run.start)} to {format_time(run.end)}: {count}"]
    if found:
        parts.append(incident_table(found))
    if report:
        parts.append(comparison(report))
    return "\n\n".join(parts)
