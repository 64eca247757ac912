"""A scenario as OpenMetrics text for `promtool tsdb create-blocks-from openmetrics`."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from anomaly.clock import HOUR, SECOND, Ms, align_down
from anomaly.records import Bools, Floats
from anomaly.source.simulated.exposition import Exposition, Matrix
from anomaly.source.simulated.scenario import Scenario

PIECE: Ms = 2 * HOUR
"""Length of a Prometheus block: promtool goes through a file once for each block that it touches."""


def write_openmetrics(
    scenario: Scenario, directory: Path, start: Ms | None = None, end: Ms | None = None
) -> list[Path]:
    """The scenario's scrapes in [start, end] as files in `directory`, one a two-hour block; their paths in order.

    Every type is `unknown`: OpenMetrics would append its own suffixes to a counter's name, and names must stay as the
    exporters have them. An existing file of the same name is replaced.
    """
    low = scenario.start if start is None else max(start, scenario.start)
    high = scenario.end if end is None else min(end, scenario.end)
    directory.mkdir(parents=True, exist_ok=True)
    exposition = Exposition(scenario.cluster)
    paths = []
    for begin in range(align_down(low, PIECE), high + 1, PIECE):
        first, last = max(begin, low), min(begin + PIECE - 1, high)
        path = directory / f"simulated-{first // SECOND}.om"
        with path.open("w", encoding="utf-8") as out:
            for name in exposition.names:
                out.writelines(_family(exposition.matrix(scenario.simulation, name, first, last)))
            out.write("# EOF\n")
        paths.append(path)
    return paths


def _family(matrix: Matrix) -> Iterator[str]:
    yield f"# TYPE {matrix.name} unknown\n"
    times = matrix.first + matrix.scrape * np.arange(matrix.values.shape[1], dtype=np.int64)
    stamps = [f" {t // 1000}.{t % 1000:03d}\n" if t % 1000 else f" {t // 1000}\n" for t in times.tolist()]
    for key, row in zip(matrix.keys, matrix.values, strict=True):
        labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in key)
        head = f"{matrix.name}{{{labels}}} "
        present = ~np.isnan(row)
        if present.all():
            yield "".join([f"{head}{value!r}{stamp}" for value, stamp in zip(row.tolist(), stamps, strict=True)])
        elif present.any():
            yield "".join(
                [f"{head}{row_value!r}{stamps[at]}" for at, row_value in zip(*_some(row, present), strict=True)]
            )


def _some(row: Floats, present: Bools) -> tuple[list[int], list[float]]:
    return np.flatnonzero(present).tolist(), row[present].tolist()


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
