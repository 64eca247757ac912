"""One signal's verdicts over a block of steps: features build the panel, detectors score it.

Signals are independent here; what they need of each other (who is busy, who works together) comes in a `Scene`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms
from anomaly.detect import codes, peers, shift, threshold
from anomaly.detect.codes import Seen
from anomaly.detect.habit import Habit, close_bucket, no_habit, usual
from anomaly.detect.profiles import profile
from anomaly.detect.scored import Scored
from anomaly.features.align import at_times, row_lookup, take_rows
from anomaly.features.jobs import NO_JOB, Membership
from anomaly.features.levels import peer_levels
from anomaly.features.load import busy_mask
from anomaly.panels import Panel, Rows
from anomaly.records import Bools, Floats, Ints
from anomaly.signals.model import Peers, Shift, Signal

Ranges = tuple[tuple[Ms, Ms], ...]
"""(first, last) instants, both inclusive."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a signal's verdict needs from the others: all panels, who works for which job, kinds of nodes."""

    step: Ms
    bucket: Ms
    panels: Mapping[str, Panel]
    members: Membership
    kind: NDArray[np.int64]
    """Kind of node (SKU) per entity code."""
    residuals: dict[str, tuple[Ints, Floats, Floats]] = field(default_factory=dict)
    """Per signal (times, residual, spread) as worked out so far: verdicts, habits and the forest share them."""
    full: Mapping[str, float] = field(default_factory=dict)
    """Per signal of load what it says of a device that always works (1 for a ratio); 100 where nothing is said."""
    incomplete: Mapping[str, Ranges] = field(default_factory=dict)
    """Signal → where its source's answers were incomplete."""

    def doubtful(self, signal: Signal, times: Ints) -> Bools | None:
        """The times at which the signal, or what its load gate rests on, was read incompletely; None for none."""
        names = (signal.name, signal.load) if signal.gate == "load" else (signal.name,)
        ranges = [found for name in names for found in self.incomplete.get(name, ())]
        if not ranges:
            return None
        out: Bools = np.any([(times >= first) & (times <= last) for first, last in ranges], axis=0)
        return out

    def busy(self, load: str, rows: Rows, times: Ints, *, per_device: bool) -> Bools | None:
        """rows × times: who works, as the signal `load` says; None where there is no such signal."""
        return busy_mask(self.panels.get(load), rows, times, per_device, self.full.get(load, 100.0))

    def job_of(self, rows: Rows, times: Ints) -> NDArray[np.int32]:
        return self.members.of(rows.entity_code, times)

    def kind_of(self, rows: Rows) -> NDArray[np.int64]:
        padded = np.append(self.kind, -1)
        return padded[np.where(rows.entity_code < len(self.kind), rows.entity_code, -1)]


def eligible(signal: Signal, panel: Panel, scene: Scene) -> Bools | None:
    """Who may be judged at which column: the working GPUs of a load-gated signal; None for everybody."""
    if signal.gate != "load":
        return None
    return scene.busy(signal.load, panel.rows, panel.times, per_device=signal.peers_scheme == "gpu")


def residual_panel(signal: Signal, spec: Peers, panel: Panel, scene: Scene, first: int) -> tuple[Floats, Floats]:
    """(residual against peers, robust sigma of the peers) for the columns from `first`, on the peers' scale."""
    times = panel.times[first:]
    known = scene.residuals.get(signal.name)
    if known is not None and len(times):
        at, until = np.searchsorted(known[0], [times[0], times[-1] + 1]).tolist()
        if until - at == len(times):
            return known[1][:, at:until], known[2][:, at:until]
    residual, spread = _residuals(signal, spec, panel, scene, first)
    if known is None or len(times) > len(known[0]):
        scene.residuals[signal.name] = (times, residual, spread)
    return residual, spread


