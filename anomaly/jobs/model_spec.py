"""The spec of a model: `models/node-forest.yaml`, or the user's own in the state directory, read strictly."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from anomaly import strict_yaml
from anomaly.clock import DAY, HOUR, MINUTE
from anomaly.config.problems import explain
from anomaly.config.types import Duration, Number, Section, Text, Whole, refusal
from anomaly.errors import ConfigError
from anomaly.features.cube import FEATURES

NODE_FOREST = "node-forest"
"""The one model there is."""


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    strangers = [name for name in names if name not in FEATURES]
    if strangers:
        raise refusal(f"there is no feature {strangers[0]!r}; there are {', '.join(FEATURES)}")
    if len(set(names)) < len(names):
        raise refusal("names a feature twice; keep one")
    return tuple(sorted(names))


Share = Annotated[Number, Field(gt=0, lt=1)]


class Minimum(Section):
    """Below this there is no model."""

    history: Duration = Field(default=6 * HOUR, description="From the first to the last usable window")
    windows: Annotated[Whole, Field(ge=100)] = Field(default=2000, description="Usable windows, all nodes together")


class LeftOut(Section):
    """What is not learnt from: the neighbourhood of findings."""

    margin: Duration = Field(default=15 * MINUTE, description="Before and after a finding")
    most: Share = Field(default=0.2, description="At most this share, so that a new normal is learnt")


class Forest(Section):
    """The isolation forest."""

    trees: Annotated[Whole, Field(ge=10, le=1000)] = Field(default=100, description="Trees")
    samples: Annotated[Whole, Field(ge=32, le=10_000)] = Field(default=256, description="Windows that a tree sees")
    seed: Annotated[Whole, Field(ge=0, lt=2**31)] = Field(default=7, description="Same seed and data, same forest")


class ModelSpec(Section):
    """What a model is made of. Durations are nominal, as the pipeline file would write them at `time_scale` 1."""

    model: Literal["node-forest"] = Field(description="Name of the model")
    schedule: Literal["train"] = Field(default="train", description="Entry of the pipeline's `schedule` that trains it")
    features: Annotated[tuple[Text, ...], AfterValidator(_known), Field(min_length=3)] = Field(
        description="Names of features; their order makes no difference"
    )
    window: Duration = Field(default=5 * MINUTE, description="Each value is made of so much time")
    history: Duration = Field(default=DAY, description="The most that is learnt from")
    minimum: Minimum = Field(default=Minimum(), description="What a model needs")
    left_out: LeftOut = Field(default=LeftOut(), description="What is not learnt from")
    forest: Forest = Field(default=Forest(), description="The isolation forest")
    held_out: Share = Field(default=0.25, description="Newest share of the history, kept for calibration")
    boundary: Share = Field(default=0.99, description="Quantile of held-out nodes' hourly maxima that counts as 1.0")
    keep: Annotated[Whole, Field(ge=1, le=1000)] = Field(default=5, description="Versions that are kept")

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if not MINUTE <= self.window <= 15 * MINUTE:
            raise refusal("must be between 1m and 15m", "window")
        if self.minimum.history > self.history:
            raise refusal("must not be longer than history", "minimum", "history")
        return self

    @property
    def digest(self) -> str:
        """A hash of everything in it."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def load_spec(state_models: Path) -> ModelSpec:
    """The user's own `node-forest.yaml` in the state directory's `models/`, else the one that ships with the program.

    Raises ConfigError with every problem in it.
    """
    document = strict_yaml.read(_spec_file(state_models))
    if not isinstance(document.data, dict):
        what = "must hold keys and values; begin with a copy of models/node-forest.yaml"
        raise strict_yaml.failure(document.file, (*document.problems, document.problem((), what)))
    try:
        spec = ModelSpec.model_validate(document.data)
    except ValidationError as error:
        found = [problem for _, problem in explain(error, document, ModelSpec, told=document.suspect)]
        raise strict_yaml.failure(document.file, (*document.problems, *found)) from error
    if document.problems:
        raise strict_yaml.failure(document.file, document.problems)
    return spec


def _spec_file(state_models: Path) -> Path:
    package = Path(__file__).parents[1]
    folders = (state_models, package / "_starter" / "models", package.parent / "models")
    for folder in folders:
        if (folder / f"{NODE_FOREST}.yaml").is_file():
            return folder / f"{NODE_FOREST}.yaml"
    raise ConfigError("this installation lacks models/node-forest.yaml", "install anomaly again")
