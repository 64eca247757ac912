"""The service: every job on time, for months, until it is told to stop. A restart changes nothing."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from anomaly import __version__
from anomaly.clock import DAY, SECOND, Clock, Ms, format_duration
from anomaly.config.pipeline import Pipeline
from anomaly.jobs.log import Logger, libraries_forwarded, make_logger
from anomaly.jobs.metrics import Metrics
from anomaly.jobs.parts import assemble, late_by, open_pipeline_store, targets
from anomaly.jobs.publish import clean_up
from anomaly.jobs.schedule import Job, Timetable
from anomaly.jobs.status import StatusServer
from anomaly.jobs.work import Work
from anomaly.store.connect import Hooks, ignore
from anomaly.store.store import Store

WIND_UP_SECONDS = 6.0
"""How long work under way may take to end once the service is told to; a supervisor's patience is often 10 s."""

_LOOK_SECONDS = 0.25


def run_service(pipeline: Pipeline, clock: Clock, *, hooks: Hooks = ignore, stop: threading.Event | None = None) -> int:
    """Run until SIGTERM, SIGINT or `stop`; the process' exit code: 0, or 1 where only a new process can go on.

    Collecting, scoring and publishing the results are one chain; delivery is on its own, so that a Prometheus that
    hangs lets no alert's lease run out. What fails is logged once a kind and tried again at its next time.

    Raises before it begins: ConfigError (pipeline, address taken), StoreLocked (another process has the database, the
    message names it), StoreError.
    """
    told = stop or threading.Event()
    with _told_by_signals() as signals:
        log = make_logger(pipeline.log)
        parts = assemble(pipeline, clock)
        sinks = targets(pipeline)
        metrics = Metrics(tuple(target.ref.kind for target in sinks))
        store = open_pipeline_store(pipeline, hooks)
        try:
            work = Work(parts, store, sinks, clock, log, metrics, hooks)
            status = StatusServer(pipeline.web.host, pipeline.web.port, work.not_ready, metrics.exposition)
        except BaseException:
            store.close()
            raise
        with libraries_forwarded(log):
            clean_up(pipeline)
            table = _timetable(pipeline, work, log, metrics)
            status.start()
            log.info(
                "service_started",
                cluster=pipeline.cluster,
                version=__version__,
                store=str(Path(pipeline.store.path)),
                listen=status.address,
                sinks=len(sinks),
                collect_every=format_duration(pipeline.schedule.collect),
            )
            table.start()
            while not (signals or told.is_set() or work.broken.is_set()):
                told.wait(_LOOK_SECONDS)
                if table.look_at_clock():
                    log.warning("clock_set_back")
            code = 1 if work.broken.is_set() else 0
            log.info("service_stopping", reason=_reason(signals, code))
            _wind_up(work, table, status, store, log)
            log.info("service_stopped", code=code)
            return code


def _timetable(pipeline: Pipeline, work: Work, log: Logger, metrics: Metrics) -> Timetable:
    schedule = pipeline.schedule

    def tell(job: str, outcome: str, detail: str) -> None:
        # A crashed run has counted itself; the other two did not run.
        if outcome != "crashed":
            metrics.job_runs.labels(job, outcome).inc()
        elif work.stopping.is_set():
            return
        (log.error if outcome == "crashed" else log.warning)(f"job_{outcome}", job=job, detail=detail)

    # Right after a tick's last step is final, so that it is judged without waiting for the next pull.
    final = late_by(pipeline) + _settling(pipeline)
    table = Timetable(
        [
            Job("data", schedule.collect, work.data, offset=final),
            Job("deliver", schedule.deliver, work.deliver),
            Job("publish", schedule.publish, work.publish, at_once=False),
            Job("prune", schedule.prune, work.prune, at_once=False),
            Job("train", pipeline.scale(DAY), work.train, offset=pipeline.scale(schedule.train), at_once=False),
        ],
        tell,
    )
    work.wake_deliver = lambda: table.soon("deliver")
    work.wake_train = lambda: table.soon("train")
    return table


def _settling(pipeline: Pipeline) -> Ms:
    """A moment for the source to have what it was given at a step."""
    return min(pipeline.scale(SECOND), pipeline.step)


def _wind_up(work: Work, table: Timetable, status: StatusServer, store: Store, log: Logger) -> None:
    """End in order: no new runs, those under way end or are abandoned (as a kill would, which loses nothing)."""
    work.stopping.set()
    table.stop()
    if not table.wait(WIND_UP_SECONDS):
        log.warning("work_abandoned")
    # Closing waits for a transaction under way; it may not wait for ever.
    closing = threading.Thread(target=store.close, name="close", daemon=True)
    closing.start()
    closing.join(timeout=2.0)
    status.close()


@contextmanager
def _told_by_signals() -> Iterator[list[int]]:
    """Meanwhile SIGTERM and SIGINT are noted in the list yielded. A second one ends the process the hard way."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reason(signals: list[int], code: int) -> str:
    if signals:
        return signal.Signals(signals[0]).name
    return "store_given_up" if code else "asked"
