"""What is not there: blank values, failed collectors, GPUs that nobody counts, clusters without GPUs."""

import numpy as np

from anomaly.records import Severity
from tests.field.stage import AT, NODES, UNTIL, Change, happens, play
from tests.scenarios.cluster import GPU_COUNTERS, GPU_GAUGES, RAIL_COUNTERS, Cluster, JobPlan


def without(names: tuple[str, ...], nodes: tuple[str, ...] = NODES, device: str | None = None) -> Change:
    """Signals that the exporters of these nodes have never had."""

    def change(cluster: Cluster) -> None:
        for table in (cluster.gauges, cluster.rates):
            for name in names:
                for key in [key for key in table.get(name, {}) if key[0] in nodes and device in (None, key[1])]:
                    table[name][key][:] = np.nan

    return change


def test_a_gpu_that_an_exporters_new_build_leaves_out_everywhere_is_no_lost_gpu() -> None:
    """NVIDIA/dcgm-exporter#250: a build did not report all GPUs."""
    told = play(*[happens("gpu vanishes", until=None, node=node, gpu=1) for node in NODES])
    assert [(str(story.incident.cause), story.severity) for story in told.stories] == [("telemetry", Severity.WARNING)]
    assert set(told.stories[0].incident.nodes) == set(NODES)


def test_in_a_roll_out_the_first_nodes_are_taken_into_the_incident_of_all() -> None:
    """NVIDIA/dcgm-exporter#250, one node a minute: until the third nobody can know."""
    told = play(*[happens("gpu vanishes", at=AT + i, until=None, node=node, gpu=1) for i, node in enumerate(NODES)])
    [lasting] = [story for story in told.stories if story.ended is None]
    assert lasting.incident.cause == "telemetry"
    assert all(story.incident.absorbed_by == lasting.incident.id for story in told.stories if story is not lasting)
    assert len(told.stories) <= 3


def test_a_gpu_gone_from_one_node_is_lost() -> None:
    """NVIDIA/dcgm-exporter#348: no metric says that a GPU has fallen off the bus; its series end."""
    assert play(happens("gpu vanishes", until=None, node="node-3", gpu=0)).loud == ["node/node-3 gpu_lost critical"]


def held_by_another_job(until: float, node: str = "node-6", gpu: str = "1") -> Change:
    """One GPU is a pod's of its own until minute `until`, and is not shown afterwards."""

    def change(cluster: Cluster) -> None:
        for name in GPU_GAUGES:
            values = cluster.gauges[name].pop((node, gpu))
            values[cluster.during(until)] = np.nan
            labels = {"instance": f"{node}:9400", "Hostname": node, "gpu": gpu, "hpc_job": "notebook"}
            cluster.further.setdefault(name, []).append((labels, values))

    return change


def test_a_gpu_that_is_given_back_is_not_lost() -> None:
    """NVIDIA/dcgm-exporter#569: with dynamic resource allocation the exporter shows no free GPU."""
    assert play(held_by_another_job(until=AT)).stories == []


def test_an_idle_node_whose_gpus_are_all_given_back_is_no_dead_exporter() -> None:
    """NVIDIA/dcgm-exporter#569, a whole node."""
    jobs = [JobPlan("train-a", NODES[:5]), JobPlan("train-b", NODES[5:], end=AT)]
    assert play(happens("gpu vanishes", node="node-6", until=None), jobs=jobs, minutes=60).stories == []


def test_where_free_gpus_are_shown_a_gpu_that_goes_with_its_job_is_lost() -> None:
    """NVIDIA/dcgm-exporter#569, the other way round: node-5 idles in full view."""
    jobs = [JobPlan("train-a", NODES[:4])]
    assert play(held_by_another_job(until=AT), jobs=jobs).loud == ["node/node-6 gpu_lost critical"]


def test_a_cluster_without_gpus_has_no_gpu_faults() -> None:
    """ionfury/homelab#489, canonical/hardware-observer-operator#476: GPU alerts where there is no GPU."""
    assert play(without(GPU_GAUGES + GPU_COUNTERS)).stories == []


def test_gpus_that_are_all_in_use_are_no_problem() -> None:
    """kubestellar/console#4185: a cluster whose every GPU is allocated and at 100 % was flagged."""

    def full(cluster: Cluster) -> None:
        for name, value in (("gpu_util", 100.0), ("framebuffer_used", 81_000.0)):
            for values in cluster.gauges[name].values():
                values[:] = value

    assert play(full).stories == []


