"""Who works for which job, from labels that come and go."""

import numpy as np

from anomaly.clock import MINUTE
from anomaly.features.index import Directory
from anomaly.features.jobs import NO_JOB, SHARED, Membership, membership
from tests.features.builders import NAN, STEP, index, job_series, ring, series

HOLD = 3 * MINUTE


def gpu(number: int, node: str, device: str, job: str | None) -> object:
    labels = {"Hostname": node} | ({"hpc_job": job} if job else {})
    return series(number, "gpu_temp", node, device, labels=labels)


class Site:
    """Series and their samples, and the membership they give."""

    def __init__(self) -> None:
        self.directory = Directory()

    def members(self, known: list[object], rows: list[list[float]], training: Membership | None = None) -> Membership:
        found = index(self.directory, known)  # type: ignore[arg-type]
        held = ring(rows)
        return membership([(held, found)], held.times, len(self.directory.entities.names), HOLD)

    def jobs(self, members: Membership, node: str) -> list[str | None]:
        row = members.job[self.directory.entities.codes[f"node/{node}"]]
        return [self.directory.jobs.names[code] if code >= 0 else {-1: None, -2: "shared"}[code] for code in row]


def test_a_job_label_names_the_nodes_job_and_outlives_a_scrape_gap() -> None:
    site = Site()
    members = site.members([gpu(1, "a", "0", "train-a")], [[50, NAN, NAN, 50, NAN]])
    assert site.jobs(members, "a") == ["train-a"] * 5


def test_a_label_ends_three_minutes_after_its_last_sample() -> None:
    site = Site()
    members = site.members([gpu(1, "a", "0", "train-a")], [[50, *[NAN] * 8]])
    assert site.jobs(members, "a") == ["train-a"] * 7 + [None] * 2


def test_label_churn_hands_over_from_one_job_to_the_next() -> None:
    """While both labels are held the node is nobody's lock-step; afterwards it is the new job's."""
    site = Site()
    known = [gpu(1, "a", "0", "train-a"), gpu(2, "a", "0", "train-b")]
    members = site.members(known, [[50, 50, *[NAN] * 10], [NAN, NAN, *[50] * 10]])
    found = site.jobs(members, "a")
    assert found[:2] == ["train-a"] * 2
    assert set(found[2:8]) == {"shared"}
    assert found[8:] == ["train-b"] * 4


def test_a_node_with_two_jobs_belongs_to_neither() -> None:
    site = Site()
    members = site.members([gpu(1, "a", "0", "x"), gpu(2, "a", "1", "y"), gpu(3, "b", "0", "x")], [[50], [50], [50]])
    assert site.jobs(members, "a") == ["shared"]
    assert site.jobs(members, "b") == ["x"]


def test_some_gpus_of_a_job_speak_for_the_node() -> None:
    site = Site()
    members = site.members([gpu(1, "a", "0", "x"), gpu(2, "a", "1", None)], [[50], [50]])
    assert site.jobs(members, "a") == ["x"]


def test_training_series_that_name_nodes_go_before_labels() -> None:
    directory = Directory()
    steps = index(directory, [job_series(1, "train-a", "a")])
    gpus = index(directory, [gpu(2, "a", "0", "pod-of-something"), gpu(3, "b", "0", "other")])  # type: ignore[list-item]
    first, second = ring([[1.0]]), ring([[50.0], [50.0]])
    second = type(second)(second.step, np.array([2, 3], np.int32), second.times, second.raw)
    members = membership([(first, steps), (second, gpus)], first.times, len(directory.entities.names), HOLD)
    names = [
        directory.jobs.names[code] for code in members.job[[directory.entities.codes[f"node/{n}"] for n in "ab"], 0]
    ]
    assert names == ["train-a", "other"]


def test_of_gives_what_was_known_at_or_before_a_time() -> None:
    members = Membership(np.array([10, 20], np.int64), np.array([[0, 1], [2, SHARED]], np.int32))
    found = members.of(np.array([1, 0, 7], np.int32), np.array([5, 10, 15, 99], np.int64))
    assert found.tolist() == [[NO_JOB, 2, 2, SHARED], [NO_JOB, 0, 0, 1], [NO_JOB] * 4]


def test_nodes_of_a_job_at_a_time() -> None:
    site = Site()
    members = site.members([gpu(1, "a", "0", "x"), gpu(2, "b", "0", "x"), gpu(3, "c", "0", "y")], [[50], [50], [50]])
    job = site.directory.jobs.codes["x"]
    assert members.nodes_at(job, STEP, site.directory.entities) == ["a", "b"]
    assert members.nodes_at(job, 0, site.directory.entities) == []
