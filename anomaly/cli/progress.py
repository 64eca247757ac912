"""Progress on standard error: a bar on a terminal, a plain line now and then elsewhere; nothing within a second."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

PATIENCE_SECONDS = 1.0
EVERY_SECONDS = 10.0
"""Between two lines where there is no terminal."""


class _Shown:
    def __init__(self, seconds: Callable[[], float], terminal: bool) -> None:
        self._seconds = seconds
        self._terminal = terminal
        self._began = seconds()
        self._spoke = 0.0
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}

    def __call__(self, what: str, share: float) -> None:
        now = self._seconds()
        if now - self._began < PATIENCE_SECONDS:
            return
        if self._terminal:
            self._draw(what, share)
        elif share >= 1 or not self._spoke or now - self._spoke >= EVERY_SECONDS:
            self._spoke = now
            click.echo(f"anomaly: {what} {share:.0%} after {now - self._began:.0f}s", err=True)

    def _draw(self, what: str, share: float) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description:<8}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=1.0)
        self._bar.update(self._tasks[what], completed=share)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress(seconds: Callable[[], float] = time.monotonic) -> Iterator[Callable[[str, float], None]]:
    """What to call with (what is going on, how much of it is done) meanwhile."""
    shown = _Shown(seconds, sys.stderr.isatty() and os.environ.get("TERM") != "dumb")
    try:
        yield shown
    finally:
        shown.close()
