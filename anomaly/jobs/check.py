"""Check: what the source really has of each signal of a pipeline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from anomaly.clock import MINUTE, Ms, align_down
from anomaly.errors import SourceError
from anomaly.jobs.collect import NAMES, quiet
from anomaly.jobs.parts import Parts
from anomaly.records import Entity, Ints, Labels, Pulled, Query
from anomaly.signals.identity import Aliases, aliases_from, identify
from anomaly.signals.model import Signal
from anomaly.signals.promql import metrics_in
from anomaly.source import Explorable

LOOK_BACK: Ms = 10 * MINUTE
"""How far back a signal is looked for: two of Prometheus' look-backs."""

LEAST_SAMPLES = 8
"""Raw samples wanted to say how often one comes."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the source has of one signal within `LOOK_BACK`."""

    signal: str
    layer: str = ""
    metric: str = ""
    """The names that answered, or that its query reads; empty where nothing did."""
    series: int = 0
    entities: int = 0
    unidentified: int = 0
    """Series whose labels name no entity."""
    every: Ms | None = None
    """How often a new value comes, measured on one series: the scrape interval, or what the exporter refreshes by."""
    newest: Ms | None = None
    share: float | None = None
    """What of that is there that should be: GPUs that any signal of them knows, entities that any of its layer knows;
    of `up`, the targets that answer."""
    without: tuple[str, ...] = ()
    """Entities that should have it and lack all or some of it; of `up`, those with a target that does not answer."""
    asked: str = ""
    """What was asked for: metric names, or PromQL."""
    error: str = ""
    verified: str = ""
    """What the names asked for were seen in before (`Signal.verified`); empty: in nothing."""
    enable: str = ""
    """What to switch on where it is missing."""
    labels: tuple[Labels, ...] = field(default=(), repr=False)

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
    rows: dict[str, frozenset[tuple[Entity, str]]] = {}
    errors: list[SourceError] = []
    for signal in (*first, *(signal for signal in signals if signal.name != NAMES)):
        query = _query(parts, signal, now)
        try:
            pulled = parts.source.pull(query)
            if signal.name == NAMES:
                aliases = aliases_from(pulled.labels, configured)
            seen = _seen(signal, pulled, aliases)
            if seen.there:
                seen = _measured(parts, signal, query, pulled, seen)
        except SourceError as error:
            errors.append(error)
            found[signal.name] = replace(_nothing(signal), error=error.what)
        else:
            found[signal.name] = seen
            rows[signal.name] = _rows(signal, pulled, aliases)
        if errors and len(found) == len(errors) and errors[0].retryable:
            raise errors[0]  # not even the first one: the others would only wait for the same
        progress("check", len(found) / len(signals))
    if errors and len(errors) == len(signals):
        raise errors[0]
    due = _due(signals, rows)
    return [_shared(found[signal.name], rows.get(signal.name, frozenset()), due[_kin(signal)]) for signal in signals]


def _query(parts: Parts, signal: Signal, now: Ms) -> Query:
    step = parts.pipeline.step
    native = signal.native(step)
    source = parts.pipeline.prometheus
    end = align_down(now - (source.query_offset if source else 0), native)
    back = max(native, align_down(parts.pipeline.scale(LOOK_BACK), native))
    return Query(signal.name, signal.promql(step), end - back, end, native)


def _nothing(signal: Signal) -> Seen:
    return Seen(
        signal.name,
        signal.layer,
        asked=_asked(signal),
        verified=signal.verified,
        enable=" ".join(signal.enable.split()),
    )


def _seen(signal: Signal, pulled: Pulled, aliases: Aliases) -> Seen:
    known = [identify(signal, labels, aliases) for labels in pulled.labels]
    real = pulled.ts[~np.isnan(pulled.values)]
    seen = replace(
        _nothing(signal),
        series=len(known),
        entities=len({found[0] for found in known if found is not None}),
        unidentified=known.count(None),
        newest=int(real.max()) if len(real) else None,
        labels=pulled.labels,
    )
    if signal.name != "up" or not len(pulled.labels):
        return seen
    answers = pulled.values[np.cumsum(pulled.lengths) - 1] == 1
    down = {found[0].name for found, well in zip(known, answers.tolist(), strict=True) if found and not well}
    return replace(seen, share=float(answers.mean()), without=tuple(sorted(down)))


