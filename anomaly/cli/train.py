"""`anomaly train`: a new model from what has been collected."""

from pathlib import Path

import click

from anomaly.cli import options
from anomaly.cli.progress import progress
from anomaly.cli.wishes import who
from anomaly.clock import Ms


@click.command("train")
@options.pipeline
@options.start
@options.end
def command(pipeline: Path, start: Ms | None, end: Ms | None) -> None:
    """Fit the isolation forest on what has been collected, once, and let the next ticks use it.

    Without --from and --to it learns from the last day. It needs six hours and 2,000 node windows; below that it says
    what is missing, and the ticks go on without a model. The service does the same every day at schedule.train; while
    it runs, this command asks it to train now, and what comes of it stands in its log.
    """
    from anomaly.clock import format_duration, system_clock
    from anomaly.config.load import load_pipeline
    from anomaly.errors import StoreLocked, UsageError
    from anomaly.jobs import models
    from anomaly.jobs.inbox import ask_to_train
    from anomaly.jobs.parts import INBOX, assemble, open_pipeline_store
    from anomaly.jobs.train import train

    options.not_empty(start, end)
    parts = assemble(load_pipeline(pipeline), system_clock)
    if not parts.pipeline.store.path.exists():
        raise UsageError("nothing has been collected for this pipeline yet", "run `anomaly collect` on it first")
    folder = models.folder_of(parts.state_dir)
    before = models.load(folder, parts.catalogue)
    if before.trouble:
        options.said(f"warning: the model so far is not used: {before.trouble}")
    try:
        store = open_pipeline_store(parts.pipeline)
    except StoreLocked as locked:
        left = ask_to_train(parts.state_dir / INBOX, start, end, who(), system_clock())
        often = format_duration(parts.pipeline.schedule.collect)
        options.said(
            f"{locked.what}; if that is the service, it trains within {often}, and its log says what came of it"
        )
        options.said(f"until then the note lies in {left}")
        return
    with store, progress() as shown:
        told = train(parts, store, system_clock(), start=start, end=end, progress=shown)
    options.said(told.words)
    if told.folder is not None:
        click.echo(told.folder)
