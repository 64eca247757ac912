"""What the score job carries from run to run, and how a restart finds it again.

State and habits come back from the store; rings are filled again from samples. Nothing depends on having lived through
the last ticks, so a restart changes nothing.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from anomaly.clock import Ms
from anomaly.detect.habit import Habit
from anomaly.features.index import Directory, index_series
from anomaly.jobs.models import Loaded
from anomaly.jobs.pace import Pace
from anomaly.jobs.parts import Parts
from anomaly.pipeline import Batch, Context, Spec, State, remember
from anomaly.records import Labels, SeriesRow
from anomaly.signals.identity import Aliases
from anomaly.store.baselines import Buckets
from anomaly.store.store import Store


@dataclass(frozen=True, slots=True)
class Carried:
    """State of the ticks, and which open incidents were announced to the sinks."""

    tick: State
    announced: tuple[str, ...] = ()


@dataclass(slots=True)
class Live:
    """The score job's memory while the process lives. `context` is None until it has been filled."""

    directory: Directory = field(default_factory=Directory)
    known: dict[str, list[SeriesRow]] = field(default_factory=dict)
    """The series that each index of the directory was made of."""
    aliases: Aliases = field(default_factory=Aliases)
    seen_changes: int = -1
    spec: Spec | None = None
    context: Context | None = None
    carried: Carried = field(default_factory=lambda: Carried(State()))
    loaded: Loaded = field(default_factory=Loaded)
    """The trained model, or why there is none."""


@functools.cache
def _codec() -> TypeAdapter[Carried]:
    return TypeAdapter(Carried)


def encode(carried: Carried) -> str:
    """As JSON text, exactly."""
    return _codec().dump_json(carried).decode()


def decode(text: str | None) -> Carried:
    """From JSON text; a new beginning for None."""
    return _codec().validate_json(text) if text else Carried(State())


def refresh(parts: Parts, store: Store, live: Live, aliases: Aliases) -> Spec:
    """The directory and the spec brought up to the series that the store knows now."""

    def node_of(labels: Labels) -> str | None:
        raw = next((labels[name] for name in ("node", "Hostname", "hostname", "nodename") if labels.get(name)), None)
        raw = raw or labels.get("instance")
        return aliases.canonical(raw) if raw else None

    renamed = aliases != live.aliases
    if live.spec is not None and not renamed and store.series_changes == live.seen_changes:
        return live.spec
    # Read first: what is registered from here on shows as a further change.
    live.seen_changes, live.aliases = store.series_changes, aliases
    for name in parts.catalogue.signals:
        known = store.series(name)
        if renamed or known != live.known.get(name):
            live.directory.signals[name] = index_series(live.directory, known, node_of, parts.job_labels)
            live.known[name] = known
    live.spec = parts.spec(store.series("gpu_temp") + store.series("up"))
    return live.spec


def fill(store: Store, spec: Spec, live: Live, pace: Pace, through: Ms) -> Context:
    """The context as it stood after the tick at `through` (real): rings from samples, habits from the store."""
    end = pace.nominal(through)
    start = end - spec.ring
    samples = pace.samples(store.read_many(list(spec.catalogue.signals), pace.real(start) + 1, through))
    habits = {name: Habit(*found) for name, found in store.baselines().items()}
    return Context(remember(spec, Batch(start, end, samples, live.directory), start, end, {}), habits)


def closed_buckets(context: Context, after: Ms) -> list[tuple[Ms, Mapping[str, Buckets]]]:
    """The buckets that closed after `after`, oldest first: (end, habits up to it), as the store takes them."""
    ends = sorted({int(end) for habit in context.habits.values() for end in habit.ends[habit.ends > after]})
    return [(end, {name: _upto(habit, end) for name, habit in context.habits.items()}) for end in ends]


def _upto(habit: Habit, end: Ms) -> Buckets:
    known = habit.ends <= end
    return habit.keys, habit.ends[known], habit.values[:, known]