def _asked(signal: Signal) -> str:
    if signal.query is not None:
        return " ".join(signal.query.split())
    more = len(signal.metrics) - 1
    return signal.metrics[0] + (f" or {more} other name{'s' * (more > 1)}" if more else "")


def _rows(signal: Signal, pulled: Pulled, aliases: Aliases) -> frozenset[tuple[Entity, str]]:
    """Who has it: devices of a GPU signal, entities of any other."""
    known = (identify(signal, labels, aliases) for labels in pulled.labels)
    by_device = signal.peers_scheme == "gpu"
    return frozenset((found[0], found[1] if by_device else "") for found in known if found is not None)


def _due(
    signals: Sequence[Signal], rows: Mapping[str, frozenset[tuple[Entity, str]]]
) -> dict[tuple[object, ...], set[tuple[Entity, str]]]:
    """Who is known of, by any signal of the same kin."""
    out: dict[tuple[object, ...], set[tuple[Entity, str]]] = {}
    for signal in signals:
        out.setdefault(_kin(signal), set()).update(rows.get(signal.name, ()))
    return out


def _shared(seen: Seen, have: frozenset[tuple[Entity, str]], due: set[tuple[Entity, str]]) -> Seen:
    if not have or not seen.there or seen.signal == "up":
        return seen
    without = {entity.name for entity, _ in due - have}
    return replace(seen, share=len(have) / len(due), without=tuple(sorted(without)))


def _kin(signal: Signal) -> tuple[object, ...]:
    if signal.peers_scheme == "gpu":
        return (signal.entity_kind, signal.device_labels)
    return (signal.entity_kind, signal.layer)


def _measured(parts: Parts, signal: Signal, query: Query, pulled: Pulled, seen: Seen) -> Seen:
    """With the names that answered, and from raw samples of one series how often a value comes and how old it is."""
    names = metrics_in(signal.query) if signal.query else _answered(signal, pulled)
    source = parts.source
    if not names or not isinstance(source, Explorable):
        return replace(seen, metric=_listed(names))
    if signal.query is None:
        selector = _selector(pulled.labels[_liveliest(pulled)])
    else:
        picked = source.instant(f"topk(1, {names[0]})", query.end)
        selector = _selector(picked.labels[0]) if picked.labels else names[0]
    back = max(parts.pipeline.scale(LOOK_BACK), LEAST_SAMPLES * query.step)
    raw = source.instant(f"{selector}[{back // 1000}s]", query.end)
    every = _interval(raw.ts, raw.values) if len(raw.labels) == 1 else None
    newest = int(raw.ts.max()) if len(raw.ts) else seen.newest
    return replace(seen, metric=_listed(names), every=every, newest=newest)


def _answered(signal: Signal, pulled: Pulled) -> tuple[str, ...]:
    there = {labels.get("__name__", "") for labels in pulled.labels}
    return tuple(name for name in signal.metrics if name in there) or signal.metrics[:1]


def _listed(names: Sequence[str]) -> str:
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)


def _selector(labels: Labels) -> str:
    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in sorted(labels.items())) + "}"


def _liveliest(pulled: Pulled, most: int = 50) -> int:
    """The series with the most different values among the first `most`: it tells how often one comes."""
    ends = np.cumsum(pulled.lengths)[:most]
    starts = ends - pulled.lengths[:most]
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return int(np.argmax([len(np.unique(pulled.values[a:b])) for a, b in spans]))


def _interval(ts: Ints, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Ms | None:
    """How far apart samples lie; where values change only at every second scrape or more seldom, how far apart they
    change. To the second. A series that stands still tells only when it is scraped."""
    if len(ts) < 3:
        return None
    scraped = int(np.median(np.diff(ts)))
    changed = ts[1:][np.diff(values) != 0]
    refreshed = int(np.quantile(np.diff(changed), 0.25)) if len(changed) >= 4 else 0
    return max(1000, round(max(scraped, refreshed) / 1000) * 1000)
