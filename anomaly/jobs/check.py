"""Check: what the source really has of each signal of a pipeline."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anomaly.clock import MINUTE, Ms, align_down
from anomaly.errors import SourceError
from anomaly.jobs.collect import NAMES, quiet
from anomaly.jobs.parts import Parts
from anomaly.records import Pulled, Query
from anomaly.signals.identity import Aliases, aliases_from, identify
from anomaly.signals.model import Signal

LOOK_BACK: Ms = 10 * MINUTE
"""How far back a signal is looked for: two of Prometheus' look-backs."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the source has of one signal within `LOOK_BACK`."""

    signal: str
    series: int = 0
    entities: int = 0
    unidentified: int = 0
    """Series whose labels name no entity."""
    newest: Ms | None = None
    asked: str = ""
    """What was asked for: metric names, or PromQL."""
    error: str = ""
    verified: str = ""
    """What the names asked for were seen in before (`Signal.verified`); empty: in nothing."""

    @property
    def there(self) -> bool:
        return self.newest is not None


def look(parts: Parts, now: Ms, *, progress: Callable[[str, float], None] = quiet) -> list[Seen]:
    """Ask the source for the newest samples of every signal, in the order of the catalogue.

    A signal that cannot be asked for says why; when none can, the first error is raised.
    """
    signals = list(parts.catalogue.signals.values())
    first = [signal for signal in signals if signal.name == NAMES]
    configured = parts.pipeline.nodes.aliases
    aliases = aliases_from((), configured)
    found: dict[str, Seen] = {}
    errors: list[SourceError] = []
    for signal in (*first, *(signal for signal in signals if signal.name != NAMES)):
        try:
            pulled = parts.source.pull(_query(parts, signal, now))
        except SourceError as error:
            errors.append(error)
            found[signal.name] = Seen(signal.name, asked=_asked(signal), error=error.what)
        else:
            if signal.name == NAMES:
                aliases = aliases_from(pulled.labels, configured)
            found[signal.name] = _seen(signal, pulled, aliases)
        if errors and len(found) == len(errors) and errors[0].retryable:
            raise errors[0]  # not even the first one: the others would only wait for the same
        progress("check", len(found) / len(signals))
    if errors and len(errors) == len(signals):
        raise errors[0]
    return [found[signal.name] for signal in signals]


def _query(parts: Parts, signal: Signal, now: Ms) -> Query:
    step = parts.pipeline.step
    native = signal.native(step)
    source = parts.pipeline.prometheus
    end = align_down(now - (source.query_offset if source else 0), native)
    back = max(native, align_down(parts.pipeline.scale(LOOK_BACK), native))
    return Query(signal.name, signal.promql(step), end - back, end, native)


def _seen(signal: Signal, pulled: Pulled, aliases: Aliases) -> Seen:
    known = [identify(signal, labels, aliases) for labels in pulled.labels]
    names = {found[0] for found in known if found is not None}
    real = pulled.ts[~np.isnan(pulled.values)]
    return Seen(
        signal.name,
        len(known),
        len(names),
        known.count(None),
        int(real.max()) if len(real) else None,
        _asked(signal),
        verified=signal.verified,
    )


def _asked(signal: Signal) -> str:
    if signal.query is not None:
        return " ".join(signal.query.split())
    more = len(signal.metrics) - 1
    return signal.metrics[0] + (f" or {more} other name{'s' * (more > 1)}" if more else "")
