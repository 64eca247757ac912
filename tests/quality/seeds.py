"""The one file that says which seeds and kinds report, and which may be tuned on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("seeds.yaml")


@dataclass(frozen=True)
class Seeds:
    """Ranges are inclusive. `kept_out` names drills, faults and noise alike."""

    tuning: range
    reporting: range
    quick: tuple[int, ...]
    full: tuple[int, ...]
    kept_out: frozenset[str]

    def drawn(self, quick: bool) -> tuple[int, ...]:
        return self.quick if quick else self.full


def read_seeds(file: Path = FILE) -> Seeds:
    """What stands in the file. Raises KeyError or TypeError where it is not of that form."""
    raw: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    reporting, kept = raw["reporting"], raw["kept_out"]
    return Seeds(
        tuning=_range(raw["tuning"]),
        reporting=_range(reporting),
        quick=tuple(reporting["quick"]),
        full=tuple(reporting["full"]),
        kept_out=frozenset([*kept["faults"], *kept["noise"]]),
    )


def _range(raw: dict[str, int]) -> range:
    return range(raw["first"], raw["last"] + 1)
