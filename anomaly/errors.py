"""The one error tree.

Every error that reaches a user says what failed, where, and what to do next, and knows whether trying
again can help. Foreign errors (requests, DuckDB, PyYAML) are translated where they enter, never above.
"""

from dataclasses import dataclass


class AnomalyError(Exception):
    """Something a user can act on. `next_step` is an imperative sentence; `retryable` says whether waiting helps."""

    exit_code = 1
    retryable = False

    def __init__(self, what: str, next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.what}; {self.next_step}" if self.next_step else self.what


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a file: where it stands and what would be right."""

    file: str
    line: int
    key: str
    what: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key}: {self.what}" if self.key else f"{where}: {self.what}"


class ConfigError(AnomalyError):
    """The pipeline file, a topology file or a pack is wrong. Carries every problem found, not the first."""

    exit_code = 3

    def __init__(self, what: str, next_step: str = "", problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(what, next_step)
        self.problems = problems

    def __str__(self) -> str:
        if not self.problems:
            return super().__str__()
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        return f"{self.what}\n{lines}" + (f"\n{self.next_step}" if self.next_step else "")


class UsageError(AnomalyError):
    """The command line asks for something that cannot be (an empty time range, an unknown incident)."""

    exit_code = 2


class SourceError(AnomalyError):
    """The metrics source could not answer. The base of everything Prometheus can do to us."""

    exit_code = 4


class SourceUnavailable(SourceError):
    """No answer, or an answer that says "later" (connection refused, time-out, 429, 5xx)."""

    retryable = True


class SourceRejected(SourceError):
    """A definite no (400, 401, 403, 404): the same request will fail again."""


class SourceGarbled(SourceError):
    """An answer that is not Prometheus' (HTML, truncated JSON, another schema)."""

    retryable = True


class QueryTooLarge(SourceError):
    """422: the query touches too many samples; halving the range may help, and the pull does that itself."""


class StoreError(AnomalyError):
    """The database file cannot be used."""


class StoreLocked(StoreError):
    """Another process has the file open; the message names it."""

    retryable = True


class DeliveryError(AnomalyError):
    """A sink did not take what was sent."""

    exit_code = 4


class DeliveryUnavailable(DeliveryError):
    """The sink may take it later (connection refused, time-out, 429, 5xx)."""

    retryable = True


class DeliveryRejected(DeliveryError):
    """The sink refuses this payload for good (4xx)."""
