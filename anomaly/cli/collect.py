"""`anomaly collect`: one pull of everything that is new."""

from pathlib import Path

import click

from anomaly.cli import options
from anomaly.cli.progress import progress
from anomaly.clock import Ms, format_time


@click.command("collect")
@options.pipeline
@options.start
@options.end
def command(pipeline: Path, start: Ms | None, end: Ms | None) -> None:
    """Pull what is new from Prometheus into the store, once.

    For cron or Airflow, where no service runs: it takes up where the last run ended. With --from and --to it pulls
    exactly that range, again if need be; the same samples are never stored twice.
    """
    from anomaly.clock import system_clock
    from anomaly.config.load import load_pipeline
    from anomaly.jobs.collect import collect
    from anomaly.jobs.parts import assemble, open_pipeline_store

    options.not_empty(start, end)
    parts = assemble(load_pipeline(pipeline), system_clock)
    with open_pipeline_store(parts.pipeline) as store, progress() as shown:
        found = collect(parts, store, system_clock(), start=start, end=end, progress=shown)
        if not found.inserted and not store.series():
            raise options.nothing_there(parts)
    options.report_collected(found)
    options.said(f"collected {found.inserted:,} samples up to {format_time(found.through)}")
