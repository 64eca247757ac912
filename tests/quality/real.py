"""Real A100 nodes through a real Prometheus, with less and less to go by."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import real_nodes
from tests.e2e.real_nodes import Stretch
from tests.quality.markdown import of, table

PATIENCE = 1800.0


@dataclass(frozen=True)
class Tier:
    """What of the metrics the pipeline gets: a regular expression on names, and whether gaps are filled."""

    name: str
    metrics: str = ".*"
    filled: bool = False


TIERS = (
    Tier("all metrics"),
    Tier("without XID", r"(?!DCGM_FI_DEV_XID_ERRORS$).*"),
    Tier("numbers only", r"(?!(?:DCGM_FI_DEV_XID_ERRORS|up)$|scrape_).*", filled=True),
)
"""As the data's page defines them: the first is a rule, the last is anomaly detection."""

FULL = (real_nodes.MARCH, real_nodes.FEBRUARY, real_nodes.JANUARY)
QUICK = (real_nodes.MAINTENANCE_DAYS,)


def section(quick: bool, said: Callable[[str], None]) -> str:
    """The part of the table as Markdown. Skips, as a test does, where data or a binary is absent."""
    rows = []
    for tier in TIERS:
        found = []
        for stretch in QUICK if quick else FULL:
            found.append(judged(stretch, tier))
            said(f"real nodes, {tier.name}: {','.join(stretch.nodes)} from {stretch.start}: {found[-1]}")
        rows.append([tier.name, *_figures(found)])
    head = ["input", "lost GPUs found", "throttling found", "false pages", "false tickets", "storms", "node-days"]
    return "\n\n".join([table(head, rows), NOTE])


NOTE = """Judged by the tool that comes with the data: a lost GPU (XID 79) is found by a page on its node from ten
minutes before to twenty after, throttling by a page or ticket within the hour. `numbers only` has no XID, no `up`, no
`scrape_*`, and gaps are filled with the last value, so that nothing is ever missing: a lost GPU is then one whose
readings stand still, and samples lie ten minutes apart."""


def judged(stretch: Stretch, tier: Tier) -> dict[str, Any]:
    """What the judge says, as its JSON has it."""
    with tempfile.TemporaryDirectory(prefix="anomaly-quality-") as folder:
        directory = Path(folder)
        segments = real_nodes.segments_of(stretch)
        if tier.filled:
            segments = [_filled(segment, directory / "filled") for segment in segments]
        incidents = real_nodes.replayed(stretch, directory, segments, tier.metrics, PATIENCE)
        done = real_nodes.verdict(stretch, incidents, "--json")
    if not done.stdout:
        raise AssertionError(done.stderr)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _filled(segment: Path, folder: Path) -> Path:
    """A copy in which every series repeats its last value where it has none."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    pd.read_parquet(segment).ffill().to_parquet(folder / segment.name)
    return folder / segment.name


def _figures(found: list[dict[str, Any]]) -> list[str]:
    def total(name: str) -> int:
        return sum(int(one[name]) for one in found)

    return [
        of(total("found"), total("xid79")),
        of(total("throttle_found"), total("throttle")),
        str(total("false_pages")),
        str(total("false_tickets")),
        str(sum(bool(one["storm"]) for one in found)),
        f"{sum(one['node_days'] for one in found):.0f}",
    ]
