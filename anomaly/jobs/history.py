"""Node windows of stored history, made the way the ticks make them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from anomaly.clock import HOUR, Ms, align_down, align_up
from anomaly.detect.forest import MOST_UNKNOWN
from anomaly.detect.habit import Habit, bucket_length
from anomaly.features.cube import signals_of
from anomaly.features.index import Directory
from anomaly.features.ring import Ring
from anomaly.jobs.collect import Progress, quiet
from anomaly.jobs.flagged import Stretch
from anomaly.jobs.model_spec import ModelSpec
from anomaly.jobs.parts import Parts
from anomaly.jobs.publish import published_dir
from anomaly.judge import Scene, learn_habits
from anomaly.pipeline import Batch, Spec, look, remember, ticks_between
from anomaly.records import Bools, Floats, Ints, Samples
from anomaly.second_opinion import node_cube, traces_of
from anomaly.signals.catalogue import Catalogue
from anomaly.store.published import read_archive
from anomaly.store.store import Store

Read = Callable[[Sequence[str], Ms, Ms], Mapping[str, Samples]]


@dataclass(frozen=True, slots=True)
class Windows:
    """Usable node windows of the history: `values[i]` is node `nodes[i]` at `times[i]` (nominal)."""

    nodes: tuple[str, ...]
    times: Ints
    values: Floats

    def __len__(self) -> int:
        return len(self.times)

    def pick(self, mask: Bools) -> "Windows":
        """Those of the mask."""
        places = np.flatnonzero(mask)
        return Windows(tuple(self.nodes[i] for i in places.tolist()), self.times[places], self.values[places])

    def columns(self, mask: Bools) -> "Windows":
        """With the features of the mask only."""
        return Windows(self.nodes, self.times, self.values[:, mask])


def reader(parts: Parts, store: Store, directory: Directory) -> Read:
    """Samples from the database where it holds any, older ones from the published archive. In nominal time."""
    pace = parts.pace
    bucket = pace.real(bucket_length(parts.step))

    def read(names: Sequence[str], start: Ms, end: Ms) -> Mapping[str, Samples]:
        first, last = pace.real(start) + 1, pace.real(end)
        found = store.read_many(list(names), first, last)
        earliest = min((int(samples.ts.min()) for samples in found.values() if len(samples)), default=last + 1)
        if earliest > first + bucket:
            older = _archived(published_dir(parts.pipeline), names, first, earliest - 1, directory)
            found = {name: _joined(found.get(name), older.get(name)) for name in names}
        return pace.samples(found)

    return read


def _joined(*parts: Samples | None) -> Samples:
    known = [part for part in parts if part is not None]
    if not known:
        return Samples(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0))
    return Samples(
        np.concatenate([part.series_id for part in known]),
        np.concatenate([part.ts for part in known]),
        np.concatenate([part.values for part in known]),
    )


def _archived(folder: Path, names: Sequence[str], first: Ms, last: Ms, directory: Directory) -> dict[str, Samples]:
    table = read_archive(folder, names, first, last)
    if table is None:
        return {}
    signal = np.array(table.column("signal").to_pylist(), dtype=object)
    ids = table.column("series_id").to_numpy().astype(np.int32)
    ts, values = table.column("ts").to_numpy(), table.column("value").to_numpy()
    out = {}
    for name in names:
        known = directory.signals.get(name)
        if known is not None:
            # Series that the database has pruned have lost their labels: nobody knows their job any more.
            use = (signal == name) & np.isin(ids, known.series)
            out[name] = Samples(ids[use], ts[use], values[use])
    return out


def history(
    spec: ModelSpec,
    tick: Spec,
    directory: Directory,
    read: Read,
    findings: Sequence[Stretch],
    start: Ms,
    end: Ms,
    progress: Progress = quiet,
) -> Windows:
    """Every node window of (start, end], as the ticks would have seen them: same panels, same habits, same cube."""
    tick = replace(tick, catalogue=_needed(tick.catalogue, spec))
    bucket = tick.bucket
    begin, last = align_up(start, bucket), align_down(end, bucket)
    chunk = bucket * max(1, HOUR // bucket)
    rings: Mapping[str, Ring] = {}
    habits: dict[str, Habit] = {}
    nodes: list[str] = []
    times: list[Ints] = []
    values: list[Floats] = []
    at = begin
    while at < last:
        until = min(at + chunk, last)
        batch = Batch(at, until, read(list(tick.catalogue.signals), at, until), directory)
        rings = remember(tick, batch, at, until, rings)
        scene = look(tick, directory, rings, at)
        traces = traces_of(tick.catalogue, scene, spec.features, at - spec.window, until)
        for closing in ticks_between(at, until, bucket):
            due = ticks_between(closing - bucket, closing, spec.window)
            if due and scene.panels:
                cube = node_cube(
                    tick.catalogue, scene, directory.entities, habits, spec.features, due, spec.window, traces
                )
                for t, moment in enumerate(due):
                    nodes += [node.name for node in cube.nodes]
                    times.append(np.full(len(cube.nodes), moment, np.int64))
                    values.append(cube.values[:, t])
            habits = _learnt(tick, scene, habits, findings, closing)
        progress("train", (until - begin) / max(1, last - begin))
        at = until
    if not times:
        return Windows((), np.empty(0, np.int64), np.empty((0, len(spec.features))))
    return Windows(tuple(nodes), np.concatenate(times), np.concatenate(values))


def _needed(catalogue: Catalogue, spec: ModelSpec) -> Catalogue:
    """The signals of the features, what they are corrected by, the load gate, and who works for which job."""
    wanted = {*signals_of(spec.features), "gpu_util"}
    wanted |= {other for name in wanted if (signal := catalogue.get(name)) for other, _ in signal.equal}
    return Catalogue(
        {name: signal for name, signal in catalogue.signals.items() if name in wanted or signal.entity_kind == "job"}
    )


def _learnt(
    tick: Spec, scene: Scene, habits: Mapping[str, Habit], findings: Sequence[Stretch], closing: Ms
) -> dict[str, Habit]:
    bad = {item.node for item in findings if item.start < closing and item.end > closing - tick.bucket}
    out = dict(habits)
    for name, panel in scene.panels.items():
        pairs = zip(panel.rows.keys, panel.rows.entities, strict=True)
        keys = frozenset(key for key, entity in pairs if entity.name in bad) if bad else frozenset()
        out |= learn_habits(tick.catalogue[name], panel, scene, habits, {f"{name}:peers": keys}, closing)
    return out


def usable_of(found: Windows) -> Windows:
    """The windows of which enough is known, in order of time and node."""
    if not len(found):
        return found
    good = np.isnan(found.values).mean(axis=1) <= MOST_UNKNOWN
    kept = found.pick(good)
    order = sorted(range(len(kept)), key=lambda i: (int(kept.times[i]), kept.nodes[i]))
    return Windows(tuple(kept.nodes[i] for i in order), kept.times[order], kept.values[order])
