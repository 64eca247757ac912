"""From a pipeline file to the parts that the jobs use: source, signals, topology, sinks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anomaly.clock import Clock, Ms, align_down
from anomaly.config.pipeline import Pipeline
from anomaly.config.sections import Webhook
from anomaly.config.session import read_secret, session_for
from anomaly.config.topology import read_topology
from anomaly.config.types import webhook_url
from anomaly.deliver.entries import SinkRef
from anomaly.deliver.policy import FeedPolicy
from anomaly.deliver.sinks import AlertmanagerSink, JsonLinesSink, Sink, WebhookSink, sink_name
from anomaly.errors import ConfigError, UsageError
from anomaly.jobs.pace import Pace
from anomaly.pipeline import Spec
from anomaly.records import SeriesRow, Topology
from anomaly.signals.catalogue import Catalogue, load_catalogue
from anomaly.signals.identity import JOB_LABELS
from anomaly.source import Source
from anomaly.store.connect import Hooks, ignore
from anomaly.store.store import Store, open_store

INBOX, PUBLISHED, MODELS = "inbox", "published", "models"
"""What lies beside the database."""


@dataclass(frozen=True, slots=True)
class Target:
    """A sink with what its deliveries need."""

    ref: SinkRef
    sink: Sink
    policy: FeedPolicy


@dataclass(frozen=True, slots=True)
class Parts:
    """A pipeline ready to run. `topology` is what the file says; labels add to it as series are seen."""

    pipeline: Pipeline
    catalogue: Catalogue
    topology: Topology
    source: Source

    @property
    def job_labels(self) -> tuple[str, ...]:
        return tuple(self.pipeline.jobs.labels) or JOB_LABELS

    @property
    def pace(self) -> Pace:
        """How real time relates to the time that ticks live in."""
        return Pace(self.pipeline.time_scale)

    @property
    def step(self) -> Ms:
        """The floor of every interval, in nominal time; `pipeline.step` is the real one."""
        return self.pipeline.written.step

    @property
    def state_dir(self) -> Path:
        return self.pipeline.state_dir

    def spec(self, seen: Sequence[SeriesRow]) -> Spec:
        """The tick's fixed inputs, with the groups that labels of `seen` series name."""
        labels = _topology_labels(self.pipeline)
        return Spec(
            cluster=self.pipeline.cluster,
            step=self.step,
            catalogue=self.catalogue,
            topology=Topology({**_from_labels(seen, labels), **self.topology.groups}),
        )


def assemble(pipeline: Pipeline, clock: Clock) -> Parts:
    """Everything a job needs except the store. Raises ConfigError for signals or a topology that cannot be used."""
    try:
        catalogue = load_catalogue(pipeline.packs, pipeline.signals)
    except ConfigError as error:
        problems = tuple(
            pipeline.problem(("signals", *problem.key.split(".")), problem.what) for problem in error.problems
        )
        raise ConfigError(error.what, error.next_step, problems) from error
    source, told = build_source(pipeline, clock)
    file = pipeline.topology.file if pipeline.topology else None
    return Parts(pipeline, catalogue, read_topology(file) if file else told, source)


def build_source(pipeline: Pipeline, clock: Clock) -> tuple[Source, Topology]:
    """The configured source, and the topology it knows by itself (a simulated cluster does)."""
    if pipeline.prometheus is not None:
        from anomaly.source.prometheus import PrometheusSource

        settings = pipeline.prometheus
        source = PrometheusSource(
            settings.url,
            session_for(settings),
            timeout_seconds=(5.0, settings.timeout / 1000),
            params=dict(settings.params),
        )
        return source, Topology()
    if pipeline.simulate is not None:
        from anomaly.source.simulated import LiveSimulatedSource
        from anomaly.source.simulated.layout import topology_csv

        simulate = pipeline.simulate
        origin = simulate.start or align_down(clock() - pipeline.context, 10 * 60_000)
        faults = simulate.faults if isinstance(simulate.faults, int) else list(simulate.faults)
        live = LiveSimulatedSource(simulate.seed, simulate.nodes, faults, origin)
        return live, topology_of_csv(topology_csv(live.cluster))
    if pipeline.stored is None:
        raise UsageError("the pipeline has no source", "give exactly one of prometheus, simulate or stored")
    from anomaly.jobs.stored import StoredSource

    return StoredSource(pipeline.stored), Topology()


def topology_of_csv(text: str) -> Topology:
    """A topology from CSV text that is known to be well formed."""
    header, *rows = [line.split(",") for line in text.strip().splitlines()]
    return Topology({kind: {row[0]: row[i] for row in rows if row[i]} for i, kind in enumerate(header) if i})


def open_pipeline_store(pipeline: Pipeline, hooks: Hooks = ignore) -> Store:
    """The pipeline's own database. Raises StoreLocked while another process has it open."""
    return open_store(pipeline.store.path, hooks=hooks)


def targets(pipeline: Pipeline) -> list[Target]:
    """Every configured sink, each delivered to independently."""
    out: list[Target] = []
    usual = FeedPolicy().scaled(float(pipeline.time_scale))
    for manager in pipeline.alertmanagers:
        policy = replace(usual, resend=manager.resend, lease=manager.lease)
        sink = AlertmanagerSink(manager.url, session_for(manager), timeout=manager.timeout / 1000, policy=policy)
        out.append(Target(SinkRef(sink_name("alertmanager", manager.url), "alertmanager"), sink, policy))
    for webhook in pipeline.webhooks:
        name = sink_name("webhook", webhook.url) if webhook.url else f"webhook:{webhook.url_file}"
        hook = WebhookSink(_url_of(webhook), session_for(webhook), timeout=webhook.timeout / 1000)
        out.append(Target(SinkRef(name, "webhook"), hook, usual))
    if pipeline.jsonl is not None:
        path = pipeline.jsonl.path
        out.append(Target(SinkRef(sink_name("jsonl", str(path)), "jsonl"), JsonLinesSink(path), usual))
    return out


def _url_of(webhook: Webhook) -> Callable[[], str]:
    """Where the webhook is now. Raises ConfigError, which shows nothing of what the file holds."""

    def url() -> str:
        if webhook.url_file is None:
            return webhook.url or ""
        try:
            return webhook_url(read_secret(webhook.url_file))
        except ValueError as error:
            raise ConfigError(f"secret file {webhook.url_file}: its URL {error}", "correct the file") from None

    return url


def _topology_labels(pipeline: Pipeline) -> Mapping[str, str]:
    configured = dict(pipeline.topology.labels) if pipeline.topology else {}
    return {"sku": "modelName", **configured}


def _from_labels(seen: Sequence[SeriesRow], labels: Mapping[str, str]) -> dict[str, dict[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    for row in seen:
        if row.entity.kind != "node":
            continue
        for kind, label in labels.items():
            value = row.labels.get(label)
            if value:
                groups.setdefault(kind, {})[row.entity.name] = value
    return groups


def late_by(pipeline: Pipeline) -> Ms:
    """How old a step must be before it is final."""
    source = pipeline.prometheus
    return source.query_offset + source.reread if source else 0
