"""Who is to blame for a slow job: exactly one, or nobody."""

from anomaly.clock import MINUTE
from anomaly.denoise.world import AFTERMATH, JOB_PATIENCE
from tests.denoise.builders import Days, find, slow

PATIENCE = JOB_PATIENCE // MINUTE


def test_a_slow_job_that_nobody_explains_is_told_after_patience() -> None:
    days = Days()
    days.run(0, 20, [slow("train-a", 0)])
    confirmed = 3
    assert days.lines() == [f"{confirmed + PATIENCE} job/train-a software critical firing"]
    incident = days.open()["job/train-a"]
    assert incident.scope == "job"
    assert incident.victims == ()
    assert "no node to blame" in incident.summary


def test_it_attaches_to_exactly_one_of_two_suspects() -> None:
    days = Days()
    days.run(0, 10, [find("gpu_temp", "n2", -8), find("symbol_errors", "n5", 0), slow("train-a", 1)])
    impacts = {name: incident.impact_ratio for name, incident in days.open().items()}
    assert impacts == {"node/n2": None, "node/n5": 0.25}


def test_a_hard_fault_goes_before_a_nearer_soft_one() -> None:
    days = Days()
    days.run(0, 10, [find("xid", "n2", -4), find("gpu_temp", "n5", 1), slow("train-a", 1)])
    assert days.open()["node/n2"].impact_ratio == 0.25
    assert days.open()["node/n5"].impact_ratio is None


def test_another_jobs_node_is_no_suspect() -> None:
    days = Days()
    days.run(0, 15, [find("gpu_temp", "n10", 0), slow("train-a", 1)])
    assert days.open()["node/n10"].impact_ratio is None
    assert "job/train-a" in days.open()


def test_what_began_long_after_explains_nothing() -> None:
    days = Days()
    days.run(0, 40, [slow("train-a", 0), find("gpu_temp", "n2", 20)])
    assert days.open()["node/n2"].impact_ratio is None
    assert "job/train-a" in days.open()


def test_missing_metrics_explain_nothing() -> None:
    days = Days()
    days.run(0, 15, [find("silent", "n2", -20), slow("train-a", 0)])
    assert days.open()["node/n2"].severity == "warning"
    assert days.open()["job/train-a"].severity == "critical"


def test_a_culprit_found_later_takes_the_job_over_once_it_fires() -> None:
    """Until the culprit fires the job's own incident stays: there is never a moment without either."""
    days = Days()
    job, hot = slow("train-a", 0), find("symbol_errors", "n2", 6)
    days.run(0, 9, [job, hot])
    assert list(days.open()) == ["job/train-a"]
    days.run(10, 15, [job, hot])
    assert days.lines() == [
        "8 job/train-a software critical firing",
        "10 job/train-a software critical resolved absorbed",
        "10 node/n2 network critical firing",
    ]
    assert days.told[1].absorbed_by == days.told[2].id


def test_a_pending_culprit_that_goes_away_leaves_the_job_its_incident() -> None:
    days = Days()
    job, hot = slow("train-a", 0), find("symbol_errors", "n2", 6)
    stirring = {"symbol_errors": frozenset({"n3", "n4", "n5"})}
    days.run(0, 8, [job])
    days.run(9, 10, [job, hot], stirring=stirring)
    days.run(11, 14, [job])
    assert [line for line in days.lines() if "resolved" in line] == []
    assert list(days.open()) == ["job/train-a"]


def test_a_slowdown_once_explained_outlives_its_explanation_quietly() -> None:
    days = Days()
    hot, job = find("gpu_temp", "n2", 0), slow("train-a", 1)
    days.run(0, 20, [hot, job])
    days.run(21, 21 + AFTERMATH // MINUTE - 2, [job])
    assert not days.open()
    assert days.last is not None
    assert [drop.reason for drop in days.last.dropped] == ["aftermath"]


def test_a_job_that_recovers_ends_its_incident() -> None:
    days = Days()
    days.run(0, 12, [slow("train-a", 0)])
    days.tick(13, [])
    assert days.lines()[-1] == "13 job/train-a software critical resolved"


def test_a_job_that_no_longer_tells_its_step_time_has_ended_rather_than_slowed() -> None:
    days = Days()
    days.run(0, 6, [slow("train-a", 0)])
    for at in range(7, 20):
        days.tick(at, [slow("train-a", 0)], alive=False)
    assert days.told == []
    assert days.last is not None
    assert [drop.reason for drop in days.last.dropped] == ["job_silent"]
