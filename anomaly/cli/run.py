"""`anomaly run`: the service."""

from pathlib import Path

import click

from anomaly.cli import options


@click.command("run")
@options.pipeline
def command(pipeline: Path) -> int:
    """Run the service: collect, score and deliver on schedule, until it is told to stop.

    It serves /metrics, /-/healthy and /-/ready, writes its log to standard error, and ends within ten seconds of
    SIGTERM or Ctrl-C. A restart takes up where the last run ended.
    """
    from anomaly.clock import system_clock
    from anomaly.config.load import load_pipeline
    from anomaly.jobs.service import run_service
    from anomaly.store.connect import ignore

    spec = load_pipeline(pipeline)
    options.warn(spec)
    return run_service(spec, system_clock, hooks=ignore)
