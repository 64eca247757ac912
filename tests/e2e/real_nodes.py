"""Real A100 nodes through a real Prometheus, judged by the tool that comes with the data; nothing is tuned for them.

`python -m tests.e2e.real_nodes` replays every open segment and prints the judge's lines; the tests replay a short form.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import needs
from tests.e2e import harness

PIPELINE = """cluster: real
packs: [dcgm, node, rdma]
prometheus: {{url: "{url}", step: 10m}}
schedule: {{score: 10m}}
store: {{path: {directory}/anomaly.duckdb}}
"""
"""Samples lie ten minutes apart; apart from that this is what anybody would write."""


@dataclass(frozen=True)
class Stretch:
    """Nodes and the time over which they are replayed and judged."""

    nodes: tuple[str, ...]
    segments: tuple[str, ...]
    start: str
    end: str


MARCH = Stretch(
    ("ggpu139", "ggpu142", "ggpu143"),
    ("ggpu139_2025-03-14", "ggpu142_2025-03-08", "ggpu143_2025-03-14"),
    "2025-03-14T00:00",
    "2025-03-23T23:50",
)
FEBRUARY = Stretch(("ggpu142",), ("ggpu142_2025-02-10",), "2025-02-10T00:00", "2025-02-19T23:50")
JANUARY = Stretch(("ggpu129",), ("ggpu129_2026-01-02",), "2026-01-02T00:00", "2026-01-21T23:50")

MAINTENANCE_DAYS = Stretch(MARCH.nodes, MARCH.segments, "2025-03-19T00:00", "2025-03-21T23:50")
"""The short form: three XID-79 onsets, and a maintenance day on which every node reboots or vanishes."""

HOT_DAYS = Stretch(JANUARY.nodes, JANUARY.segments, "2026-01-05T12:00", "2026-01-08T12:00")
"""The short form: a GPU that throttles for 41 hours and is then lost."""


def segments_of(stretch: Stretch) -> list[Path]:
    """The files of a stretch; skips the running test where the data is absent."""
    folder = needs.public_data("gwdg_gpu/open") / "segments"
    return [next(folder.glob(f"{name}*.parquet")) for name in stretch.segments]


def replayed(
    stretch: Stretch, directory: Path, segments: Sequence[Path], metrics: str = ".*", patience: float = 300
) -> Path:
    """What `anomaly backtest` says of the stretch, as JSON lines; `metrics` is a regular expression on their names."""
    inventory = needs.public_data("gwdg_gpu/open") / "gpu_inventory.csv"
    loader, text = needs.public_tools("gwdg_openmetrics.py"), directory / "openmetrics"
    load = [sys.executable, str(loader), *map(str, segments), "--inventory", str(inventory), "--out", str(text)]
    span = ["--from", stretch.start[:10], "--to", stretch.end.replace("T", " ")]
    subprocess.run([*load, *span, "--metrics", metrics], check=True, capture_output=True)
    harness.backfill(sorted(text.glob("*.om")), directory / "data")
    pipeline, incidents = directory / "real.yaml", directory / "incidents.jsonl"
    # Samples every ten minutes: Prometheus must look back that far to see them at all.
    with harness.prometheus(directory / "data", flags=("--query.lookback-delta=11m",)) as url:
        pipeline.write_text(PIPELINE.format(url=url, directory=directory))
        span = ["--from", f"{stretch.start}:00Z", "--to", f"{stretch.end}:00Z"]
        arguments = ["backtest", str(pipeline), *span, "--incidents", str(incidents)]
        with harness.anomaly_process(arguments, directory) as process:
            if process.wait(patience):
                raise AssertionError(process.errors())
    return incidents


def verdict(stretch: Stretch, incidents: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The judge's, which ends with 1 where it is not satisfied."""
    judge, events = needs.public_tools("gwdg_judge.py"), needs.public_data("gwdg_gpu/open") / "derived_events.csv"
    judging = [sys.executable, str(judge), str(incidents), str(events), "--nodes", ",".join(stretch.nodes), *options]
    span = ["--from", stretch.start, "--to", stretch.end]
    return subprocess.run([*judging, *span], check=False, capture_output=True, text=True)


def judged(stretch: Stretch, directory: Path) -> str:
    """The judge's line on what `anomaly backtest` says of the stretch. Raises when the judge is not satisfied."""
    incidents = replayed(stretch, directory, segments_of(stretch))
    done = verdict(stretch, incidents, "--strict")
    line = done.stdout.strip() or done.stderr.strip()
    if done.returncode:
        raise AssertionError(f"{line}\n{incidents.read_text()}")
    return line


def main() -> None:
    """Every open segment, one line each."""
    for stretch in (MARCH, FEBRUARY, JANUARY):
        with tempfile.TemporaryDirectory() as directory:
            line = judged(stretch, Path(directory))
        sys.stdout.write(f"{','.join(stretch.nodes)} {stretch.start} – {stretch.end}: {line}\n")


if __name__ == "__main__":
    main()
