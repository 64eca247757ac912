"""Jobs on time, on APScheduler: one run of a job at once, missed runs made up for by one, nothing dropped silently."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    JobExecutionEvent,
    JobSubmissionEvent,
)
from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from anomaly.clock import SECOND, Ms, align_down, to_datetime, to_ms

CLOCK_SET_BACK: Ms = 5 * SECOND
"""The scheduler waits for the wall clock: set back by more than this, it would sleep while leases run out."""

Tell = Callable[[str, str, str], None]
"""(job, outcome, detail) of a run that failed by a bug, was missed, or was due while the last one still ran."""


@dataclass(frozen=True, slots=True)
class Job:
    """What runs how often. Runs stand on the grid of `every`, `offset` after it; the first at once, if `at_once`."""

    name: str
    every: Ms
    run: Callable[[], None]
    offset: Ms = 0
    at_once: bool = True


class Timetable:
    """The jobs, running from `start` until `stop`, each run in a thread of its own."""

    def __init__(self, jobs: list[Job], tell: Tell) -> None:
        self._tell = tell
        self._threads = _Threads()
        self._scheduler = BackgroundScheduler(timezone=UTC, executors={"default": self._threads})
        self._scheduler.add_listener(self._heard, EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
        self._ahead = _ahead()
        for job in jobs:
            first = {"next_run_time": datetime.now(UTC)} if job.at_once else {}
            self._scheduler.add_job(
                job.run,
                Grid(job.every, job.offset),
                id=job.name,
                name=job.name,
                misfire_grace_time=None,
                coalesce=True,
                max_instances=1,
                **first,
            )

    def start(self) -> None:
        self._scheduler.start()

    def soon(self, name: str) -> None:
        """Let a job run now rather than at its next time."""
        self._scheduler.modify_job(name, next_run_time=datetime.now(UTC))

    def look_at_clock(self) -> bool:
        """To be called now and then: where the wall clock was set back, all jobs are due now. Whether it was."""
        before, self._ahead = self._ahead, _ahead()
        if before - self._ahead <= CLOCK_SET_BACK:
            return False
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC))
        return True

    def stop(self) -> None:
        """No further runs; those under way go on."""
        self._scheduler.shutdown(wait=False)

    def wait(self, seconds: float) -> bool:
        """Wait for the runs under way; whether all have ended."""
        return self._threads.wait(seconds)

    def _heard(self, event: JobExecutionEvent | JobSubmissionEvent) -> None:
        if event.code == EVENT_JOB_ERROR:
            self._tell(event.job_id, "crashed", f"{event.exception!r}\n{event.traceback}")
        elif event.code == EVENT_JOB_MISSED:
            self._tell(event.job_id, "missed", "its time had passed")
        else:
            self._tell(event.job_id, "skipped", "the last run is still at work")


class Grid(BaseTrigger):  # type: ignore[misc]
    """Times aligned to the epoch, `offset` after each multiple of `every`: the same whenever the service started."""

    def __init__(self, every: Ms, offset: Ms = 0) -> None:
        self.every, self.offset = every, offset % every

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """The first such time after `now`."""
        return to_datetime(align_down(to_ms(now) - self.offset, self.every) + self.every + self.offset)


class _Threads(BaseExecutor):  # type: ignore[misc]
    """Each run in a daemon thread: one that hangs in the network does not hold up the end of the process, as the
    threads of APScheduler's own pool would."""

    def __init__(self) -> None:
        super().__init__()
        self._running: set[threading.Thread] = set()

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        thread = threading.Thread(target=self._run, args=(job, run_times), name=f"job-{job.id}", daemon=True)
        self._running = {other for other in self._running if other.is_alive()} | {thread}
        thread.start()

    def _run(self, job: Any, run_times: list[datetime]) -> None:
        try:
            events = run_job(job, job._jobstore_alias, run_times, "apscheduler.executors.default")
        except Exception as error:  # noqa: BLE001 - a bug of ours in the bookkeeping must not stop the job for good
            self._run_job_error(job.id, error, error.__traceback__)
        else:
            self._run_job_success(job.id, events)

    def wait(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        for thread in self._running:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._running)


def _ahead() -> Ms:
    """The wall clock's lead over the clock that nobody sets."""
    return (time.time_ns() - time.monotonic_ns()) // 1_000_000
