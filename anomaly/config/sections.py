"""The sections of a pipeline file, validated and frozen. Descriptions are also the text of `pipelines/README.md`."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from anomaly.clock import DAY, HOUR, MINUTE, SECOND, Ms, format_duration
from anomaly.config.http import HttpConfig
from anomaly.config.types import (
    Duration,
    DurationOrZero,
    FilePath,
    Instant,
    LabelName,
    Listen,
    Masked,
    Named,
    Number,
    Section,
    Text,
    TimeOfDay,
    Timeout,
    Url,
    WebhookUrl,
    Whole,
    refusal,
)


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise refusal(f"names {twice[0]!r} twice; keep one")
    return values


Names = Annotated[tuple[Text, ...], AfterValidator(_unique)]


def _faults(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | list | tuple):
        raise refusal("must be how many faults to simulate, or a list of their names")
    if isinstance(value, int):
        if not 0 <= value <= 1000:
            raise refusal("must be between 0 and 1000")
        return value
    if not all(isinstance(name, str) and name for name in value):
        raise refusal("must be a list of names of faults")
    return _unique(tuple(value))


Rate = Annotated[Number, Field(gt=0, le=10_000)]
Faults = Annotated[int | tuple[str, ...], BeforeValidator(_faults), Named("number, or list of text")]


class Prometheus(HttpConfig):
    """Where samples come from. HTTP settings stand beside `url`, exactly those of Prometheus' `http_config`."""

    url: Url = Field(description="Address of Prometheus or anything that speaks its query API, path prefix included")
    step: Duration = Field(
        default=15 * SECOND, description="Floor of every interval; a signal's own interval may be longer"
    )
    query_offset: DurationOrZero = Field(
        default=30 * SECOND, description="Data younger than this is not read: it may still change"
    )
    reread: DurationOrZero = Field(
        default=30 * SECOND,
        description="How long fresh data is read again; a step older than `query_offset` + `reread` is final",
    )
    late_check: Duration = Field(
        default=5 * MINUTE, description="How often history is checked for samples that came late"
    )
    timeout: Timeout = Field(default=60 * SECOND, description="Limit of one query; `time_scale` does not shorten it")
    params: dict[Text, Annotated[str, Field(strict=True)]] = Field(
        default_factory=dict,
        repr=False,
        description="Extra parameters of every query, as a backend needs them (`partial_response`, `nocache`, `dedup`)",
    )

    @property
    def final_after(self) -> Ms:
        """The age at which a step is final."""
        return self.query_offset + self.reread


class Simulate(Section):
    """A simulated cluster instead of Prometheus: seeded, with faults and the truth about them."""

    seed: Annotated[Whole, Field(ge=0, lt=2**63)] = Field(description="Same seed, same cluster, same faults")
    nodes: Annotated[Whole, Field(ge=4, le=100_000)] = Field(default=32, description="Nodes of eight GPUs each")
    faults: Faults = Field(default=3, description="How many faults, or a list of their names")
    step: Duration = Field(default=15 * SECOND, description="Interval of the simulated samples")
    start: Instant | None = Field(
        default=None, description="Time of the first sample; without it, chosen by the command"
    )


class Topology(Section):
    """Which nodes share a rack, a leaf switch, a power unit, a storage system. Give `file` or `labels`."""

    file: FilePath | None = Field(
        default=None,
        description="CSV with a `node` column; every other column is a kind of group. Relative to this file",
    )
    labels: dict[LabelName, LabelName] = Field(
        default_factory=dict, description="Kind of group → the Prometheus label that names it: `{rack: rack_id}`"
    )

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.file is None) == (not self.labels):
            raise refusal("needs either file or labels, and not both")
        return self


class Nodes(Section):
    """Names of nodes."""

    aliases: dict[Text, Text] = Field(
        default_factory=dict,
        description="Another name or address of a node, port stripped → the node's name: `{10.0.0.17: gpu-17}`",
    )


class Jobs(Section):
    """Training jobs, the best peer groups there are."""

    labels: Annotated[tuple[LabelName, ...], AfterValidator(_unique)] = Field(
        default=(),
        description="Labels that name a training job, best first; without it the built-in list (`hpc_job`, …)",
    )


