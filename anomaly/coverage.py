"""What share of each node was seen, by layer, and what is thought of it: no data is never healthy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from anomaly.clock import Ms
from anomaly.denoise.rules import Denoised
from anomaly.features.index import Directory
from anomaly.judge import Scene
from anomaly.records import Floats, Phase
from anomaly.signals.catalogue import Catalogue
from anomaly.signals.model import Signal

LAYERS: tuple[str, ...] = ("hardware", "system", "network", "storage", "training")
TRAINING, JOB = LAYERS.index("training"), len(LAYERS)
"""Columns: the node's own series of the training layer, and whether its job is heard of."""
EVERYTHING = "all"
"""The row of a node that stands for all layers together."""

LEAST = 0.5
"""Below this share nothing can be said."""

RECENT = 4
"""A row counts as seen while it had a sample within so many of its signal's intervals."""

INNOCENT = frozenset({"symptom_only", "effect_of", "aftermath", "job_silent", "maintenance", "closed", "model_stale"})
"""Reasons for which a finding was set aside that say: it is not this node."""

Verdict = Literal["healthy", "suspect", "faulty", "unknown"]


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """Rows seen and rows expected at one tick: node × layer (`LAYERS`), and the node's job in a last column."""

    nodes: tuple[str, ...]
    seen: Floats
    expected: Floats

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Coverage)
            and self.nodes == other.nodes
            and np.array_equal(self.seen, other.seen)
            and np.array_equal(self.expected, other.expected)
        )

    __hash__ = None  # type: ignore[assignment]

    def ratios(self) -> dict[str, float]:
        """Node → share of its own rows that was seen, all layers together; whether its job speaks is another matter."""
        share = self.seen[:, :JOB].sum(axis=1) / self.expected[:, :JOB].sum(axis=1)
        return {node: round(ratio, 4) for node, ratio in zip(self.nodes, share.tolist(), strict=True)}


@dataclass(frozen=True, slots=True)
class Covered:
    """One node's layer at one tick. `ratio` is None where nothing of the layer was ever seen of it."""

    node: str
    layer: str
    ratio: float | None
    verdict: Verdict


def cover(catalogue: Catalogue, directory: Directory, scene: Scene, at: Ms) -> Coverage:
    """Rows of the rings that have a sample within their last intervals, for every node that has any row."""
    size = len(directory.entities.names)
    seen, expected = np.zeros((size, JOB + 1)), np.zeros((size, JOB + 1))
    speaking: list[int] = []
    for name, panel in scene.panels.items():
        signal = catalogue[name]
        last = int(np.searchsorted(panel.times, at, side="right"))
        recent = np.zeros(len(panel.rows), bool)
        for column in range(max(0, last - RECENT), last):
            recent |= ~np.isnan(panel.values[:, column])
        if signal.entity_kind == "job":
            jobs = [directory.jobs.codes.get(entity.name, -1) for entity in panel.rows.entities]
            speaking += [job for job, heard in zip(jobs, recent.tolist(), strict=True) if heard]
            continue
        layer = LAYERS.index(_layer_of(signal))
        expected[:, layer] += np.bincount(panel.rows.entity_code, minlength=size)
        seen[:, layer] += np.bincount(panel.rows.entity_code, weights=recent, minlength=size)
    asks_jobs = any(signal.entity_kind == "job" for signal in catalogue.signals.values())
    place = int(np.searchsorted(scene.members.times, at, side="right")) - 1
    if asks_jobs and place >= 0:
        job = scene.members.job[:, place]
        expected[: len(job), JOB] += job >= 0
        seen[: len(job), JOB] += (job >= 0) & np.isin(job, speaking)
    names = directory.entities.names
    nodes = [i for i in np.flatnonzero(expected[:, :JOB].any(axis=1)).tolist() if names[i].startswith("node/")]
    return Coverage(tuple(names[i].split("/", 1)[1] for i in nodes), seen[nodes], expected[nodes])


def verdicts(coverage: Coverage, denoised: Denoised, catalogue: Catalogue) -> list[Covered]:
    """Every node's layers that the catalogue has signals for, and all of them together.

    *faulty*: a finding of the node speaks through an incident that somebody is told of. *suspect*: one is past its
    boundary, and neither told nor explained by something else. *unknown*: less than half was seen, or nothing ever.
    """
    thought = _thought(denoised, catalogue)
    asked = {_layer_of(signal) for signal in catalogue.signals.values() if signal.entity_kind in ("node", "job")}
    layers = [layer for layer in LAYERS if layer in asked]
    overall = coverage.ratios()
    out = []
    for node, seen, expected in zip(coverage.nodes, coverage.seen.tolist(), coverage.expected.tolist(), strict=True):
        worst = [thought[node, layer] for layer in (*LAYERS, EVERYTHING) if (node, layer) in thought]
        out.append(Covered(node, EVERYTHING, overall[node], _verdict(overall[node], _worse(worst))))
        for layer in layers:
            i = LAYERS.index(layer)
            had, due = seen[i], expected[i]
            if i == TRAINING:
                had, due = had + seen[JOB], due + expected[JOB]
                if not due:
                    continue  # a node without a job has nothing to train
            ratio = round(had / due, 4) if due else None
            out.append(Covered(node, layer, ratio, _verdict(ratio, thought.get((node, layer)))))
    return out


def _layer_of(signal: Signal) -> str:
    if signal.entity_kind == "job":
        return "training"
    return signal.layer if signal.layer in LAYERS else "system"


def _verdict(ratio: float | None, thought: Verdict | None) -> Verdict:
    """What was found stands, however little was seen."""
    if thought is not None:
        return thought
    return "unknown" if ratio is None or ratio < LEAST else "healthy"


def _worse(found: list[Verdict]) -> Verdict | None:
    return next((verdict for verdict in ("faulty", "suspect") if verdict in found), None)


def _thought(denoised: Denoised, catalogue: Catalogue) -> Mapping[tuple[str, str], Verdict]:
    told = {
        incident.entity.name
        for incident in denoised.memory.open
        if incident.phase is Phase.FIRING and incident.severity.rank and incident.entity.kind == "node"
    }
    out: dict[tuple[str, str], Verdict] = {}
    doubted = [drop.finding for drop in denoised.dropped if drop.reason not in INNOCENT]
    for finding, speaks in [(each, False) for each in doubted] + [(each, True) for each in denoised.kept]:
        if finding.entity.kind != "node":
            continue
        signal = catalogue.get(finding.signal)
        key = (finding.entity.name, signal.layer if signal else EVERYTHING)
        faulty = speaks and finding.entity.name in told
        if faulty or key not in out:
            out[key] = "faulty" if faulty else "suspect"
    return out
