"""What each of the service's jobs does in one run, and what it says: a log line, metrics, a row of `job_runs`."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from anomaly.clock import DAY, Clock, Ms, format_time
from anomaly.deliver.drain import DrainReport
from anomaly.errors import AnomalyError, ConfigError, SourceError, StoreError
from anomaly.jobs.carry import Live
from anomaly.jobs.collect import Collected, collect
from anomaly.jobs.deliver import deliver
from anomaly.jobs.evidence import freeze_evidence
from anomaly.jobs.inbox import clear, training_asked
from anomaly.jobs.log import Logger, Standing
from anomaly.jobs.metrics import Metrics
from anomaly.jobs.model_spec import NODE_FOREST
from anomaly.jobs.parts import INBOX, Parts, Target
from anomaly.jobs.publish import prune, publish_hours, publish_results
from anomaly.jobs.score import ScoredRun, score
from anomaly.jobs.train import train
from anomaly.records import Incident, Phase
from anomaly.store.connect import Hooks, ignore
from anomaly.store.store import Store

PROGRESS_EVERY_SECONDS = 10.0


class Stopping(Exception):
    """The service ends: work that takes long leaves off between two transactions."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run went. A `quiet` one had nothing to do: no line at info level, no row."""

    details: Mapping[str, Any] = field(default_factory=dict)
    outcome: str = "ok"
    quiet: bool = False


