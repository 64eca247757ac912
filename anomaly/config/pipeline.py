"""The pipeline file as one validated, frozen spec."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, model_validator

from anomaly.clock import HOUR, SECOND, Ms
from anomaly.config.checks import misfits
from anomaly.config.masking import masked
from anomaly.config.scaling import scaled_copy
from anomaly.config.sections import (
    Alertmanager,
    Budget,
    Engine,
    Jobs,
    JsonLines,
    Log,
    Names,
    Nodes,
    Prometheus,
    Schedule,
    Simulate,
    Store,
    Topology,
    Web,
    Webhook,
)
from anomaly.config.types import ClusterName, Duration, Factor, FilePath, Section, Text, refusals
from anomaly.errors import Problem
from anomaly.strict_yaml import Document, KeyPath, format_path


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a spec came from, so that rooms further up can name file and line of what they find wrong."""

    document: Document
    warnings: tuple[Problem, ...]


class Pipeline(Section):
    """One pipeline: a cluster, one source of samples, what to look at, whom to tell. See `pipelines/README.md`.

    Durations are milliseconds. A spec from `load_pipeline` has `time_scale` applied to its own durations already;
    durations that rooms define themselves go through `scale`.
    """

    cluster: ClusterName = Field(description="Name of the cluster; becomes a label of every alert")
    packs: Annotated[Names, Field(min_length=1)] = Field(description="Signal packs to use, one an exporter")
    prometheus: Prometheus | None = Field(default=None, description="Source: Prometheus. Exactly one source is needed")
    simulate: Simulate | None = Field(default=None, description="Source: a simulated cluster")
    stored: FilePath | None = Field(
        default=None, description="Source: a directory of stored data to replay, relative to the working directory"
    )
    signals: dict[Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")], dict[Text, Any]] = Field(
        default_factory=dict,
        description="Signals to add, or entries of a pack's signals to override, by name; keys: docs/signals.md",
    )
    topology: Topology | None = Field(
        default=None, description="What nodes share; without it no shared cause but jobs is seen"
    )
    nodes: Nodes = Field(default=Nodes(), description="Names of nodes")
    jobs: Jobs = Field(default=Jobs(), description="How training jobs are recognised")
    budget: Budget = Field(default=Budget(), description="How much noise is accepted")
    schedule: Schedule = Field(default=Schedule(), description="When each job runs")
    alertmanagers: tuple[Alertmanager, ...] = Field(default=(), description="Every Alertmanager that gets every alert")
    webhooks: tuple[Webhook, ...] = Field(default=(), description="HTTP receivers of incidents as JSON")
    jsonl: JsonLines | None = Field(default=None, description="Incidents as JSON lines in a file")
    store: Store = Field(default=Store(), description="Where state lives and how long")
    engine: Engine = Field(default=Engine(), description="What the work of a tick runs on")
    context: Duration = Field(default=2 * HOUR, description="History that the first start collects and replays")
    catch_up: Duration = Field(default=6 * HOUR, description="At most this much is replayed after a downtime")
    web: Web = Field(default=Web(), description="The service's own HTTP door")
    log: Log = Field(default=Log(), description="What the service writes to standard error")
    time_scale: Factor = Field(
        default=Fraction(1),
        description='Every duration is multiplied by this, time-outs apart. For tests: "1/15" turns 15 s into 1 s',
    )

    _origin: Origin | None = PrivateAttr(None)
    _written: "Pipeline | None" = PrivateAttr(None)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        found = misfits(self)
        if found:
            raise refusals(found)
        return self

    @property
    def step(self) -> Ms:
        """The floor of every interval. Stored data says its own; until then the default."""
        source = self.prometheus or self.simulate
        return source.step if source else self.scale(15 * SECOND)

    @property
    def tick(self) -> Ms:
        """The time from one tick to the next."""
        return max(self.schedule.score, self.step)

    @property
    def state_dir(self) -> Path:
        """The directory that holds the database, and beside it `published/`, `inbox/` and `models/`."""
        return self.store.path.parent

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed but probably not meant."""
        return self._origin.warnings if self._origin else ()

    def problem(self, path: KeyPath, what: str) -> Problem:
        """A mistake at `path` of the file this spec came from, with its line, for `errors.ConfigError`."""
        if self._origin is None:
            return Problem("pipeline", 0, format_path(path), what)
        return self._origin.document.problem(path, what)

    def scale(self, duration: Ms) -> Ms:
        """A duration that a room defines itself, under this pipeline's `time_scale`; at least 1 ms."""
        return max(1, round(duration * self.time_scale)) if duration else 0

    def scaled(self) -> "Pipeline":
        """This spec with `time_scale` applied to every duration in it. Applying it again changes nothing."""
        if self._written is not None:
            return self
        out = scaled_copy(self, self.scale)
        out._origin, out._written = self._origin, self
        return out

    @property
    def written(self) -> "Pipeline":
        """This spec as it stands in the file, before `time_scale`."""
        return self._written or self

    def dump_masked(self) -> dict[str, Any]:
        """Every key as it would be written in a file, secrets as `<secret>`."""
        return masked(self.written)