def test_nodes_that_have_never_had_rdma_counters_are_not_missing_any() -> None:
    """prometheus/procfs#687, prometheus/node_exporter#2023: Broadcom and OmniPath show nothing at all."""
    assert play(without(RAIL_COUNTERS, NODES[:3])).stories == []


def test_where_some_nodes_have_counters_these_are_judged() -> None:
    """prometheus/procfs#687: half a fleet without counters hides nothing of the other half."""
    errors = happens("rail errors", until=35, node="node-6", rail=0, per_second=5)
    assert play(without(RAIL_COUNTERS, NODES[:1]), errors).loud == ["node/node-6 network warning"]


def test_a_port_that_was_never_collected_is_not_missing() -> None:
    """prometheus/node_exporter#2125, prometheus/node_exporter#2185: one of two ports, names that collide."""
    assert play(without(RAIL_COUNTERS, ("node-2",), device="1")).stories == []


def test_scrapes_with_holes_are_nobodys_fault() -> None:
    """prometheus/node_exporter#3506: gather errors on some hosts make partial scrapes, for minutes."""

    def holes(cluster: Cluster) -> None:
        for name in (*RAIL_COUNTERS, "cpu_busy_ratio", "memory_available_ratio", "storage_p99"):
            for table in (cluster.gauges, cluster.rates):
                for key, values in table.get(name, {}).items():
                    if key[0] == "node-4":
                        torn = np.repeat(cluster.random.random(len(values) // 12 + 1) < 0.4, 12)[: len(values)]
                        values[torn] = np.nan

    assert play(holes).stories == []


def test_a_failing_rdma_collector_is_no_recovery() -> None:
    """prometheus/node_exporter#966: one odd device fails the whole collector; no errors seen is not no errors."""
    errors = happens("rail errors", until=40, node="node-6", rail=0, per_second=5)
    told = play(errors, happens("collector fails", at=25, until=35, node="node-6"), minutes=60)
    assert told.loud == ["node/node-6 network warning"]
    ended = told.story("node/node-6").ended
    assert ended is not None
    assert ended > 40


def test_jobs_are_known_without_a_label_on_any_gpu() -> None:
    """NVIDIA/dcgm-exporter#342, #411, #477: pod labels come and go, or never come."""

    def unlabelled(cluster: Cluster) -> None:
        for node in cluster.nodes:
            cluster.job_of[node][:] = -1

    told = play(
        unlabelled, happens("gpu overheats", until=35, node="node-3", gpu=1, heat=18, clock=0.7, job_slows=0.25)
    )
    assert told.loud == ["node/node-3 thermal critical"]
    incident = told.story("node/node-3").incident
    assert incident.jobs == ("train-a",)
    assert incident.victims == tuple(node for node in NODES if node != "node-3")


def test_profiling_fields_that_are_not_collected_are_not_needed() -> None:
    """NVIDIA/dcgm-exporter#22, NVIDIA/dcgm-exporter#139: no module, no privilege, no PROF fields."""
    told = play(happens("gpu overheats", until=35, node="node-3", gpu=1, heat=18, clock=0.7))
    assert told.loud == ["node/node-3 thermal warning"]


def zero_activity(nodes: tuple[str, ...]) -> Change:
    """The profiling fields of these nodes read 0 while everything else works on."""

    def change(cluster: Cluster) -> None:
        for node, gpu in cluster.gpu_keys(NODES):
            labels = {"instance": f"{node}:9400", "Hostname": node, "gpu": gpu}
            during = cluster.during(AT, UNTIL) if node in nodes else np.zeros(len(cluster.times), bool)
            values = np.where(during, 0.0, 0.6)
            cluster.further.setdefault("tensor_active", []).append((labels, values))

    return change


def test_profiling_fields_that_stop_at_zero_on_a_busy_node_are_no_verdict_on_it() -> None:
    """NVIDIA/dcgm-exporter#662, NVIDIA/gpu-monitoring-tools#189: activity 0 while utilisation says 99 %."""
    assert play(zero_activity(("node-2",))).stories == []
    assert play(zero_activity(NODES)).stories == []


def test_a_quantile_that_comes_and_goes_is_still_judged() -> None:
    """VictoriaMetrics/VictoriaMetrics#5060: buckets of a torn scrape do not rise, and the answer is empty."""

    def torn(cluster: Cluster) -> None:
        for values in cluster.gauges["storage_p99"].values():
            values[cluster.random.random(len(values)) < 0.4] = np.nan

    slow = happens("volume slows", at=40, until=55, times=4)
    assert play(torn, minutes=40).stories == []
    assert play(slow, torn, minutes=70).loud == ["storage/train-data storage warning"]
