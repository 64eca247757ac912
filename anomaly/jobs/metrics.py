"""What the service says of itself to Prometheus. No label names a node, a device or an incident."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from anomaly import __version__
from anomaly.clock import Ms
from anomaly.records import Severity

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """All of the service's metrics, in a registry of their own. Safe to use from several threads."""

    def __init__(self, sink_kinds: tuple[str, ...] = ()) -> None:
        self.registry = registry = CollectorRegistry()
        self._build = Info("anomaly_build", "The program that runs", registry=registry)
        self._build.info({"version": __version__})
        self.job_runs = Counter("anomaly_job_runs_total", "Runs of a job", ["job", "outcome"], registry=registry)
        self.job_seconds = Histogram(
            "anomaly_job_duration_seconds", "How long a job ran", ["job"], registry=registry, buckets=_SECONDS
        )
        self.last_success = Gauge(
            "anomaly_last_success_timestamp_seconds", "When a job last went well", ["job"], registry=registry
        )
        self.dropped = Counter(
            "anomaly_findings_dropped_total", "Findings set aside, once a tick", ["reason"], registry=registry
        )
        self.findings_open = Gauge("anomaly_findings_open", "Findings past their boundary", registry=registry)
        self._incidents = Gauge("anomaly_incidents_open", "Firing incidents", ["severity"], registry=registry)
        self._outbox = Gauge("anomaly_outbox_pending", "What waits to be sent", ["sink_kind"], registry=registry)
        self.samples = Counter("anomaly_collected_samples_total", "Samples stored", registry=registry)
        self.late = Counter(
            "anomaly_late_samples_total", "Samples that came after their step was scored", registry=registry
        )
        self.signals_failed = Gauge(
            "anomaly_signals_failed", "Signals that could not be pulled the last time", registry=registry
        )
        self.signals_incomplete = Gauge(
            "anomaly_signals_incomplete",
            "Signals of which the last answer lacked something, by the source's own word",
            registry=registry,
        )
        self.incomplete_answers = Counter(
            "anomaly_incomplete_answers_total",
            "Answers that lacked something, once a signal and pull",
            registry=registry,
        )
        self.model_in_use = Gauge(
            "anomaly_model_in_use", "Whether a trained model takes part in the ticks", registry=registry
        )
        self.model_degraded = Gauge(
            "anomaly_model_degraded", "Whether there is a trained model that cannot be used", registry=registry
        )
        self.scored_through = Gauge(
            "anomaly_scored_through_timestamp_seconds", "Time of the newest tick", registry=registry
        )
        self._sent = Counter("anomaly_alerts_sent_total", "Entries a sink took", ["sink_kind"], registry=registry)
        self._failed = Counter(
            "anomaly_alerts_failed_total", "Entries a sink did not take", ["sink_kind"], registry=registry
        )
        self._kinds = tuple(dict.fromkeys(sink_kinds))
        for kind in self._kinds:
            self._sent.labels(kind)
            self._failed.labels(kind)
        self.incidents({})
        self.outbox({})

    def incidents(self, by_severity: Mapping[str, int]) -> None:
        """How many incidents fire, by severity."""
        for severity in Severity:
            self._incidents.labels(severity.value).set(by_severity.get(severity.value, 0))

    def outbox(self, by_kind: Mapping[str, int]) -> None:
        """How many entries wait, by kind of sink."""
        for kind in self._kinds:
            self._outbox.labels(kind).set(by_kind.get(kind, 0))

    def delivered(self, kind: str, sent: int, failed: int) -> None:
        """What one sink took and did not take in one round."""
        self._sent.labels(kind).inc(sent)
        self._failed.labels(kind).inc(failed)

    def job_ended(self, job: str, outcome: str, seconds: float, at: Ms) -> None:
        """One run of a job, good when `outcome` is `ok`."""
        self.job_runs.labels(job, outcome).inc()
        self.job_seconds.labels(job).observe(max(0.0, seconds))
        if outcome == "ok":
            self.last_success.labels(job).set(at / 1000)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """(body, content type) for a scraper that accepts `accept`."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
