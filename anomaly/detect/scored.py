"""What every detector returns: scores of one panel's rows over the new steps, with what was seen and expected."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from anomaly.clock import Ms
from anomaly.records import Bools, Entity, Floats, Ints

Direction = Literal["high", "low"]


@dataclass(frozen=True, slots=True)
class Profile:
    """What is fixed about one detector on one signal.

    `persist` is how long scores must stay past the boundary before they mean something, `clear` how long below it
    before they stop; `least` how many real samples that takes.
    """

    signal: str
    detector: str
    direction: Direction
    unit: str
    cause: str
    symptom: str
    hard: bool
    asymmetric: bool
    persist: Ms
    clear: Ms
    least: int
    uncertainty: Ms

    @property
    def name(self) -> str:
        return f"{self.signal}:{self.detector}"


@dataclass(frozen=True, slots=True)
class Scored:
    """`score[i, j]` ≥ 0 at `times[j]`, 1.0 being the boundary; NaN where there is no verdict.

    `observed` and `expected` are in the signal's unit, aligned with `score`.
    """

    profile: Profile
    keys: tuple[str, ...]
    entities: tuple[Entity, ...]
    devices: tuple[str, ...]
    times: Ints
    score: Floats
    observed: Floats
    expected: Floats
    doubtful: Bools | None = None
    """Columns of which the source's answer was incomplete: no finding ends on them. None: there are none."""

    _highest: list[Floats] = field(init=False, default_factory=list, compare=False, repr=False)

    def highest(self, first: int, last: int) -> float:
        """The largest score of any row in columns [first, last); NaN for no verdict. Quiet ticks look no further."""
        if not self._highest:
            self._highest.append(np.fmax.reduce(self.score, axis=0, initial=np.nan))
        return float(np.fmax.reduce(self._highest[0][first:last], initial=np.nan))

    def rows_of(self, wanted: Iterable[str]) -> dict[str, int]:
        """Places of the rows named `wanted`, for those that are there."""
        names = set(wanted)
        return {key: i for i, key in enumerate(self.keys) if key in names} if names else {}


def bad_side(deviation: Floats, bad: str) -> Floats:
    """The deviation counted in the bad direction: positive is worse."""
    if bad == "high":
        return deviation
    if bad == "low":
        return -deviation
    return np.abs(deviation)