class Work:
    """The jobs of one service. Each method is one run and never raises what an operator can only wait for."""

    def __init__(
        self,
        parts: Parts,
        store: Store,
        targets: list[Target],
        clock: Clock,
        log: Logger,
        metrics: Metrics,
        hooks: Hooks = ignore,
    ) -> None:
        self.stopping = threading.Event()
        self.broken = threading.Event()
        """Set where only a new process can go on: DuckDB gave its database up after a fatal error."""
        self.wake_deliver: Callable[[], None] = lambda: None
        self.wake_train: Callable[[], None] = lambda: None
        self._parts, self._store, self._targets, self._clock = parts, store, targets, clock
        self._log, self._metrics, self._hooks = log, metrics, hooks
        self._live = Live()
        self._alone, self._house, self._training = threading.Lock(), threading.Lock(), threading.Lock()
        self._pulled = False
        self._store_trouble: str | None = None
        self._failing: dict[str, Standing] = {}
        self._signals = Standing(log, "signal_failed", "signal_recovered", "signal")
        self._incomplete = Standing(log, "data_incomplete", "data_complete", "signal")
        self._warnings = Standing(log, "source_warned", "source_warned_no_more", "what")
        self._strangers = Standing(log, "series_unidentified", "series_identified", "signal")
        self._models = Standing(log, "model_degraded", "model_recovered", "model")
        self._sinks = Standing(log, "sink_failed", "sink_recovered", "sink")
        self._deliver_gate = threading.Lock()
        self._delivering, self._deliver_again = False, False
        self._progress_at = 0.0

    def not_ready(self) -> str | None:
        """Why this service cannot be relied upon yet, or now; None when it can."""
        if self._store_trouble is not None:
            return self._store_trouble
        return None if self._pulled else "nothing has been pulled yet"

    # ── the jobs ──

    def data(self) -> None:
        """Collect, score, publish the results: one chain, so that what was pulled is judged at once."""
        self._run("data", self._data, self._parts.pipeline.schedule.collect)

    def deliver(self) -> None:
        """Send what waits and renew what fires. A call while one is at work makes that one go round again."""
        again = True
        while again:
            with self._deliver_gate:
                self._delivering, self._deliver_again = True, False
            try:
                self._run("deliver", self._deliver, self._parts.pipeline.schedule.deliver)
            finally:
                with self._deliver_gate:
                    self._delivering = False
                    again = self._deliver_again and not self.stopping.is_set()

    def publish(self) -> None:
        """Closed hours, for readers."""
        self._run("publish", self._publish, self._parts.pipeline.schedule.publish)

    def prune(self) -> None:
        """What is too old goes."""
        self._run("prune", self._prune, self._parts.pipeline.schedule.prune)

    def train(self) -> None:
        """A new model from the newest history."""
        self._run("train", self._train, self._parts.pipeline.scale(DAY))

    # ── what they do ──

    def _data(self) -> Ran:
        # Pruning must not come between the registration of a series and its first sample.
        with self._alone:
            return self._data_alone()

    def _data_alone(self) -> Ran:
        store, metrics = self._store, self._metrics
        pipeline = self._parts.pipeline
        away: AnomalyError | None = None
        found = Collected(0)
        try:
            found = collect(self._parts, store, self._clock(), progress=self._go_on)
        except (SourceError, ConfigError) as error:  # the latter: a secret's file that cannot be read now
            away = error  # what did arrive is scored all the same
            metrics.signals_failed.set(len(self._parts.catalogue.signals))
        else:
            self._pulled = True
            self._say_collected(found)
        refs = [target.ref for target in self._targets]
        inbox = self._parts.state_dir / INBOX
        scored = score(self._parts, store, self._live, refs, self._clock(), inbox=inbox, progress=self._go_on)
        self._say_scored(scored)
        publish_results(store, pipeline)
        self._store_trouble = None
        if self._say_backlog():
            self._wake_deliver()
        if not self._training.locked() and training_asked(inbox).items:
            self.wake_train()
        if away is not None:
            raise away
        return Ran(
            {
                "samples": found.inserted,
                "late": found.late,
                "signals_failed": len(found.failed),
                "collected_through": format_time(found.through),
                "ticks": scored.ticks,
                "scored_through": None if scored.through is None else format_time(scored.through),
                "findings": scored.findings,
                "changes": len(scored.changes),
            }
        )

    def _deliver(self) -> Ran:
        jitter = random.random()  # noqa: S311 - spreads tries, guards nothing
        reports = deliver(self._store, self._targets, self._clock(), self._hooks, jitter=jitter)
        kinds = {target.ref.name: target.ref.kind for target in self._targets}
        for report in reports:
            failed = report.failed + len(report.rejected)
            self._metrics.delivered(kinds[report.sink], report.sent + report.renewed, failed)
            for seq, reason in report.rejected:
                self._log.error("delivery_rejected", sink=report.sink, seq=seq, error=reason)
        self._sinks.are({report.sink: report.error or "waits after a failure" for report in reports if _failed(report)})
        self._say_backlog()
        return Ran(
            {
                "sent": sum(report.sent for report in reports),
                "renewed": sum(report.renewed for report in reports),
                "failed": sum(report.failed for report in reports),
                "rejected": sum(len(report.rejected) for report in reports),
            },
            "failed" if any(_failed(report) for report in reports) else "ok",
            quiet=not any(report.sent or report.renewed or report.failed or report.rejected for report in reports),
        )

    def _publish(self) -> Ran:
        with self._house:
            frozen = freeze_evidence(self._store)
            done = publish_hours(self._store, self._parts.pipeline, self._clock())
        counts = {"files": len(done.hours), "rollups": done.rollups, "evidence": frozen}
        return Ran(counts, quiet=not any(counts.values()))

    def _prune(self) -> Ran:
        pipeline = self._parts.pipeline
        with self._house:
            freeze_evidence(self._store)
            publish_hours(self._store, pipeline, self._clock())
            with self._alone:
                done = prune(self._store, pipeline, self._clock())
        rows = sum(done.rows.values())
        return Ran({"rows": rows, "directories": done.directories}, quiet=not rows and not done.directories)

    def _train(self) -> Ran:
        def go_on(_what: str, _share: float) -> None:
            if self.stopping.is_set():
                raise Stopping

        inbox = self._parts.state_dir / INBOX
        with self._training:
            asked = training_asked(inbox)
            for item in asked.items:
                self._log.info("inbox_taken", kind=item.kind, who=str(item.payload.get("who", "")))
            try:
                told = train(self._parts, self._store, self._clock(), start=asked.start, end=asked.end, progress=go_on)
            except Stopping:
                raise
            except BaseException:
                clear(inbox, asked.items)
                raise
            clear(inbox, asked.items)
        details = {"windows": told.windows, "left_out": told.left_out, "said": told.words}
        return Ran(details, "ok" if told.manifest else "no_model")

    # ── what they say ──

    def _run(self, job: str, work: Callable[[], Ran], every: Ms) -> None:
        if self.stopping.is_set():
            return
        started, begun = self._clock(), time.monotonic()
        failing = self._failing.setdefault(job, Standing(self._log, "job_failed", "job_recovered", "kind", job=job))
        error: AnomalyError | None = None
        ran = Ran(outcome="crashed")
        try:
            ran = work()
        except Stopping:
            ran = Ran(outcome="stopped")
        except AnomalyError as raised:
            error, ran = raised, Ran({"error": str(raised)}, "failed")
        finally:
            seconds = time.monotonic() - begun
            self._metrics.job_ended(job, ran.outcome, seconds, self._clock())
            if not ran.quiet and ran.outcome != "stopped":
                detail = str(error) if error else " ".join(f"{key}={value}" for key, value in ran.details.items())
                with suppress(AnomalyError):
                    self._store.record_job(job, started, self._clock(), ran.outcome, detail)
        if self.stopping.is_set() or ran.outcome == "stopped":
            return  # what fails because we end is not worth a line
        if error is None:
            failing.are({})
            tell = self._log.debug if ran.quiet else self._log.info
            tell("job_done", job=job, outcome=ran.outcome, seconds=round(seconds, 3), **ran.details)
            return
        failing.are({type(error).__name__: str(error)}, next_try=format_time(self._clock() + every))
        if isinstance(error, StoreError):
            self._store_trouble = str(error)
            if "invalidated" in str(error):
                self.broken.set()

    def _say_collected(self, found: Collected) -> None:
        self._metrics.samples.inc(found.inserted)
        self._metrics.late.inc(found.late)
        self._metrics.signals_failed.set(len(found.failed))
        self._signals.are(found.failed)
        self._metrics.signals_incomplete.set(len(found.incomplete))
        self._metrics.incomplete_answers.inc(len(found.incomplete))
        self._incomplete.are(found.incomplete)
        self._warnings.are(dict.fromkeys(found.warnings, ""))
        self._strangers.are({signal: f"{count} series name no entity" for signal, count in found.unidentified.items()})

    def _say_scored(self, scored: ScoredRun) -> None:
        for mark in scored.taken.marks:
            self._log.info("inbox_taken", kind=mark.kind, incident=mark.incident_id, label=mark.label, who=mark.who)
        for name in scored.taken.strange:
            self._log.warning("inbox_not_understood", item=name)
        self._models.are({NODE_FOREST: scored.model.trouble} if scored.model.trouble else {})
        self._metrics.model_in_use.set(scored.model.model is not None)
        self._metrics.model_degraded.set(bool(scored.model.trouble))
        for reason, count in scored.dropped.items():
            self._metrics.dropped.labels(reason).inc(count)
        if scored.ticks:
            self._metrics.findings_open.set(scored.findings)
        if scored.through is not None:
            self._metrics.scored_through.set(scored.through / 1000)
        self._metrics.incidents(
            Counter(item.severity.value for item in self._live.carried.tick.memory.open if item.phase is Phase.FIRING)
        )
        for event, incidents in (("incident_changed", scored.changes), ("incident_in_history", scored.history)):
            for incident in incidents:
                if incident.phase is not Phase.PENDING:
                    self._log.info(event, **_words(incident))

    def _say_backlog(self) -> int:
        kinds = {target.ref.name: target.ref.kind for target in self._targets}
        waiting: Counter[str] = Counter()
        for sink, count in self._store.backlog().items():
            if sink in kinds:  # a sink that is configured no longer waits for nobody
                waiting[kinds[sink]] += count
        self._metrics.outbox(waiting)
        return sum(waiting.values())

    def _wake_deliver(self) -> None:
        with self._deliver_gate:
            self._deliver_again = True
            if self._delivering:
                return
        self.wake_deliver()

    def _go_on(self, what: str, share: float) -> None:
        """The jobs' progress: a line now and then while they take long, and the place where they stop."""
        if self.stopping.is_set():
            raise Stopping
        now = time.monotonic()
        if share >= 1:
            self._progress_at = 0.0
        elif self._progress_at == 0.0:
            self._progress_at = now
        elif now - self._progress_at >= PROGRESS_EVERY_SECONDS:
            self._progress_at = now
            self._log.info("progress", job="data", at=what, done=f"{share:.0%}")


def _failed(report: DrainReport) -> bool:
    return bool(report.error) or report.retry_at is not None


def _words(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id,
        "phase": incident.phase.value,
        "severity": incident.severity.value,
        incident.scope: incident.entity.name,
        "cause": incident.cause,
        "at": format_time(incident.updated_at),
        "onset": format_time(incident.onset),
        "summary": incident.summary,
    }
