"""Jobs that could not run when they were due."""

import time

from anomaly.clock import HOUR
from anomaly.jobs.schedule import Job, Timetable
from tests.jobs.test_schedule import Told, wait_for


def test_a_run_that_could_not_start_in_time_is_made_up_for() -> None:
    """agronholm/apscheduler#182, agronholm/apscheduler#296: a second late, and the run is dropped in silence."""
    ran: list[float] = []
    told = Told()
    table = Timetable([Job("one", HOUR, lambda: ran.append(time.monotonic()))], told)
    time.sleep(1.3)
    table.start()
    wait_for(lambda: ran, seconds=5)
    table.stop()
    assert table.wait(2)
    assert told.words == []
