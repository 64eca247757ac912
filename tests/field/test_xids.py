"""XIDs: a gauge that keeps the last code, a code that hides another, a code that nobody exports."""

from typing import Any

import numpy as np
import pytest

from tests.field.stage import AT, NODES, UNTIL, Told, happens, on_every_gpu, play, while_it_lasts
from tests.scenarios.cluster import Cluster


def xid(code: int, at: float = AT, until: float | None = None, **where: Any) -> Any:
    return happens("xid", at=at, until=until, code=code, **{"node": "node-2", "gpu": 1, **where})


def gone(at: float = AT, until: float | None = None) -> Any:
    return happens("gpu vanishes", at=at, until=until, node="node-2", gpu=1)


def test_the_code_that_follows_another_names_no_hardware() -> None:
    """NVIDIA/DCGM#235: XID 62 stood in the kernel log, the gauge showed only the 45 that cleans up after it."""
    assert play(xid(45)).loud == []


def test_what_a_masked_code_did_is_found_without_it() -> None:
    """NVIDIA/DCGM#235: the gauge says 45 while the GPU goes; the verdict rests on the GPU and not on the 45."""
    told = play(xid(45), gone(at=AT + 2))
    assert told.loud == ["node/node-2 gpu_lost critical"]
    assert "xid" not in told.story("node/node-2").incident.signals


def test_a_code_that_stays_in_the_gauge_is_one_event() -> None:
    """NVIDIA/DCGM#277, NVIDIA/dcgm-exporter#500, NVIDIA/dcgm-exporter#502: the gauge keeps 48 for hours."""
    told = play(xid(48), minutes=60)
    assert told.loud == ["node/node-2 memory_ecc critical"]
    assert told.story("node/node-2").ended == pytest.approx(AT + 30, abs=2)


def test_a_gauge_that_returns_to_zero_is_an_exporters_restart_and_no_recovery() -> None:
    """NVIDIA/dcgm-exporter#500: the restart clears the code, and the GPU is still gone."""

    def cleared(cluster: Cluster) -> None:
        cluster.gauges["xid"]["node-2", "1"][cluster.during(23)] = 0

    restart = happens("exporter down", at=22, until=23, exporter="dcgm", node="node-2")
    told = play(xid(79, until=22), restart, gone(at=22), cleared, minutes=70)
    assert told.loud == ["node/node-2 gpu_lost critical"]
    assert told.story("node/node-2").ended is None


def new_node(code: int) -> Any:
    """node-6 joins at minute AT, with a code in the gauge from who knows when."""

    def change(cluster: Cluster) -> None:
        before = cluster.during(0, AT)
        for series in (*cluster.gauges.values(), *cluster.rates.values()):
            for key, values in series.items():
                if "node-6" in key:
                    values[before] = np.nan
        cluster.gauges["xid"]["node-6", "1"][~before] = code

    return change


def test_a_node_that_joins_with_an_old_code_has_no_event() -> None:
    """NVIDIA/DCGM#277: the gauge survives everything but the driver, so a first sample may be days old."""
    assert play(new_node(48)).loud == []


def test_a_series_that_begins_with_its_first_error_is_an_event() -> None:
    """NVIDIA/dcgm-exporter#700, NVIDIA/dcgm-exporter#646: no series until the first XID; `increase` never sees it."""

    def blank_until_then(cluster: Cluster) -> None:
        for values in cluster.gauges["xid"].values():
            values[values == 0] = np.nan

    told = play(xid(79, until=UNTIL), blank_until_then)
    assert told.loud == ["node/node-2 gpu_lost critical"]
    assert told.story("node/node-2").fired <= AT + 1


def test_blank_profiling_fields_after_an_xid_are_no_lost_gpu() -> None:
    """NVIDIA/DCGM#202: after XID 31 the profiling fields stay blank; temperature and power go on."""

    def tensor(cluster: Cluster, node: str, gpu: str) -> Any:
        blank = 140737488355328.0 if gpu == "0" else np.nan
        return while_it_lasts(cluster, blank if node == "node-2" else 0.6, until=None, rest=0.6)

    assert play(xid(31), on_every_gpu("tensor_active", tensor)).stories == []


def test_an_exporter_killed_beside_a_code_stands_in_the_same_evidence() -> None:
    """NVIDIA/dcgm-exporter#84: SIGKILL of the exporter and XID 119 came together."""
    told = play(xid(119), happens("exporter down", at=AT + 1, until=None, exporter="dcgm", node="node-2"))
    assert told.loud == ["node/node-2 gpu_lost critical"]
    incident = told.story("node/node-2").incident
    assert {"xid", "up"} <= set(incident.signals)
    assert "XID 119" in incident.summary


def test_a_storm_of_application_codes_over_a_job_is_no_hardware() -> None:
    """NVIDIA/NVSentinel#1748: XID 45 eleven thousand times over all nodes of a job."""

    def storm(cluster: Cluster) -> None:
        for key in cluster.gpu_keys(NODES):
            cluster.gauges["xid"][key][cluster.during(AT)] = 45
            cluster.gauges["xid"][key][cluster.times % 120_000 == 0] = 43

    assert play(storm).stories == []


def counted(at: float, until: float) -> Any:
    """What the exporter's own count says of GPU 1 of node-2: 1 while the event lies in its window."""

    def flag(cluster: Cluster, node: str, gpu: str) -> Any:
        return while_it_lasts(cluster, float((node, gpu) == ("node-2", "1")), at, until)

    return on_every_gpu("xid_counted_memory", flag)


def test_the_same_code_again_is_seen_by_the_exporters_own_count() -> None:
    """NVIDIA/dcgm-exporter#190: the gauge shows 48 once and for ever; the count shows it a second time."""

    def spells(*more: Any) -> list[float]:
        found: Told = play(xid(48, at=3), *more, packs=["dcgm_xid"], minutes=70)
        return [story.fired for story in found.stories]

    assert len(spells()) == 1
    assert spells(counted(3, 8), counted(50, 55))[1:] == [pytest.approx(50, abs=1)]


def test_a_reset_clears_what_was_recovered() -> None:
    """leptonai/gpud#1072, leptonai/gpud#108, NVIDIA/k8s-device-plugin#234: unhealthy for ever."""
    told = play(xid(74, until=AT + 5), minutes=40)
    assert told.loud == ["node/node-2 nvlink warning"]
    assert told.story("node/node-2").ended == pytest.approx(AT + 5, abs=3)
