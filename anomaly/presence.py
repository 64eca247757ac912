"""What is there at all: lost nodes, silent targets, vanished devices, and readings that stand still."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from anomaly.clock import Ms
from anomaly.detect import absence, frozen
from anomaly.detect.profiles import profile
from anomaly.detect.scored import Scored
from anomaly.features.align import at_times, row_lookup, take_rows
from anomaly.judge import Scene
from anomaly.panels import Panel, Rows
from anomaly.records import Bools, Ints
from anomaly.signals.catalogue import Catalogue
from anomaly.signals.model import Signal

UP = "up"
"""The signal that says which targets answer."""


def score_presence(
    catalogue: Catalogue, presence: Mapping[str, Panel], scene: Scene, holders: Mapping[str, Ints]
) -> list[Scored]:
    """What is there at all, from raw values: lost nodes, silent targets, vanished devices, and what stands still.

    `holders` are the last jobs of the devices (rows × all steps) of those signals that miss any.
    No verdict where the source's answer was incomplete: what is missing there may well exist.
    """
    out: list[Scored] = []
    up = presence.get(UP)
    for name, panel in presence.items():
        signal = catalogue[name]
        if not len(panel.rows) or not len(panel.new_times):
            continue
        if name == UP:
            found = {
                "node_lost": absence.lost_nodes(panel),
                "silent": absence.silent_targets(panel),
                "vanished": absence.vanished_nodes(panel),
            }
        else:
            holder = holders.get(name)
            given_back = None if holder is None else absence.released(panel, holder, per_node=True)
            found = {"lost": absence.lost_devices(panel, given_back)}
            if signal.restless and up is not None:
                answers = _answers(up, panel)
                if holder is not None:
                    answers &= ~absence.released(panel, holder, per_node=False)
                found["unseen"] = absence.unseen_devices(panel, answers)
        out += [_absent(signal, detector, absent, panel.rows, scene) for detector, absent in found.items()]
    return out + _score_stillness(catalogue, presence, scene)


def _answers(up: Panel, panel: Panel) -> Bools:
    """rows × new steps: whether some target of the row's node is up."""
    codes, rows = up.rows.entity_code, panel.rows.entity_code
    size = int(max(codes.max(initial=-1), rows.max(initial=-1))) + 1
    alive = absence.counts(up.values == 1.0, codes, size)[rows]
    answers: Bools = at_times(alive, up.times, panel.new_times, _tolerance(up)) > 0
    return answers


def _score_stillness(catalogue: Catalogue, presence: Mapping[str, Panel], scene: Scene) -> list[Scored]:
    """Devices and nodes whose readings stand still at work, per kind of device (one signal of load each)."""
    families: dict[str, list[Panel]] = {}
    for name, panel in scene.panels.items():
        if catalogue[name].restless and len(panel.rows):
            families.setdefault(catalogue[name].load, []).append(panel)
    out: list[Scored] = []
    for load, panels in families.items():
        base = panels[0]
        busy = scene.busy(load, base.rows, base.times, per_device=True)
        if len(panels) >= frozen.LEAST_SIGNALS and busy is not None and len(base.new_times):
            out += _stillness(catalogue[base.signal], base, panels, busy, _gone(catalogue, presence, base), scene)
    return out


def _gone(catalogue: Catalogue, presence: Mapping[str, Panel], base: Panel) -> Bools:
    """Whether something else that each device had reported is there no longer."""
    gone = np.zeros(base.values.shape, bool)
    for name, panel in presence.items():
        if name != UP and not catalogue[name].restless and len(panel.rows):
            there = ~np.isnan(panel.values)
            absent = np.where(absence.seen_so_far(there) & ~there, 1.0, 0.0)
            places = row_lookup(panel.rows, base.rows, per_device=True)
            gone |= at_times(take_rows(absent, places), panel.times, base.times, _tolerance(panel)) == 1.0
    return gone


def _stillness(
    signal: Signal, base: Panel, panels: Sequence[Panel], busy: Bools, gone: Bools, scene: Scene
) -> list[Scored]:
    """The verdicts of one family, told of the first of its restless signals."""
    rows = base.rows
    tables = [
        at_times(take_rows(panel.values, row_lookup(panel.rows, rows, per_device=True)), panel.times, base.times, 0)
        for panel in panels
    ]
    still = frozen.stillness(tables)
    score = frozen.frozen_devices(still, busy, gone, rows)[:, base.first :]
    whole = frozen.frozen_nodes(still, busy, gone, rows, base.times)
    doubtful = scene.doubtful(signal, base.new_times)
    if doubtful is not None:
        score = np.where(doubtful, np.nan, score)
    observed = np.where(np.isnan(score), np.nan, base.new_values)
    nothing = np.full(score.shape, np.nan)
    of = profile(signal, "frozen", scene.step)
    return [
        Scored(of, rows.keys, rows.entities, rows.devices, base.new_times, score, observed, nothing, doubtful),
        _absent(signal, "flat", replace(whole, times=base.new_times, score=whole.score[:, base.first :]), rows, scene),
    ]


def _tolerance(panel: Panel) -> Ms:
    return 2 * int(panel.times[1] - panel.times[0]) if len(panel.times) > 1 else 0


def _absent(signal: Signal, detector: str, absent: absence.Absent, rows: Rows, scene: Scene) -> Scored:
    doubtful = scene.doubtful(signal, absent.times)
    if absent.entities is rows.entities:
        keys = rows.keys
    else:
        keys = tuple(f"{entity}|{device}" for entity, device in zip(absent.entities, absent.devices, strict=True))
    nothing = np.full(absent.score.shape, np.nan)
    score = absent.score if doubtful is None else np.where(doubtful, np.nan, absent.score)
    found = profile(signal, detector, scene.step)
    return Scored(found, keys, absent.entities, absent.devices, absent.times, score, nothing, nothing, doubtful)
