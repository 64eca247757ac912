"""SMD and ASD, VUS-PR per file: servers with many metrics whose names nobody knows."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import MINUTE, Ms
from anomaly.records import Floats
from tests.needs import public_data
from tests.quality.markdown import number, table
from tests.quality.plain import PLAIN
from tests.quality.published import Published, published
from tests.quality.series import forest_scores, scaled, shifts
from tests.quality.vus import period, vus_pr

OURS = ("shift, highest", "forest")
STEPS: dict[str, Ms] = {"smd8": MINUTE, "asd": 5 * MINUTE}
QUICK = (("asd", 2), ("smd8", 1))
"""How many files of each the quick form takes."""


@dataclass(frozen=True)
class File:
    """Metrics × steps, the first `learnt` without labels; `labels` for the others."""

    name: str
    values: Floats
    learnt: int
    labels: NDArray[np.bool_]
    step: Ms


def read(path: Path, step: Ms) -> File:
    import pandas as pd

    frame = pd.read_parquet(path)
    metrics = sorted(
        (name for name in frame.columns if name[0] == "m" and name[1:].isdigit()), key=lambda m: int(m[1:])
    )
    test = (frame["split"] == "test").to_numpy()
    values = np.concatenate([frame.loc[~test, metrics].to_numpy(float), frame.loc[test, metrics].to_numpy(float)])
    return File(path.stem, values.T, int((~test).sum()), frame.loc[test, "label"].to_numpy(float) > 0, step)


def our_scores(file: File) -> dict[str, Floats]:
    """The test part's scores: the highest shift over all metrics, and the forest on all changes."""
    judged = shifts(scaled(file.values, file.learnt), file.step)
    shift = np.nan_to_num(judged.score).max(axis=0)[file.learnt :]
    forest = np.nan_to_num(forest_scores(judged.change, file.learnt))[file.learnt :]
    return dict(zip(OURS, (shift, forest), strict=True))


def figures(file: File) -> dict[str, float]:
    """VUS-PR by detector, ours first."""
    rows = file.values.T
    scores = our_scores(file) | {name: judge(rows, file.learnt)[file.learnt :] for name, judge in PLAIN.items()}
    # The window as the published tables have it, from the test part's first metric.
    window = period(rows[file.learnt :, 0])
    return {name: vus_pr(file.labels, score, window) for name, score in scores.items()}


def section(quick: bool, said: Callable[[str], None]) -> str:
    """The part of the table as Markdown. Skips, as a test does, where the data is absent."""
    known = published(public_data("tsb_ad_published"), "multi_mergedTable_VUS-PR.csv", "smd_mapping.csv", "smd_machine")
    parts = []
    for name, step in STEPS.items():
        paths = sorted((public_data(name) / "open").glob("*-*.parquet"))
        if quick:
            paths = paths[: dict(QUICK)[name]]
        found: dict[str, dict[str, float]] = {}
        for path in paths:
            found[path.stem] = figures(read(path, step))
            said(f"{name} {path.stem}: {', '.join(f'{who} {one:.3f}' for who, one in found[path.stem].items())}")
        parts.append(_table(name, found, known))
    return "\n\n".join([*parts, NOTE])


NOTE = """Ours are production kernels without peers, load or causes: `detect.shift` against `detect.habit` with
`detect.runs` on every metric, `detect.forest` on the changes that leaves. Everything is causal: scores at a step use
the past alone, and what is learnt is learnt on the unlabelled part. Published detectors are fitted on the very series
that they score, or on its first quarter; their figures are those of TSB-AD for the same file."""


def _table(data: str, found: dict[str, dict[str, float]], known: dict[str, Published]) -> str:
    names = list(next(iter(found.values())))
    rows = [[file, *(number(one[name]) for name in names), *_others(known.get(file))] for file, one in found.items()]
    if len(found) > 1:
        means = [number(float(np.mean([one[name] for one in found.values()]))) for name in names]
        rows.append(["mean", *means, "", ""])
    head = [data, *(f"ours: {name}" if name in OURS else name for name in names), "published median", "published best"]
    return table(head, rows)


def _others(one: Published | None) -> list[str]:
    return ["", ""] if one is None else [number(one.median), f"{number(one.best[1])} ({one.best[0]})"]
