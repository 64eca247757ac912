"""The simulated exporters over HTTP: what a scraper of each target sees, and when it sees nothing."""

import json
import re
from collections.abc import Iterator
from fractions import Fraction

import pytest
import requests

from anomaly.clock import HOUR, MINUTE, SECOND, Ms
from anomaly.source.simulated import Fault, Scenario
from anomaly.source.simulated.serve import Exporters, file_sd, serving
from tests.source.simulated.readings import END, ONSET, OVER, SCRAPE, START, Readings, small_cluster

BEGIN: Ms = START + 1000 * HOUR
"""When the real clock says that simulated time begins."""
SCALE = Fraction(1, 15)


class Clock:
    """A wall clock that somebody sets."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> Ms:
        return self.now


def exporters(*faults: Fault, scale: Fraction = SCALE) -> tuple[Exporters, Clock]:
    clock = Clock()
    return Exporters(Scenario(small_cluster(), faults, START, END, seed=3), clock, BEGIN, scale), clock


def scraped(body: bytes | None) -> dict[str, float]:
    """Series (name and labels) → value."""
    assert body is not None
    return {head: float(value) for head, _, value in (line.rpartition(" ") for line in body.decode().splitlines())}


@pytest.mark.parametrize("minute", [0, 1, 37])
def test_a_target_says_what_the_simulation_says_then(minute: int) -> None:
    served, clock = exporters()
    clock.now = BEGIN + minute * 4 * SECOND
    node = small_cluster().nodes[3].name
    told = scraped(served.text(node, 9400))
    readings = Readings(small_cluster())
    for labels, values in readings.series("DCGM_FI_DEV_SM_CLOCK", Hostname=node):
        [value] = [value for head, value in told.items() if "_SM_CLOCK" in head and labels["UUID"] in head]
        assert value == values[minute * MINUTE // SCRAPE]
    assert len(told) == 19 * 4
    assert not any("instance=" in head or "job=" in head.replace("hpc_job=", "") for head in told)


def test_real_seconds_where_promql_counts_them_and_real_instants() -> None:
    served, clock = exporters()
    node = small_cluster().nodes[0].name
    before = scraped(served.text(node, 9100))
    clock.now += 60 * SECOND
    after = scraped(served.text(node, 9100))
    cores = {head: after[head] - before[head] for head in after if 'cpu="0"' in head}
    assert sum(cores.values()) == pytest.approx(60, abs=1.5), "a core has sixty seconds in a minute, whatever the scale"
    boots = {value for told in (before, after) for head, value in told.items() if "boot_time" in head}
    [boot] = boots
    assert boot < BEGIN / 1000 - 3600 / 15


def test_the_switches() -> None:
    served, clock = exporters()
    node = small_cluster().nodes[2].name
    everything = scraped(served.text(node, 9400))
    served.hide(node, 1)
    assert scraped(served.text(node, 9400)).keys() == {head for head in everything if 'gpu="1"' not in head}
    served.show(node, 1)
    assert scraped(served.text(node, 9400)) == everything

    served.stop(node, "dcgm-exporter")
    assert served.text(node, 9400) is None
    assert served.text(node, 9100) is not None
    served.start(node, "dcgm-exporter")
    again = scraped(served.text(node, 9400))
    counters = [head for head in again if head.startswith("DCGM_FI_DEV_POWER_VIOLATION")]
    assert any(everything[head] > 0 for head in counters)
    assert all(again[head] == 0 for head in counters)
    assert {head: again[head] for head in again if "_GPU_TEMP" in head} == {
        head: everything[head] for head in everything if "_GPU_TEMP" in head
    }
    clock.now += 30 * SECOND
    assert any(scraped(served.text(node, 9400))[head] > 0 for head in counters)

    served.driver = "570.1"
    uuids = [set(re.findall(r'UUID="([^"]+)"', " ".join(told))) for told in (everything, again)]
    relabelled = scraped(served.text(node, 9400))
    assert all('DCGM_FI_DRIVER_VERSION="570.1"' in head for head in relabelled)
    assert set(re.findall(r'UUID="([^"]+)"', " ".join(relabelled))) == uuids[0] == uuids[1]


def test_nobody_answers_for_a_lost_node_nor_outside_the_simulated_time() -> None:
    node = small_cluster().jobs[0].nodes[1]
    served, clock = exporters(Fault("node_lost", (node,), ONSET, OVER))
    clock.now = served.real(ONSET + MINUTE)
    assert {served.text(node, port) for port in (9400, 9100, 9567, 9401)} == {None}
    clock.now = served.real(OVER + MINUTE)
    assert served.text(node, 9100)
    for real in (BEGIN - 1, served.real(END) + SECOND):
        clock.now = real
        assert served.text(node, 9100) is None


@pytest.fixture
def served() -> Iterator[tuple[Exporters, Clock, str]]:
    node = small_cluster().jobs[0].nodes[1]
    found, clock = exporters(Fault("node_lost", (node,), ONSET, OVER))
    with serving(found) as address:
        yield found, clock, address


def test_over_http(served: tuple[Exporters, Clock, str]) -> None:
    found, clock, address = served
    cluster = found.scenario.cluster
    targets = json.loads(file_sd(cluster, address))
    assert len(targets) == 4 * len(cluster.nodes)
    assert len({(group["labels"]["instance"], group["labels"]["job"]) for group in targets}) == len(targets)
    lost, mate = cluster.jobs[0].nodes[1], cluster.jobs[0].nodes[0]
    with requests.Session() as session:
        session.trust_env = False
        for group in targets:
            assert session.get(f"http://{address}{group['labels']['__metrics_path__']}", timeout=5).status_code == 200
        for path in ("/nobody/9400/metrics", "/", f"/{mate}/9400/other", f"/{mate}/x/metrics"):
            assert session.get(f"http://{address}{path}", timeout=5).status_code == 404
        clock.now = found.real(OVER - SECOND)
        with pytest.raises(requests.ConnectionError):
            session.get(f"http://{address}/{lost}/9100/metrics", timeout=5)
        # Its job was aborted: the trainer's target is there and has nothing to say.
        answer = session.get(f"http://{address}/{mate}/9401/metrics", timeout=5)
        assert (answer.status_code, answer.content) == (200, b"")
