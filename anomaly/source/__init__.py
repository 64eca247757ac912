"""Where samples come from: Prometheus, stored data, a simulated cluster. They share one method."""

from typing import Protocol

from anomaly.records import Pulled, Query


class Source(Protocol):
    """Anything that answers range queries."""

    def pull(self, query: Query) -> Pulled:
        """Every point of `query` that the source has, both bounds included, on the grid of `query.step`.

        An empty answer is an answer (no series). Raises `errors.SourceError` of the kind that says whether
        waiting helps.
        """
        ...
