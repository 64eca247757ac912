"""What a check measures and what it proposes, without a server: intervals, names of training metrics, capacity."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from anomaly.clock import DAY, MINUTE, SECOND, Ms
from anomaly.errors import SourceRejected
from anomaly.jobs import check
from anomaly.jobs.capacity import BANDWIDTH_SIGNAL, GB, Capacity, capacity, memory_bandwidth
from anomaly.jobs.check import Seen
from anomaly.jobs.proposals import propose, step_counts, step_times
from anomaly.records import Labels, Pulled, Query
from anomaly.signals.catalogue import load_catalogue
from tests.jobs.parts import MemorySource, parts_of, pipeline_in

NOW: Ms = 1_796_000_000 * SECOND
TRAINING = list(load_catalogue(["training"]).signals.values())
JOBS = ("hpc_job", "job_name", "pod")


@dataclass(frozen=True)
class Backend:
    """A Prometheus that knows these metrics, each with one series of these labels, and what was read in a day."""

    metrics: dict[str, Labels]
    read: tuple[float, ...] = ()
    too_large: bool = False

    def instant(self, promql: str, at: Ms | None = None) -> Pulled:
        labels = self.metrics.get(promql)
        found = () if labels is None else ({"__name__": promql, **labels},)
        return Pulled(found, np.ones(len(found), int), np.full(len(found), NOW), np.full(len(found), 2e11))

    def label_values(self, label: str, match: str | None = None) -> tuple[str, ...]:
        return tuple(self.metrics)

    def pull(self, query: Query) -> Pulled:
        if self.too_large:
            raise SourceRejected("too many samples", "ask for less")
        assert (query.end - query.start, query.end % query.step) == (DAY, 0)
        count = len(self.read)
        return Pulled(({},) if count else (), np.array([count][: count and 1]), np.arange(count), np.array(self.read))


def samples(*values: float, every: Ms) -> tuple[np.ndarray, np.ndarray]:
    return NOW + every * np.arange(len(values)), np.array(values)


def test_how_often_a_value_comes_is_how_often_it_changes_where_that_is_more_seldom() -> None:
    scraped = samples(1, 1, 2, 2, 3, 3, 4, 4, 5, 5, every=15 * SECOND)
    assert check._interval(*scraped) == 30 * SECOND, "DCGM refreshes every 30 s, however often it is scraped"
    assert check._interval(*samples(1, 2, 3, 4, 5, 6, every=15 * SECOND)) == 15 * SECOND
    assert check._interval(*samples(7, 7, 7, 7, 7, 7, every=MINUTE)) == MINUTE, "what stands still is scraped still"
    assert check._interval(*samples(1, 2, every=MINUTE)) is None, "two samples tell nothing"


def test_a_value_that_repeats_now_and_then_is_no_slower_exporter() -> None:
    integers = samples(50, 51, 51, 52, 53, 52, 52, 51, 50, 51, 52, every=30 * SECOND)
    assert check._interval(*integers) == 30 * SECOND


@pytest.mark.parametrize(
    "name",
    [
        "pretrain_iteration_time_ms",
        "train_step_duration_seconds",
        "megatron_iteration_time",
        "llm_step_time_seconds_sum",
        "training_step_seconds",
    ],
)
def test_names_that_people_give_to_step_time_are_found(name: str) -> None:
    others = ["node_time_seconds", "prometheus_rule_evaluation_duration_seconds", "DCGM_FI_DEV_GPU_TEMP", "train_loss"]
    assert step_times([*others, name]) == [name]


def test_the_likeliest_name_comes_first_and_what_is_none_not_at_all() -> None:
    names = ["trainer_time_seconds", "train_step_seconds", "batch_latency_seconds", "train_step_seconds_bucket"]
    assert step_times(names) == ["train_step_seconds", "batch_latency_seconds"]
    assert step_counts(["train_global_step", "prometheus_steps_total", "train_step_seconds"]) == ["train_global_step"]


def test_a_histogram_gives_its_mean_and_milliseconds_become_seconds() -> None:
    labels = {"hpc_job": "77", "instance": "gpu-1:9401"}
    names = {"llm_step_time_ms_sum": labels, "llm_step_time_ms_count": labels, "llm_step_time_ms_bucket": labels}
    source = Backend({**names, "llm_steps_total": labels})
    time, steps = propose(source, TRAINING, source.label_values("__name__"), JOBS, NOW)
    assert time.query == (
        "sum by (hpc_job, instance) (rate(llm_step_time_ms_sum[$window]))",
        "/ sum by (hpc_job, instance) (rate(llm_step_time_ms_count[$window])) / 1000",
    )
    assert (steps.signal, steps.query) == ("training_step", ("max by (hpc_job, instance) (llm_steps_total)",))


def test_nothing_is_proposed_where_nothing_is_missing_or_nothing_looks_like_it() -> None:
    source = Backend({"train_step_seconds": {"job_name": "a"}})
    assert propose(source, [], source.label_values("__name__"), JOBS, NOW) == []
    assert propose(Backend({"up": {}}), TRAINING, ("up",), JOBS, NOW) == []


def gpus(model: str, count: int = 8) -> Seen:
    labels = tuple({"gpu": str(i), "UUID": f"GPU-{i}", "Hostname": "a", "modelName": model} for i in range(count))
    return Seen("gpu_temp", newest=NOW, labels=labels)


@pytest.mark.parametrize(
    ("model", "speed"),
    [
        ("NVIDIA A100-SXM4-80GB", 2039),
        ("NVIDIA A100-SXM4-40GB", 1555),
        ("NVIDIA H100 80GB HBM3", 3350),
        ("NVIDIA H100 PCIe", 2000),
        ("NVIDIA GB200", 8000),
        ("Tesla T4", None),
    ],
)
def test_memory_bandwidth_goes_by_model_name(model: str, speed: float | None) -> None:
    assert memory_bandwidth(model) == speed


def test_what_was_read_at_most_in_a_day_is_held_against_all_gpus_each_counted_once() -> None:
    source = Backend({"node_mountstats_nfs_total_read_bytes_total": {}}, read=(1e9, 5e9, float("nan"), 2e9))
    seen = [gpus("NVIDIA H100 80GB HBM3"), gpus("NVIDIA H100 80GB HBM3")]
    found = capacity(source, seen, source.label_values("__name__"), NOW + 17)
    assert found == Capacity(8, 8 * 3350 * GB, 5e9, "node_mountstats_nfs_total_read_bytes_total")
    assert found.ratio == pytest.approx(5e9 / 26.8e12)


def test_what_storage_can_do_is_believed_where_it_is_stated() -> None:
    stated = Seen(BANDWIDTH_SIGNAL, metric="vast_bandwidth", newest=NOW, asked="vast_bandwidth")
    source = Backend({"vast_bandwidth": {"cluster": "vast"}, "node_mountstats_nfs_total_read_bytes_total": {}})
    found = capacity(source, [gpus("NVIDIA H200"), stated], source.label_values("__name__"), NOW)
    assert found is not None
    assert (found.storage, found.stated) == (2e11, True)


def test_of_unknown_gpus_nothing_is_said_and_of_unknown_storage_that_it_is_unknown() -> None:
    assert capacity(Backend({}), [gpus("Tesla T4")], (), NOW) is None
    names = ("minio_s3_traffic_sent_bytes",)
    for source in (Backend({}), Backend({}, too_large=True)):
        found = capacity(source, [gpus("NVIDIA H100 PCIe")], names, NOW)
        assert found is not None
        assert (found.storage, found.ratio) == (None, None)


def test_who_lacks_what_others_have_is_named(tmp_path: Path) -> None:
    """As in prometheus/node_exporter#2125."""

    def gpus_of(*nodes: str) -> list[Labels]:
        return [{"Hostname": node, "gpu": str(i)} for node in nodes for i in range(2)]

    targets: list[Labels] = [
        {"instance": f"{node}:{port}", "job": job} for node in "abc" for job, port in (("dcgm", 9400), ("node", 9100))
    ]
    one_less = [labels for labels in gpus_of("a", "b", "c") if labels != {"Hostname": "b", "gpu": "1"}]
    source = MemorySource(
        {
            "up": (targets, lambda labels, t: float(labels["instance"] != "c:9400")),
            "gpu_temp": (gpus_of("a", "b", "c"), lambda labels, t: 50.0),
            "gpu_power": (one_less, lambda labels, t: 300.0),
            "sm_clock": (gpus_of("a"), lambda labels, t: 1700.0),
        }
    )
    found = {each.signal: each for each in check.look(parts_of(pipeline_in(tmp_path), source), NOW)}
    assert (found["gpu_temp"].share, found["gpu_temp"].without) == (1.0, ())
    assert (found["gpu_power"].share, found["gpu_power"].without) == (5 / 6, ("b",))
    assert (found["sm_clock"].share, found["sm_clock"].without) == (2 / 6, ("b", "c"))
    assert (found["up"].share, found["up"].without) == (5 / 6, ("c",)), "a target that does not answer"
    assert not found["xid"].there
