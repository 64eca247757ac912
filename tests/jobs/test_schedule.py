"""Jobs on time: on the grid, at most one run of each at once, nothing dropped silently, ended in time."""

import threading
import time
from datetime import UTC, datetime

from anomaly.clock import MINUTE, SECOND, to_datetime
from anomaly.jobs.schedule import Grid, Job, Timetable
from tests.jobs.parts import T0


class Told:
    def __init__(self) -> None:
        self.words: list[tuple[str, str, str]] = []

    def __call__(self, job: str, outcome: str, detail: str) -> None:
        self.words.append((job, outcome, detail))


def wait_for(holds: object, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.01)


def test_times_stand_on_the_grid_whenever_the_service_started() -> None:
    grid = Grid(MINUTE, 61 * SECOND)
    assert grid.get_next_fire_time(None, to_datetime(T0 + 500)) == to_datetime(T0 + SECOND)
    assert grid.get_next_fire_time(to_datetime(T0), to_datetime(T0 + SECOND)) == to_datetime(T0 + MINUTE + SECOND)
    asleep_for_hours = to_datetime(T0 + 5 * 60 * MINUTE + 30 * SECOND)
    assert grid.get_next_fire_time(to_datetime(T0), asleep_for_hours) == to_datetime(T0 + 301 * MINUTE + SECOND)


def test_the_first_run_is_at_once_and_soon_means_now() -> None:
    ran = []
    table = Timetable([Job("one", 60 * MINUTE, lambda: ran.append(datetime.now(UTC)))], Told())
    table.start()
    wait_for(lambda: len(ran) == 1)
    assert table.wait(20)
    table.soon("one")
    wait_for(lambda: len(ran) == 2)
    table.stop()
    assert table.wait(1)


def test_a_run_that_takes_long_is_not_joined_by_another() -> None:
    """As in agronholm/apscheduler#182, agronholm/apscheduler#292, agronholm/apscheduler#296,
    agronholm/apscheduler#1095, rfsbraz/deleterr#292."""
    told, gate, running = Told(), threading.Event(), []

    def long() -> None:
        running.append(1)
        gate.wait(5)

    table = Timetable([Job("long", 50, long), Job("quick", 60 * MINUTE, lambda: None)], told)
    table.start()
    wait_for(lambda: ("long", "skipped", "the last run is still at work") in told.words)
    assert len(running) == 1
    gate.set()
    table.stop()
    assert table.wait(2)


def test_a_bug_in_a_job_is_told_and_the_job_goes_on() -> None:
    told, runs = Told(), []

    def bug() -> None:
        runs.append(1)
        raise KeyError("nowhere")

    table = Timetable([Job("bug", 200, bug)], told)
    table.start()
    wait_for(lambda: len(runs) >= 3)
    table.stop()
    assert table.wait(1)
    detail = next(detail for job, outcome, detail in told.words if (job, outcome) == ("bug", "crashed"))
    assert "KeyError('nowhere')" in detail and "in bug" in detail


def test_work_that_hangs_is_not_waited_for_for_ever() -> None:
    gate = threading.Event()

    def hangs() -> None:
        gate.wait(10)

    table = Timetable([Job("hangs", 60 * MINUTE, hangs)], Told())
    table.start()
    wait_for(lambda: any(thread.name == "job-hangs" for thread in threading.enumerate()))
    begun = time.monotonic()
    table.stop()
    assert not table.wait(0.2)
    assert time.monotonic() - begun < 2
    assert next(thread for thread in threading.enumerate() if thread.name == "job-hangs").daemon
    gate.set()
    assert table.wait(2)


def test_a_clock_that_is_set_back_wakes_everybody() -> None:
    """The scheduler waits for a time of day; two hours back, and leases would run out meanwhile."""
    runs: list[int] = []
    table = Timetable([Job("one", 60 * MINUTE, lambda: runs.append(1))], Told())
    table.start()
    wait_for(lambda: len(runs) == 1)
    assert table.wait(20)
    assert not table.look_at_clock()
    table._ahead += 2 * 60 * MINUTE
    assert table.look_at_clock()
    wait_for(lambda: len(runs) == 2)
    assert not table.look_at_clock()
    table.stop()
    assert table.wait(1)
