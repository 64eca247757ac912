"""Jobs that hang: their GPUs at full utilisation, with power and activity at a fraction of what is usual for them."""

from collections.abc import Sequence

import numpy as np

from anomaly.detect import hang
from anomaly.detect.profiles import profile
from anomaly.detect.scored import Scored
from anomaly.features.align import at_times, row_lookup, take_rows
from anomaly.judge import Scene
from anomaly.panels import Panel
from anomaly.records import Bools, Entity, Floats
from anomaly.signals.catalogue import Catalogue

LEAST_SIGNALS = 2
"""Power alone also falls where a job's work changes; with its activity gone it waits."""


def score_hangs(catalogue: Catalogue, scored: Sequence[Scored], scene: Scene, jobs: Sequence[str]) -> list[Scored]:
    """Hanging jobs and the ranks that idle alone, per kind of device, told of the signal of load.

    Rests on the shifts of the signals that `falls` marks: each against its own past in the same job.
    """
    shifts: dict[str, list[Scored]] = {}
    for item in scored:
        signal = catalogue[item.profile.signal]
        if signal.falls and item.profile.detector == "shift":
            shifts.setdefault(signal.load, []).append(item)
    out: list[Scored] = []
    for load, items in shifts.items():
        panel = scene.panels.get(load)
        if panel is not None and len(items) >= LEAST_SIGNALS and len(panel.new_times) and jobs:
            out += _judge(catalogue, panel, items, scene, jobs)
    return out


def _judge(
    catalogue: Catalogue, panel: Panel, items: Sequence[Scored], scene: Scene, jobs: Sequence[str]
) -> list[Scored]:
    times, rows = panel.new_times, panel.rows
    works = scene.busy(panel.signal, rows, times, per_device=True)
    if works is None:
        return []
    job = scene.job_of(rows, times)
    found = hang.hanging(works & _collapsed(panel, items, scene), works, ~np.isnan(panel.new_values), job, len(jobs))
    signal = catalogue[panel.signal]
    doubtful = scene.doubtful(signal, times)
    names = tuple(Entity("job", name) for name in jobs)
    keys = tuple(f"{name}|" for name in names)
    nothing = np.full((len(names), len(times)), np.nan)
    score = _believed(found.job, doubtful)
    of = profile(signal, "hang", scene.step)
    job_rows = Scored(of, keys, names, ("",) * len(names), times, score, nothing, nothing, doubtful)
    rank = _believed(found.rank, doubtful)
    observed = np.where(np.isnan(rank), np.nan, panel.new_values)
    usual = np.full(rank.shape, np.nan)
    of = profile(signal, "hung_rank", scene.step)
    return [job_rows, Scored(of, rows.keys, rows.entities, rows.devices, times, rank, observed, usual, doubtful)]


def _collapsed(panel: Panel, items: Sequence[Scored], scene: Scene) -> Bools:
    """Rows of the load signal × its new steps: enough signals have a verdict, and all are past their boundary."""
    voices = np.zeros((len(panel.rows), len(panel.new_times)), np.int64)
    all_low = np.ones(voices.shape, bool)
    for item in items:
        other = scene.panels[item.profile.signal]
        places = row_lookup(other.rows, panel.rows, per_device=True)
        score = at_times(take_rows(item.score, places), item.times, panel.new_times, 0)
        voices += ~np.isnan(score)
        all_low &= np.isnan(score) | (score >= 1.0)
    return all_low & (voices >= LEAST_SIGNALS)


def _believed(score: Floats, doubtful: Bools | None) -> Floats:
    return score if doubtful is None else np.where(doubtful, np.nan, score)
