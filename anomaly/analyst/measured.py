"""Published samples: as they came, and as the panels that detectors see, made by the detectors' own code."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from anomaly.analyst.frames import columns, shaped, table_of
from anomaly.clock import HOUR, MINUTE, Ms, align_up, format_time, parse_time
from anomaly.errors import StoreError, UsageError
from anomaly.features.index import Directory, index_series
from anomaly.features.panel import build_panel
from anomaly.features.ring import Ring, empty_ring, extend
from anomaly.panels import Panel
from anomaly.records import Entity, Labels, Samples, SeriesRow
from anomaly.signals.catalogue import Catalogue, load_catalogue, pack_names
from anomaly.signals.identity import Aliases, aliases_from
from anomaly.signals.model import Signal
from anomaly.store.published import manifest, parts, read_archive

EVER: Ms = 1 << 52
CONTEXT: Ms = 15 * MINUTE
"""Read before the range, so that counters have a rate from its first instant on."""


@cache
def catalogue() -> Catalogue:
    """The signals of all packs."""
    return load_catalogue(pack_names())


@cache
def signal_of(name: str) -> Signal:
    """The signal as the packs describe it; one of your own is taken for a gauge of unknown unit."""
    return catalogue().get(name) or load_catalogue([], {name: {"query": name}})[name]


def known_signals(directory: Path) -> list[Mapping[str, Any]]:
    """Every signal that has series: name, meaning, unit, kind, how many series."""
    counts = Counter(table_of(directory, "series").column("signal").to_pylist())
    known = catalogue()
    rows: list[Mapping[str, Any]] = []
    for name, count in counts.items():
        found = known.get(name)
        told = (found.about, found.unit, found.kind) if found else (None, None, None)
        rows.append({"signal": name, **dict(zip(("about", "unit", "kind"), told, strict=True)), "series": count})
    return rows


def read_samples(
    directory: Path,
    signals: Sequence[str],
    nodes: Sequence[str] | None,
    start: Ms | None,
    end: Ms | None,
    needed: Sequence[str] = (),
) -> Any:
    """Published samples as an Arrow table by series and time. Errors as `State.samples` states.

    Of `needed` (all signals, unless given) at least one must have samples.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    have = set(table_of(directory, "series").column("signal").to_pylist())
    for name in signals:
        if name not in have:
            raise UsageError(f"there are no series of a signal {name!r}", "give one of state.signals()")
    table = read_archive(directory, signals, start or 0, EVER if end is None else end)
    if table is not None:
        table = table.rename_columns({"node": "name", "ts": "time"})
        if nodes is not None:
            table = table.filter(pc.field("name").isin(list(nodes)))
    needed = needed or signals
    if table is None or not pc.any(pc.is_in(table.column("signal"), pa.array(needed, pa.string()))).as_py():
        raise _nothing(directory, needed, nodes, start, end)
    # Hours come one after the other; within one, series by series.
    return shaped(table.sort_by([("series_id", "ascending"), ("time", "ascending")]), columns("samples"))


def _nothing(
    directory: Path, signals: Sequence[str], nodes: Sequence[str] | None, start: Ms | None, end: Ms | None
) -> StoreError:
    """Why there are no samples: nothing archived, not yet, or nobody by that name."""
    what = f"no samples of {', '.join(signals)}" + (f" on {', '.join(nodes)}" if nodes else "")
    when = (f" from {format_time(start)}" if start else "") + (f" to {format_time(end)}" if end is not None else "")
    scored = manifest(directory)["scored_through"]
    last = published_through(directory)
    if last is None or (start is not None and start >= last):
        soon = "" if scored is None else f"; the next hour closes at {format_time(align_up(scored + 1, HOUR))}"
        return StoreError(f"{what}{when} are published", f"samples are published once their hour has closed{soon}")
    return StoreError(f"{what}{when} are published", f"there are samples up to {format_time(last)}; widen the range")


def published_through(directory: Path) -> Ms | None:
    """The end of the newest hour whose samples are published."""
    hours = [path.parent.name.partition("=")[2] for path in parts(directory, "samples")]
    return parse_time(f"{hours[-1]}:00") + HOUR if hours else None


