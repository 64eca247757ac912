"""What forest and statistics say together: the forest lowers the boundary of the symptom class that it points at."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from anomaly.clock import Ms
from anomaly.detect.forest import Opinions
from anomaly.detect.runs import Run
from anomaly.detect.scored import Profile, Scored
from anomaly.records import Finding

FOREST = "forest"
SUFFIX = f"+{FOREST}"

LOWERED = 0.75
"""The boundary of a statistical score in a class that the forest points at, as a share of its own boundary."""

LEAST = 3
"""Ticks past its boundary after which the forest counts."""

HELD_WINDOWS = 2
"""The forest points at a class for so many windows after it last did: features and statistics lag differently."""

PERSIST_WINDOWS = 2
"""A verdict of the forest means something once it has lasted so many windows, and ends after as many below."""

COMPLETED = ("peers", "shift")
"""Detectors whose findings the forest may complete; the others state facts."""


def forest_profile(symptom: str, window: Ms) -> Profile:
    """The forest's own finding in one symptom class."""
    return Profile(
        signal=f"{symptom}_pattern",
        detector=FOREST,
        direction="high",
        unit="of boundary",
        cause="unknown",
        symptom=symptom,
        hard=False,
        asymmetric=True,
        persist=PERSIST_WINDOWS * window,
        clear=PERSIST_WINDOWS * window,
        least=LEAST,
        uncertainty=window,
    )


def completed_profile(base: Profile) -> Profile | None:
    """The profile of what the forest completes, for a soft finding that names its node; None for any other."""
    if base.detector not in COMPLETED or base.hard or not base.asymmetric:
        return None
    return replace(base, detector=base.detector + SUFFIX)


def forest_scored(opinions: Opinions, symptom: str, window: Ms) -> Scored:
    """The forest's scores of one class, in the form of any detector's."""
    score = opinions.scores_of(symptom)
    # A node that is there and does not work can be seen but not judged: its run ends in time.
    observed = np.where(np.isnan(score) & opinions.seen, 0.0, score)
    keys = tuple(f"{node}|" for node in opinions.nodes)
    devices = ("",) * len(keys)
    boundary = np.ones(score.shape)
    return Scored(
        forest_profile(symptom, window), keys, opinions.nodes, devices, opinions.times, score, observed, boundary
    )


def pointed_nodes(runs: Mapping[str, Run], at: Ms, window: Ms) -> frozenset[str]:
    """The nodes at which the forest points at `at`, from its runs in one symptom class."""
    return frozenset(
        run.entity.name for run in runs.values() if run.past >= LEAST and at - run.last <= HELD_WINDOWS * window
    )


def complete(
    verdict: Scored, first: int, last: int, pointed: frozenset[str], running: Mapping[str, Run]
) -> Scored | None:
    """Columns [first, last) of a statistic, its boundary lowered on the nodes at which the forest points in its class.

    Rows that only have a run (of the completed kind) keep their scores below the boundary, so that it ends in time.
    None where there is nothing to complete.
    """
    profile = completed_profile(verdict.profile)
    if profile is None or not (pointed or running):
        return None
    rows = [
        i
        for i, entity in enumerate(verdict.entities)
        if (entity.kind == "node" and entity.name in pointed) or verdict.keys[i] in running
    ]
    if not rows:
        return None
    score = verdict.score[rows, first:last]
    mask = np.array([verdict.entities[i].name in pointed for i in rows])[:, None]
    score = np.where(mask, score / LOWERED, np.minimum(score, LOWERED))
    return Scored(
        profile,
        tuple(verdict.keys[i] for i in rows),
        tuple(verdict.entities[i] for i in rows),
        tuple(verdict.devices[i] for i in rows),
        verdict.times[first:last],
        score,
        verdict.observed[rows, first:last],
        verdict.expected[rows, first:last],
        None if verdict.doubtful is None else verdict.doubtful[first:last],
    )


def fuse(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Without what is said twice: a completed finding gives way to the same one that stands without the forest."""
    own = {finding.key for finding in findings}
    return tuple(
        finding
        for finding in findings
        if not finding.detector.endswith(SUFFIX) or (*finding.key[:4], finding.detector.removesuffix(SUFFIX)) not in own
    )
