"""Published samples: as they came, and as the panels that detectors see, made by the detectors' own code."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from anomaly.analyst.frames import columns, shaped, table_of
from anomaly.clock import HOUR, MINUTE, Ms, align_up, format_time, parse_time
from anomaly.errors import StoreError, UsageError
from anomaly.features.index import Directory, SeriesIndex, index_series
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
    directory: Path, signals: Sequence[str], nodes: Sequence[str] | None, start: Ms | None, end: Ms | None
) -> Any:
    """Published samples as an Arrow table by series and time. Errors as `State.samples` states."""
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
    if table is None or not table.num_rows:
        raise _nothing(directory, signals, nodes, start, end)
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


def panel_of(directory: Path, name: str, start: Ms | None, end: Ms | None, names: Directory | None = None) -> Panel:
    """A signal's panel over [start, end] as a tick would build it: duplicates merged, counters as rates per second.

    Its grid is the one that the samples lie on. `names` collects the codes of entities and devices. Errors as
    `read_samples`.
    """
    signal = signal_of(name)
    table = read_samples(directory, [name], None, None if start is None else start - CONTEXT, end)
    samples = as_samples(table)
    first = int(samples.ts.min()) if start is None else start
    last = int(samples.ts.max()) if end is None else end
    step = grid_of(samples, signal)
    index = index_of(directory, [name], names or Directory())[name]
    before = min(first, int(samples.ts.min())) - 1
    ring = extend(empty_ring(step), samples, before, last, last - before)
    panel = build_panel(signal, ring, index, first - 1, step)
    return Panel(panel.signal, panel.rows, panel.new_times, panel.new_values, 0, panel.dropped)


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


def index_of(directory: Path, signals: Sequence[str], names: Directory) -> dict[str, SeriesIndex]:
    """Who the series of each signal are, with codes of `names`."""
    rows: dict[str, list[SeriesRow]] = {name: [] for name in signals}
    uname: list[Labels] = []
    for row in table_of(directory, "series").to_pylist():
        if row["signal"] == "node_names":
            uname.append(json.loads(row["labels"]))
        if row["signal"] in rows:
            labels = json.loads(row["labels"])
            entity = Entity(row["kind"], row["name"])
            rows[row["signal"]].append(
                SeriesRow(row["series_id"], row["signal"], entity, row["device"], row["part"], labels)
            )
    aliases = aliases_from(uname)
    for name, known in rows.items():
        names.signals[name] = index_series(names, known, lambda labels: _node_of(labels, aliases))
    return names.signals


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
