"""The service's log: one line an event on standard error, logfmt or JSON, UTC; event names are constant."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from anomaly.config.sections import Log

Logger = Any
"""A structlog logger: `debug`, `info`, `warning`, `error`, each with an event name and key-value pairs."""


def make_logger(settings: Log, stream: TextIO | None = None) -> Logger:
    """A logger of our own: nothing global is configured. Safe to use from several threads."""
    import structlog

    json_lines = settings.format == "json"
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.ExceptionRenderer(),
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if json_lines
        else structlog.processors.LogfmtRenderer(key_order=["ts", "level", "event"], drop_missing=True),
    ]
    return structlog.wrap_logger(
        structlog.WriteLogger(stream or sys.stderr),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(settings.level),
        cache_logger_on_first_use=True,
    )


_UNHEARD = ("apscheduler", "urllib3")
"""The scheduler's events are listened to. urllib3 names the whole address at every new try, and a webhook's address is
a secret; what fails for good is said by us, once."""


class _Forwarded(logging.Handler):
    """What libraries say at warning or above, as a line of ours, except `_UNHEARD`."""

    def __init__(self, log: Logger) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(_UNHEARD):
            self._log.warning("library_said", logger=record.name, text=record.getMessage())


@contextmanager
def libraries_forwarded(log: Logger) -> Iterator[None]:
    """Meanwhile, what libraries log goes the same way as our own lines."""
    handler = _Forwarded(log)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class Standing:
    """Conditions that last: said once when they begin, and once when they are over. Details may change meanwhile."""

    def __init__(self, log: Logger, began: str, over: str, key: str, **always: Any) -> None:
        self._log, self._began, self._over, self._key, self._always = log, began, over, key, always
        self._now: frozenset[str] = frozenset()

    def are(self, found: Mapping[str, str], **more: Any) -> None:
        """All that holds now: name → detail. An empty detail is left out."""
        for name, detail in found.items():
            if name not in self._now:
                words = {"error": detail} if detail else {}
                self._log.warning(self._began, **{self._key: name}, **self._always, **words, **more)
        for name in sorted(self._now - found.keys()):
            self._log.info(self._over, **{self._key: name}, **self._always)
        self._now = frozenset(found)
