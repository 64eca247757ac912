"""The one place where an error becomes a paragraph on standard error and an exit code."""

import errno
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from anomaly.errors import AnomalyError

INTERRUPTED = 130
"""As shells report an end by Ctrl-C."""


def exit_code_of(call: Callable[[], Any], debug: Callable[[], bool]) -> int:
    """Run `call` and answer with its exit code; whatever it raises is said in one paragraph, never as a traceback.

    An integer that `call` returns is its exit code. `debug` is asked after a failure, for the traceback.
    """
    try:
        result = call()
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return _pipe_closed()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except Exception as error:  # noqa: BLE001 - the last resort of the program
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            return _pipe_closed()
        if debug():
            import traceback

            traceback.print_exception(error)
        text, code = explain(error)
        click.echo(f"anomaly: {text}", err=True)
        return code
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def explain(error: Exception) -> tuple[str, int]:
    """What failed and what to do next, in words, and the exit code."""
    if isinstance(error, AnomalyError):
        return str(error), error.exit_code
    if isinstance(error, click.UsageError):
        return _usage(error), 2
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        step = "make room" if full else "see who may read and write there, or give another path"
        return f"{where}{error.strerror.lower()}; {step}, then try again", 1
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; ask for a shorter range or fewer packs", 1
    what = " ".join(str(error).split())[:300]
    kind = type(error).__name__ + (f" ({what})" if what else "")
    return (
        f"{kind}: this is a bug, not your mistake; run it again with ANOMALY_DEBUG=1 and report what it prints",
        1,
    )


def _usage(error: click.UsageError) -> str:
    """click's sentence in our form; where it has no next step of its own, the help page is one."""
    said = error.format_message().rstrip(".").replace(". Did you mean", "; did you mean")
    said = f"{said[:1].lower()}{said[1:]}"
    command = error.ctx.command_path if error.ctx else "anomaly"
    return said if "; " in said else f"{said}; `{command} --help` tells more"


def _pipe_closed() -> int:
    """Whoever read our output has had enough (`| head`): that is no failure, and nothing is to be said."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    return 0
