"""NAB: single series, judged one after the other as they come; thresholds are fixed on other files.

Every detector's score becomes alarms in the same way: the first step past the threshold is one, and the next may come
once the score has stayed below for `CLEAR` steps. Leave one file out: the threshold for a file is the one with the
highest NAB score (standard profile) on all other files, then the left-out file is scored with it.
"""

import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anomaly.clock import MINUTE, SECOND, Ms
from anomaly.records import Floats
from tests.needs import public_data, public_tools
from tests.quality.markdown import number, table
from tests.quality.plain import PLAIN, windows
from tests.quality.published import Published, published
from tests.quality.series import scaled, shifts
from tests.quality.vus import period, vus_pr

OURS = "ours: shift"
CLEAR = 10
PROBATION = 0.15
"""Share of a file that NAB gives to learn from, 750 rows at most; nothing is scored there."""
WINDOW = 16
"""Steps that the plain detectors for rows see of a single series (mean |z| sees the value itself)."""
PROFILE = "standard"
QUICK = 6
THRESHOLDS = 60


@dataclass(frozen=True)
class File:
    """One series with what NAB wants found. `scores` by detector, on each detector's own scale."""

    name: str
    times: Sequence[Any]
    values: Floats
    windows: Sequence[Sequence[str]]
    scores: Mapping[str, Floats]


def read(path: Path, name: str, wanted: Sequence[Sequence[str]]) -> File:
    import pandas as pd

    frame = pd.read_csv(path, parse_dates=["timestamp"])
    values = frame["value"].to_numpy(float)
    learnt = min(int(PROBATION * len(values)), 750)
    seconds = float(frame["timestamp"].diff().dt.total_seconds().median())
    step = max(MINUTE, int(seconds) * SECOND)
    rows = windows(values, WINDOW)
    scores = {OURS: _ours(values, learnt, step)}
    for who, judge in PLAIN.items():
        scores[who] = judge(values[:, None] if who == "mean abs z" else rows, learnt)
    return File(
        name, list(frame["timestamp"]), values, wanted, {who: _comparable(s, learnt) for who, s in scores.items()}
    )


def _ours(values: Floats, learnt: int, step: Ms) -> Floats:
    return np.asarray(np.nan_to_num(shifts(scaled(values[None, :], learnt), step).score[0]))


def _comparable(score: Floats, learnt: int) -> Floats:
    """In units of the largest score while learning, so that one threshold can serve many files."""
    return np.asarray(score / max(float(np.quantile(score[:learnt], 0.999)), 1e-9))


def alarms(score: Floats, threshold: float) -> Floats:
    """1.0 at the first step of each alarm, 0.0 elsewhere."""
    out = np.zeros(len(score))
    last = -CLEAR - 1
    for i in np.flatnonzero(score >= threshold).tolist():
        if i - last > CLEAR:
            out[i] = 1.0
        last = i
    return out


def scorer(file: Path) -> Any:
    """The tool that comes with the data; it reproduces the published numbers."""
    spec = importlib.util.spec_from_file_location("nab_score", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Outcome:
    """A detector on all files: the NAB score, thresholds fixed elsewhere, and each file's part of it."""

    score: float
    ideal: float
    """The same with one threshold fixed on these very files, as the published figures are."""
    per_file: Mapping[str, float]


def judged(files: Sequence[File], who: str, nab: Any) -> Outcome:
    prepared = {file.name: (*nab.prep(file.times, file.windows), len(file.windows)) for file in files}
    grid = np.unique(np.quantile(np.concatenate([f.scores[who] for f in files]), np.linspace(0.9, 1.0, THRESHOLDS)))
    raw = np.zeros((len(files), len(grid)))
    counted = np.zeros(len(files), int)
    for f, file in enumerate(files):
        for t, threshold in enumerate(grid.tolist()):
            corpus = [(alarms(file.scores[who], threshold), *prepared[file.name])]
            raw[f, t], counted[f] = nab.raw(corpus, 0.5, PROFILE)
    hit, miss, _ = nab.PROFILES[PROFILE]
    total = int(counted.sum())

    def normal(points: float) -> float:
        return float(100 * (points + total * miss) / (total * (hit + miss)))

    chosen = [int(np.argmax(raw.sum(axis=0) - raw[f])) for f in range(len(files))]
    own = {file.name: float(raw[f, chosen[f]]) for f, file in enumerate(files)}
    return Outcome(normal(sum(own.values())), normal(float(raw.sum(axis=0).max())), own)


def section(quick: bool, said: Callable[[str], None]) -> str:
    """The part of the table as Markdown. Skips, as a test does, where the data is absent."""
    data = public_data("nab")
    nab = scorer(public_tools("nab_score.py"))
    wanted = json.loads((data / "open/labels/combined_windows.json").read_text(encoding="utf-8"))
    names = sorted(name for name in wanted if (data / "open/data" / name).exists())
    names = [name for name in names if wanted[name]][:: max(1, len(names) // QUICK)] if quick else names
    files = []
    for name in names:
        files.append(read(data / "open/data" / name, name, wanted[name]))
        said(f"nab: {name}")
    detectors = [OURS, *PLAIN]
    found = {who: judged(files, who, nab) for who in detectors}
    rows = [[who, number(one.score, 1), number(one.ideal, 1)] for who, one in found.items()]
    head = ["NAB, standard profile", "threshold from other files", "threshold from these files"]
    known = published(public_data("tsb_ad_published"), "uni_mergedTable_VUS-PR.csv", "nab_mapping.csv", "nab_file")
    return "\n\n".join([table(head, rows), _published(data.parent), _per_file(files, found, known), NOTE])


NOTE = f"""Leave one file out. Ours is `detect.shift` against `detect.habit` with `detect.runs`: one series has no peers
and no relations, so the rest of the product has nothing to say. It knows no day and no week. Scores of every detector
are in units of what it gave while learning (the first 15 %), and become alarms alike: one at the first step past the
threshold, the next after {CLEAR} quiet steps. Per file: points (each window is worth between -1, missed, and 1, found
at its beginning; false alarms cost 0.11 each), then VUS-PR with NAB's windows as labels."""


def _published(folder: Path) -> str:
    """What the data's own page says of published detectors on the same files."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    found = re.search(r"published row scores:\s*([^.]*\d(?:\.\d)?[^.]*(?:\.\d[^.]*)*)\.", text)
    return f"Published detectors, threshold from these files: {' '.join(found.group(1).split())}." if found else ""


def _per_file(files: Sequence[File], found: Mapping[str, Outcome], known: Mapping[str, Published]) -> str:
    rows = []
    for file in files:
        points = [number(one.per_file[file.name]) for one in found.values()]
        rows.append([file.name, str(len(file.windows)), *points, *_surface(file, list(found), known.get(file.name))])
    head = ["file", "windows", *found, *(f"VUS-PR {who}" for who in found), "published median", "published best"]
    return table(head, rows)


def _surface(file: File, detectors: Sequence[str], one: Published | None) -> list[str]:
    others = ["", ""] if one is None else [number(one.median), f"{number(one.best[1])} ({one.best[0]})"]
    labels = np.zeros(len(file.times), bool)
    place = {str(at): i for i, at in enumerate(file.times)}
    for first, last in file.windows:
        labels[place[first[:19]] : place[last[:19]] + 1] = True
    if not labels.any():
        return [""] * len(detectors) + others
    window = period(file.values)
    return [number(vus_pr(labels, file.scores[who], window)) for who in detectors] + others
