"""`anomaly score`: the ticks that are due, then what is due to the receivers."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anomaly.cli import options
from anomaly.cli.progress import progress
from anomaly.clock import Ms, format_time
from anomaly.errors import UsageError

if TYPE_CHECKING:
    from anomaly.config.pipeline import Pipeline
    from anomaly.jobs.parts import Parts
    from anomaly.jobs.score import ScoredRun

NOTHING = ("nothing has been collected for this pipeline yet", "run `anomaly collect` on it first")


@click.command("score")
@options.pipeline
@options.start
@options.end
@click.option("--dry-run", is_flag=True, help="Change nothing and send nothing: print what Alertmanager would get.")
def command(pipeline: Path, start: Ms | None, end: Ms | None, dry_run: bool) -> None:
    """Score what has been collected, once, and deliver what follows.

    For cron or Airflow, after `anomaly collect`: it takes up where the last run ended. With --from and --to it runs the
    ticks of that range that have not been run.
    """
    from anomaly.clock import system_clock
    from anomaly.config.load import load_pipeline
    from anomaly.jobs.parts import assemble

    options.not_empty(start, end)
    parts = assemble(load_pipeline(pipeline), system_clock)
    if not parts.pipeline.store.path.exists():
        raise UsageError(*NOTHING)
    if dry_run:
        _try(parts, start, end)
    else:
        _do(parts, start, end)


def _do(parts: "Parts", start: Ms | None, end: Ms | None) -> None:
    from anomaly.clock import system_clock
    from anomaly.errors import DeliveryUnavailable
    from anomaly.jobs.carry import Live
    from anomaly.jobs.deliver import deliver
    from anomaly.jobs.parts import INBOX, open_pipeline_store, targets
    from anomaly.jobs.publish import publish
    from anomaly.jobs.score import score

    sinks = targets(parts.pipeline)
    with open_pipeline_store(parts.pipeline) as store, progress() as shown:
        refs = [target.ref for target in sinks]
        inbox = parts.state_dir / INBOX
        run = score(parts, store, Live(), refs, system_clock(), start=start, end=end, inbox=inbox, progress=shown)
        publish(store, parts.pipeline, system_clock())
        reports = deliver(store, sinks, system_clock())
    _say(run)
    for report in reports:
        for _, why in report.rejected:
            options.said(f"warning: {report.sink} refused an alert for good: {why}")
    failed = [f"{report.sink}: {report.error}" for report in reports if report.error]
    if failed:
        raise DeliveryUnavailable(
            f"not everything was delivered: {'; '.join(failed)}",
            "nothing is lost, the next run sends it; check that the receiver runs and its URL is right",
        )


def _try(parts: "Parts", start: Ms | None, end: Ms | None) -> None:
    """On a copy of the database, so that the real run finds everything as it was."""
    from anomaly.clock import system_clock
    from anomaly.deliver.entries import dry_run
    from anomaly.jobs.carry import Live
    from anomaly.jobs.score import score
    from anomaly.store.store import open_store

    now = system_clock()
    with tempfile.TemporaryDirectory(prefix="anomaly-dry-run-") as folder:
        copy = Path(folder) / "copy.duckdb"
        _copy(parts.pipeline, copy)
        with open_store(copy) as store, progress() as shown:
            run = score(parts, store, Live(), (), now, start=start, end=end, progress=shown)
    _say(run)
    click.echo(dry_run(run.changes, now=now))


def _copy(pipeline: "Pipeline", copy: Path) -> None:
    from anomaly.jobs.parts import open_pipeline_store

    open_pipeline_store(pipeline).close()  # says who has it open, and leaves no write-ahead log behind
    shutil.copyfile(pipeline.store.path, copy)


def _say(run: "ScoredRun") -> None:
    if run.through is None:
        raise UsageError(*NOTHING)
    if run.model.trouble:
        options.said(f"warning: no model takes part: {run.model.trouble}")
    changes = len(run.changes) + len(run.history)
    for mark in run.taken.marks:
        done = "closed" if mark.kind == "close" else f"labelled {mark.label}"
        options.said(f"from the inbox: {mark.incident_id} {done}")
    options.said(f"{run.ticks} ticks up to {format_time(run.through)}, {changes} changes of incidents")
