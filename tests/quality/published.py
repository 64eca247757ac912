"""Published VUS-PR of other detectors, per file, and which of their files are ours."""

import csv
from dataclasses import dataclass
from pathlib import Path

NOT_DETECTORS = {"file", "ts_len", "anomaly_len", "num_anomaly", "avg_anomaly_len", "anomaly_ratio", "point_anomaly",
                 "seq_anomaly"}  # fmt: skip


@dataclass(frozen=True)
class Published:
    """VUS-PR by detector for one file."""

    figures: dict[str, float]

    @property
    def best(self) -> tuple[str, float]:
        return max(self.figures.items(), key=lambda item: item[1])

    @property
    def median(self) -> float:
        ordered = sorted(self.figures.values())
        return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def published(folder: Path, table: str, mapping: str, column: str) -> dict[str, Published]:
    """By our name of the file; files that nobody published are not in it."""
    rows = {row["file"]: row for row in _rows(folder / table)}
    out = {}
    for pair in _rows(folder / mapping):
        if pair["tsb_file"] in rows:
            row = rows[pair["tsb_file"]]
            out[pair[column]] = Published({k: float(v) for k, v in row.items() if k not in NOT_DETECTORS and v})
    return out


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))