def _residuals(signal: Signal, spec: Peers, panel: Panel, scene: Scene, first: int) -> tuple[Floats, Floats]:
    values = panel.values[:, first:]
    times = panel.times[first:]
    mask = eligible(signal, panel, scene)
    scaled = peers.to_scale(values, spec)
    for name, slope in signal.equal:
        scaled = scaled - slope * _covariate(scene.panels.get(name), panel, times)
    if mask is not None:
        scaled = np.where(mask[:, first:], scaled, np.nan)
    job = scene.job_of(panel.rows, times)
    kind = scene.kind_of(panel.rows)
    parts = []
    for a, b in peers.segments(job):
        levels = peer_levels(signal.peers_scheme, panel.rows, job[:, a], kind)
        parts.append(peers.residuals(scaled[:, a:b], levels, spec))
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    return np.concatenate([one for one, _ in parts], axis=1), np.concatenate([one for _, one in parts], axis=1)


def _covariate(other: Panel | None, panel: Panel, times: Ints, *, fill: bool = True) -> Floats:
    """Another signal at this panel's rows and times; where it is unknown, the average of those known then (`fill`)."""
    if other is None or len(other.times) < 2:
        return np.full((len(panel.rows), len(times)), 0.0 if fill else np.nan)
    places = row_lookup(other.rows, panel.rows, per_device=True)
    table = at_times(take_rows(other.values, places), other.times, times, 3 * int(other.times[1] - other.times[0]))
    if not fill:
        return table
    known = ~np.isnan(table)
    total = np.where(known, table, 0.0).sum(axis=0)
    mean = total / np.maximum(known.sum(axis=0), 1)
    return np.where(known, table, mean[None, :])


def score_signal(
    signal: Signal, panel: Panel, scene: Scene, habits: Mapping[str, Habit], seen: Mapping[str, Seen], watched_since: Ms
) -> tuple[list[Scored], dict[str, Seen]]:
    """Every detector of the signal over the panel's new columns, and the event codes seen after them."""
    out: list[Scored] = []
    if not len(panel.rows) or not len(panel.new_times):
        return out, dict(seen)
    at = int(panel.new_times[0])
    values = panel.new_values
    after = dict(seen)
    alone = np.ones(values.shape, bool)
    if signal.threshold is not None:
        score, boundary = threshold.judge(values, signal.threshold)
        out.append(_scored(signal, "threshold", scene, panel, score, values, np.full(values.shape, boundary)))
    if signal.peers is not None:
        residual, spread = residual_panel(signal, signal.peers, panel, scene, panel.first)
        alone = np.isnan(residual)
        habit = habits.get(f"{signal.name}:peers", no_habit())
        score, change = peers.judge(
            residual, spread, habit, panel.rows.keys, at, scene.bucket, signal.peers, signal.bad
        )
        expected = peers.from_scale(peers.to_scale(values, signal.peers) - change, signal.peers)
        out.append(_scored(signal, "peers", scene, panel, score, values, expected))
        if signal.dead:
            usual = peers.from_scale(peers.to_scale(values, signal.peers) - residual, signal.peers)
            gone = peers.dead(residual, panel.rows.entity_code)
            out.append(_scored(signal, "dead", scene, panel, gone, values, usual))
    if signal.shift is not None:
        habit = habits.get(f"{signal.name}:shift", no_habit())
        score, expected = shift.judge(values, habit, panel.rows.keys, at, scene.bucket, signal.shift, signal.bad)
        score = np.where(_may_shift(signal, signal.shift, panel, scene, alone)[:, panel.first :], score, np.nan)
        out.append(_scored(signal, "shift", scene, panel, score, values, expected))
    if signal.codes is not None:
        since = _watched_since(signal, panel, scene, watched_since) + 2 * signal.native(scene.step)
        score, after = codes.judge(panel, signal.codes, seen, since)
        out.append(_scored(signal, "codes", scene, panel, score, values, np.zeros(values.shape)))
    return out, after