@dataclass(frozen=True, slots=True)
class Measured:
    """Samples of some signals over a range, read once, and who their series are; codes of `names` are common to all."""

    samples: Mapping[str, Samples]
    start: Ms | None
    end: Ms | None
    names: Directory
    models: Mapping[str, str]
    """The GPU model of each node, where its series name one."""

    def panel(self, name: str) -> Panel:
        """A signal's panel over the range as a tick would build it: duplicates merged, counters as rates per second.

        Its grid is the one that the samples lie on.
        """
        signal, samples = signal_of(name), self.samples[name]
        earliest = int(samples.ts.min())
        first = earliest if self.start is None else self.start
        last = int(samples.ts.max()) if self.end is None else self.end
        step = grid_of(samples, signal)
        ring = ring_of(samples, step, min(first, earliest) - 1, last)
        panel = build_panel(signal, ring, self.names.signals[name], first - 1, step)
        return replace(panel, times=panel.new_times, values=panel.new_values, first=0)


def measure(
    directory: Path, signals: Sequence[str], start: Ms | None, end: Ms | None, *, also: Sequence[str] = ()
) -> Measured:
    """Samples of `signals` that there are, and of `also`, in one pass over the files.

    Raises UsageError for one of `signals` without series, and StoreError when none of them has a sample.
    """
    series = table_of(directory, "series").to_pylist()
    have = {row["signal"] for row in series}
    wanted = list(dict.fromkeys([*signals, *(name for name in also if name in have)]))
    table = read_samples(directory, wanted, None, None if start is None else start - CONTEXT, end, needed=signals)
    found = {name: as_samples(part) for name in wanted if (part := only(table, name)).num_rows}
    names, models = Directory(), {}
    for row in series:
        if row["name"] not in models and '"modelName"' in row["labels"]:
            models[row["name"]] = json.loads(row["labels"])["modelName"]
    _index(series, list(found), names)
    return Measured(found, start, end, names, models)


def only(table: Any, signal: str) -> Any:
    """The rows of one signal."""
    import pyarrow.compute as pc

    return table.filter(pc.field("signal") == signal)


def ring_of(samples: Samples, step: Ms, start: Ms, end: Ms) -> Ring:
    """The samples of (start, end] on their grid."""
    return extend(empty_ring(step), samples, start, end, end - start)


def as_samples(table: Any) -> Samples:
    """Arrow → the records that features read."""
    import pyarrow as pa

    return Samples(
        table.column("series_id").to_numpy().astype(np.int32),
        table.column("time").cast(pa.int64()).to_numpy(),
        table.column("value").to_numpy(),
    )


def grid_of(samples: Samples, signal: Signal) -> Ms:
    """The step of the samples' grid: they lie on multiples of it, and many series leave none of them out."""
    times = np.unique(samples.ts)
    return signal.interval if len(times) < 2 else int(np.gcd.reduce(np.append(np.diff(times), times[0])))


def _index(series: Sequence[Mapping[str, Any]], signals: Sequence[str], names: Directory) -> None:
    rows: dict[str, list[SeriesRow]] = {name: [] for name in signals}
    uname: list[Labels] = []
    for row in series:
        if row["signal"] == "node_names":
            uname.append(json.loads(row["labels"]))
        if row["signal"] in rows:
            who = Entity(row["kind"], row["name"]), row["device"], row["part"]
            rows[row["signal"]].append(SeriesRow(row["series_id"], row["signal"], *who, json.loads(row["labels"])))
    aliases = aliases_from(uname)
    for name, known in rows.items():
        names.signals[name] = index_series(names, known, lambda labels: _node_of(labels, aliases))


def _node_of(labels: Labels, aliases: Aliases) -> str | None:
    raw = next((labels[key] for key in ("node", "Hostname", "hostname", "nodename", "instance") if labels.get(key)), "")
    return aliases.canonical(raw) if raw else None


def long_form(panel: Panel, nodes: Sequence[str] | None, wanted: Mapping[str, str]) -> Any:
    """A panel as rows `time, kind, name, device, value` (Arrow), row by row of the panel; NaN becomes null."""
    import pyarrow as pa

    chosen = [i for i, entity in enumerate(panel.rows.entities) if nodes is None or entity.name in nodes]
    if not chosen:
        who = ", ".join(nodes or ())
        raise UsageError(f"{panel.signal} has no series of {who}", "give names as in state.series()")
    width = len(panel.times)
    repeated = {
        "kind": [panel.rows.entities[i].kind for i in chosen],
        "name": [panel.rows.entities[i].name for i in chosen],
        "device": [panel.rows.devices[i] for i in chosen],
    }
    table = {"time": pa.array(np.tile(panel.times, len(chosen)))}
    for name, texts in repeated.items():
        codes = np.repeat(np.arange(len(chosen), dtype=np.int32), width)
        table[name] = pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string())).cast(pa.string())
    table["value"] = pa.array(panel.values[chosen].ravel(), from_pandas=True)
    return shaped(pa.table(table), wanted)