class Budget(Section):
    """How much noise the cluster's people accept. Hard faults (an XID, a lost GPU) are outside it."""

    false_pages_per_week: Rate = Field(default=1.0, description="False pages a week, all nodes together")
    false_tickets_per_week: Rate = Field(default=7.0, description="False tickets a week, all nodes together")


class Schedule(Section):
    """When each job runs."""

    collect: Duration = Field(default=MINUTE, description="Between two pulls")
    score: Duration = Field(default=MINUTE, description="Between two ticks; a tick is never shorter than the step")
    deliver: Duration = Field(default=15 * SECOND, description="Between two looks at the outbox")
    train: TimeOfDay = Field(
        default=3 * HOUR + 15 * MINUTE,
        description="Time of day in UTC at which baselines and models are fitted, in quotes",
    )
    publish: Duration = Field(default=5 * MINUTE, description="Between two publications of closed hours for readers")
    prune: Duration = Field(default=HOUR, description="Between two removals of what is older than `store.keep`")


class Alertmanager(HttpConfig):
    """One Alertmanager; list every instance of a cluster, never a load balancer. HTTP settings as in Prometheus."""

    url: Url = Field(description="Address, path prefix included, without /api")
    timeout: Timeout = Field(default=10 * SECOND, description="Limit of one POST; `time_scale` does not shorten it")
    resend: Duration = Field(default=MINUTE, description="A firing alert is sent again this often")
    lease: Duration = Field(
        default=4 * MINUTE,
        description="An alert ends by itself this long after it was last sent; at least 4 × `resend`",
    )

    @model_validator(mode="after")
    def _lease_outlives_resend(self) -> Self:
        if self.lease < 4 * self.resend:
            least = format_duration(4 * self.resend)
            raise refusal(f"must be at least 4 × resend, here {least}, or one lost POST resolves an alert", "lease")
        return self


class Webhook(HttpConfig):
    """An HTTP receiver of incidents as JSON. HTTP settings as in Prometheus."""

    url: Annotated[WebhookUrl | None, Masked()] = Field(
        default=None, repr=False, description="Where incidents are POSTed; shown masked, for it may hold a token"
    )
    url_file: FilePath | None = Field(
        default=None, description="Or a file that holds it, read anew for every POST. Relative to this file"
    )
    timeout: Timeout = Field(default=10 * SECOND, description="Limit of one POST; `time_scale` does not shorten it")

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.url is None) == (self.url_file is None):
            raise refusal("needs either url or url_file, and not both")
        return self


class JsonLines(Section):
    """Incidents appended to a file, one JSON object a line."""

    path: FilePath = Field(description="File to append to, relative to the working directory")


class Keep(Section):
    """How long each kind of data stays."""

    samples: Duration = Field(default=48 * HOUR, description="Samples in the database")
    archive: Duration = Field(default=30 * DAY, description="Samples as Parquet files")
    rollups: Duration = Field(default=90 * DAY, description="Hourly roll-ups, the long memory of baselines")
    findings: Duration = Field(default=365 * DAY, description="Findings and incidents")

    @model_validator(mode="after")
    def _archive_outlives_samples(self) -> Self:
        if self.archive < self.samples:
            raise refusal(f"must be at least samples, here {format_duration(self.samples)}", "archive")
        return self


class Store(Section):
    """Where state lives: the database, and beside it `published/`, `inbox/` and `models/`."""

    path: FilePath = Field(
        default=Path("var/anomaly.duckdb"), description="Database file, relative to the working directory"
    )
    keep: Keep = Field(default=Keep(), description="How long each kind of data stays")


class Engine(Section):
    """What the work of a tick runs on."""

    kind: Literal["inline", "processes", "ray"] = Field(
        default="inline",
        description="`inline`: in the service itself; `processes`: on all cores; `ray`: on a Ray cluster",
    )


class Web(Section):
    """The service's own HTTP door."""

    listen: Listen = Field(
        default="127.0.0.1:9810",
        description="Address and port of `/metrics`, `/-/healthy`, `/-/ready`; port 0: a free one",
    )

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])


class Log(Section):
    """What the service writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="The least that is written")
    format: Literal["logfmt", "json"] = Field(default="logfmt", description="Shape of a line")
