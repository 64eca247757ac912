"""Arguments and options that several commands share."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anomaly.clock import DAY, Ms, format_time, parse_time
from anomaly.errors import ConfigError, SourceRejected, UsageError

if TYPE_CHECKING:
    from anomaly.config.pipeline import Pipeline
    from anomaly.jobs.collect import Collected
    from anomaly.jobs.parts import Parts


class Time(click.ParamType[Ms]):
    """RFC 3339, a date, or Unix seconds → milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Ms:
        if isinstance(value, int):
            return value
        try:
            return parse_time(value)
        except (ValueError, OverflowError) as error:
            self.fail(str(error), param, ctx)


PATH = click.Path(readable=False, path_type=Path)
"""Whoever opens it says what is wrong with it."""

LONGEST: Ms = 3660 * DAY

UMASK = "anomaly.umask"
"""Where the context keeps the user's own umask, for files that a person asks for by name."""

pipeline = click.argument("pipeline", type=PATH)
start = click.option("--from", "start", type=Time(), metavar="TIME", help="Begin after this time.")
end = click.option("--to", "end", type=Time(), metavar="TIME", help="End at this time.")
needed_start = click.option(
    "--from", "start", type=Time(), metavar="TIME", required=True, help="Begin here: RFC 3339, a date, or Unix seconds."
)
needed_end = click.option("--to", "end", type=Time(), metavar="TIME", required=True, help="End here.")
output = click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="What standard output carries.",
)
state = click.option(
    "--state",
    type=PATH,
    default=Path("var"),
    show_default=True,
    metavar="DIR",
    help="State directory of a service: where its database lies.",
)


def said(text: str) -> None:
    """One line about what is going on, on standard error."""
    click.echo(f"anomaly: {text}", err=True)


def writable_file(path: Path) -> None:
    """Refuse early what could not be written after a long run."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        why = "is a directory" if path.is_dir() else "cannot be written"
        raise UsageError(f"{path} {why}", "give a file in a directory that exists and that you may write")


def write_file(path: Path, text: str) -> None:
    """Replace a file at once: a reader sees the old or the new one. Who may read it is for the user's umask to say."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    aside.write_text(text, encoding="utf-8")
    share(aside)
    aside.replace(path)


def share(path: Path) -> None:
    """Give a file that a person asked for the mode it would have without us: state is private, this is not state."""
    context = click.get_current_context(silent=True)
    umask = context.meta.get(UMASK) if context else None
    if umask is not None:
        path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)


def text_of(path: Path) -> str:
    """What a file given on the command line holds. Raises ConfigError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text", "give the path of a text file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no such path"
        raise ConfigError(f"{path}: cannot be read: {reason}", "give the path of a readable file") from None


def not_empty(start: Ms | None, end: Ms | None) -> None:
    """Raises UsageError for a range in which nothing can lie, and for one that nobody can mean."""
    if start is not None and end is not None and end <= start:
        raise UsageError(
            f"the range from {format_time(start)} to {format_time(end)} is empty", "give a --to later than --from"
        )
    if start is not None and end is not None and end - start > LONGEST:
        raise UsageError(
            f"the range from {format_time(start)} to {format_time(end)} is longer than ten years",
            "give times in Unix seconds, not milliseconds, or a shorter range",
        )


def warn(pipeline: "Pipeline") -> None:
    """What is allowed in a pipeline file but probably not meant."""
    for problem in pipeline.warnings:
        said(f"warning: {problem}")


def report_collected(found: "Collected") -> None:
    """What a pull could not bring, one line each, on standard error."""
    for signal, why in sorted(found.failed.items()):
        said(f"warning: {signal} could not be pulled: {why}")
    for signal, why in sorted(found.incomplete.items()):
        said(f"warning: {signal} was answered incompletely: {why}; nothing is concluded from what is missing")
    for text in found.warnings[:10]:
        said(f"warning: {text}")
    for signal, count in sorted(found.unidentified.items()):
        said(f"warning: {count} series of {signal} name no node; see nodes.aliases in the pipeline file")


def nothing_there(parts: "Parts", start: Ms | None = None, end: Ms | None = None) -> SourceRejected:
    """The error of a source that answers and holds nothing of what we ask for."""
    source = parts.pipeline.prometheus
    where = source.url if source else "the source"
    when = f" from {format_time(start)} to {format_time(end)}" if start is not None and end is not None else ""
    return SourceRejected(
        f"{where} answers, but holds none of the {len(parts.catalogue.signals)} signals of this pipeline{when}",
        "check the URL, the range and `packs`; `anomaly check PIPELINE --against` lists what is there",
    )
