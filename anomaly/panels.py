"""Panels: the dense matrices that features build and detectors read."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anomaly.records import Entity, Floats, Ints


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one panel: who they are, by name and (for kernels) by code."""

    entities: tuple[Entity, ...]
    devices: tuple[str, ...]
    keys: tuple[str, ...]
    """A name of each row that outlives restarts."""
    entity_code: NDArray[np.int32]
    device_code: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.entities)


@dataclass(frozen=True, slots=True)
class Panel:
    """`values[i, j]`: row i at `times[j]`; NaN is "no sample" or "not believed", never zero.

    Columns from `first` on are to be judged; those before are context. `dropped` counts values set aside, by reason.
    """

    signal: str
    rows: Rows
    times: Ints
    values: Floats
    first: int
    dropped: Mapping[str, int]

    @property
    def new_times(self) -> Ints:
        return self.times[self.first :]

    @property
    def new_values(self) -> Floats:
        return self.values[:, self.first :]
