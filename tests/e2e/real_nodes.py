"""Real A100 nodes through a real Prometheus, judged by the tool that comes with the data; nothing is tuned for them.

`python -m tests.e2e.real_nodes` replays every open segment and prints the judge's lines; the tests replay a short form.
"""

import subprocess
import sys
import tempfile
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


def judged(stretch: Stretch, directory: Path) -> str:
    """The judge's line on what `anomaly backtest` says of the stretch. Raises when the judge is not satisfied."""
    data, loader = needs.public_data("gwdg_gpu/open"), needs.public_tools("gwdg_openmetrics.py")
    judge = needs.public_tools("gwdg_judge.py")
    segments = [str(next((data / "segments").glob(f"{name}*.parquet"))) for name in stretch.segments]
    day_before = stretch.start[:10]
    inventory, text = str(data / "gpu_inventory.csv"), directory / "openmetrics"
    load = [sys.executable, str(loader), *segments, "--inventory", inventory, "--out", str(text)]
    subprocess.run(
        [*load, "--from", day_before, "--to", stretch.end.replace("T", " ")], check=True, capture_output=True
    )
    harness.backfill(sorted(text.glob("*.om")), directory / "data")
    pipeline, incidents = directory / "real.yaml", directory / "incidents.jsonl"
    # Samples every ten minutes: Prometheus must look back that far to see them at all.
    with harness.prometheus(directory / "data", flags=("--query.lookback-delta=11m",)) as url:
        pipeline.write_text(PIPELINE.format(url=url, directory=directory))
        span = ["--from", f"{stretch.start}:00Z", "--to", f"{stretch.end}:00Z"]
        arguments = ["backtest", str(pipeline), *span, "--incidents", str(incidents)]
        with harness.anomaly_process(arguments, directory) as process:
            if process.wait(300):
                raise AssertionError(process.errors())
    events = str(data / "derived_events.csv")
    judging = [sys.executable, str(judge), str(incidents), events, "--nodes", ",".join(stretch.nodes), "--strict"]
    done = subprocess.run(
        [*judging, "--from", stretch.start, "--to", stretch.end], check=False, capture_output=True, text=True
    )
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
