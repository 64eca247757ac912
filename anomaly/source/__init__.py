"""Where samples come from: Prometheus, stored data, a simulated cluster. They share one method."""

from typing import Protocol, runtime_checkable

from anomaly.clock import Ms
from anomaly.records import Pulled, Query


class Source(Protocol):
    """Anything that answers range queries."""

    def pull(self, query: Query) -> Pulled:
        """Every point of `query` that the source has, both bounds included, on the grid of `query.step`.

        An empty answer is an answer (no series). Raises `errors.SourceError` of the kind that says whether
        waiting helps.
        """
        ...


@runtime_checkable
class Explorable(Protocol):
    """A source that can also be asked what it has: a real Prometheus, not a simulated cluster."""

    def instant(self, promql: str, at: Ms | None = None) -> Pulled:
        """The answer at `at` (None: now); raw samples for `metric[5m]`. Raises `errors.SourceError`."""
        ...

    def label_values(self, label: str, match: str | None = None) -> tuple[str, ...]:
        """Every value of `label`, of the series that `match` takes if given. Raises `errors.SourceError`."""
        ...