def _watched_since(signal: Signal, panel: Panel, scene: Scene, begin: Ms) -> Ints:
    """Since when each row's node has been watched: from `begin`, or since it joined, as the signal of load shows."""
    out = np.full(len(panel.rows), begin, np.int64)
    load = scene.panels.get(signal.load)
    if load is None or not len(load.rows) or not len(load.times):
        return out
    there = ~np.isnan(load.values)
    first = np.where(there.any(axis=1), np.argmax(there, axis=1), 0)
    size = int(max(load.rows.entity_code.max(), panel.rows.entity_code.max(initial=0))) + 1
    joined = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(joined, load.rows.entity_code, np.where(first > 0, load.times[first], begin))
    joined[joined == np.iinfo(np.int64).max] = begin
    since: Ints = np.maximum(out, joined[panel.rows.entity_code])
    return since


def _may_shift(signal: Signal, spec: Shift, panel: Panel, scene: Scene, alone: Bools) -> Bools:
    """rows × all columns: where a row may be held against its own past. `alone` is for the new columns."""
    out = np.ones(panel.values.shape, bool)
    mask = eligible(signal, panel, scene)
    if mask is not None:
        out &= mask
    for name, least in spec.when:
        other = _covariate(scene.panels.get(name), panel, panel.times, fill=False)
        out &= np.nan_to_num(other, nan=-np.inf) >= least
    if spec.without_peers:
        out[:, panel.first :] &= alone
    return out


def _scored(
    signal: Signal, detector: str, scene: Scene, panel: Panel, score: Floats, observed: Floats, expected: Floats
) -> Scored:
    rows = panel.rows
    found = profile(signal, detector, scene.step)
    doubtful = scene.doubtful(signal, panel.new_times)
    return Scored(found, rows.keys, rows.entities, rows.devices, panel.new_times, score, observed, expected, doubtful)


def learn_habits(
    signal: Signal,
    panel: Panel,
    scene: Scene,
    habits: Mapping[str, Habit],
    flagged: Mapping[str, frozenset[str]],
    end: Ms,
) -> dict[str, Habit]:
    """The signal's habits with the bucket that ended at `end` added; `flagged` names, per detector, the rows that are
    past their boundary and so keep their old habit. Nothing is learnt from incomplete answers."""
    out: dict[str, Habit] = {}
    if not len(panel.rows):
        return out
    first = int(np.searchsorted(panel.times, end - scene.bucket, side="right"))
    last = int(np.searchsorted(panel.times, end, side="right"))
    within = replace(panel, times=panel.times[:last], values=panel.values[:, :last])
    ends = np.array([end - scene.bucket, end], np.int64)
    job = scene.job_of(panel.rows, ends)
    moved = (job[:, 0] != job[:, 1]) & ((job[:, 1] != NO_JOB) | (job[:, 0] != NO_JOB))
    keys = panel.rows.keys
    parts: list[tuple[str, Floats, Bools]] = []
    if signal.peers is not None and signal.peers.offset:
        residual, _ = residual_panel(signal, signal.peers, within, scene, first)
        parts.append(("peers", residual, moved if signal.peers_scheme == "nic" else np.zeros(len(keys), bool)))
    if signal.shift is not None:
        forgets = signal.peers_scheme == "nic" or signal.shift.per_job
        forget = moved if forgets else np.zeros(len(keys), bool)
        mask = eligible(signal, within, scene)
        values = within.values if mask is None else np.where(mask, within.values, np.nan)
        parts.append(("shift", shift.to_scale(values[:, first:], signal.shift), forget))
    doubtful = scene.doubtful(signal, within.times[first:])
    for detector, values, forget in parts:
        if doubtful is not None:
            values = np.where(doubtful, np.nan, values)
        name = f"{signal.name}:{detector}"
        habit = habits.get(name, no_habit())
        held, _ = usual(habit, keys, end, scene.bucket)
        marked = flagged.get(name, frozenset())
        mask = np.array([key in marked for key in keys], bool) if marked else np.zeros(len(keys), bool)
        out[name] = close_bucket(habit, keys, values, held, mask, end, scene.bucket, forget)
    return out
