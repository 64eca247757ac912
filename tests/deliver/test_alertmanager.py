"""Against a real Alertmanager with the configuration we ship: what it holds is what we mean."""

import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests

from anomaly.clock import MINUTE, Ms, system_clock
from anomaly.deliver.drain import DrainReport, drain
from anomaly.deliver.entries import SinkRef, outbox_entries
from anomaly.deliver.outbox import MemoryOutbox
from anomaly.deliver.policy import FeedPolicy
from anomaly.deliver.sinks import AlertmanagerSink
from anomaly.records import Incident, Severity
from tests import needs
from tests.deliver.conftest import SHIPPED
from tests.deliver.parts import Alertmanager, ended, hot_gpu, slow_leaf, slow_port

pytestmark = pytest.mark.e2e

Make = Callable[[], Alertmanager]


class Feed:
    """Our side of one or more Alertmanagers: an outbox, wall time, and a policy in which a minute takes 0.6 s."""

    def __init__(self, session: requests.Session, *receivers: Alertmanager, factor: float = 1 / 100) -> None:
        self.policy = FeedPolicy().scaled(factor)
        self.outbox = MemoryOutbox()
        self.refs = [SinkRef(receiver.url, "alertmanager") for receiver in receivers]
        self.sinks = {r.url: AlertmanagerSink(r.url, session, timeout=5, policy=self.policy) for r in receivers}
        self.starts: dict[str, Ms] = {}

    def say(self, incident: Incident) -> None:
        now = system_clock()
        start = self.starts.setdefault(incident.id, now)
        self.outbox.enqueue(outbox_entries(incident, self.refs, start, now))

    def drain(self) -> dict[str, DrainReport]:
        return {name: drain(self.outbox, name, sink, system_clock(), self.policy) for name, sink in self.sinks.items()}

    def drain_for(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            self.drain()
            time.sleep(0.05)


def now_based(incident: Callable[..., Incident], **changes: Any) -> Incident:
    """The incident with logical times half a minute before now, as in a live service."""
    now = system_clock() - MINUTE // 2
    return incident(**({"onset": now - 5 * MINUTE, "fired_at": now, "updated_at": now} | changes))


def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return holds()


def test_the_shipped_configuration_is_valid() -> None:
    """As in VictoriaMetrics/VictoriaMetrics#7825."""
    amtool = needs.binary("alertmanager").with_name("amtool")
    done = subprocess.run([amtool, "check-config", SHIPPED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 inhibit rules" in done.stdout


def test_fire_renew_resolve(alertmanager: Make, session: requests.Session) -> None:
    am = alertmanager().start()
    feed = Feed(session, am)
    page = now_based(hot_gpu, cluster="größe-μ-集群", summary="GPU überhitzt: 91 °C")
    feed.say(page)
    feed.drain()
    (held,) = am.alerts()
    assert held["labels"]["cluster"] == "größe-μ-集群"
    assert held["annotations"]["summary"] == "GPU überhitzt: 91 °C"
    lease = feed.policy.lease / 1000
    feed.drain_for(lease * 1.6)
    assert am.firing() == [("gpu-17", "critical")], "the lease is renewed"
    feed.say(ended(page, system_clock()))
    feed.drain()
    assert am.firing() == [], "resolved at once"
    feed.drain_for(1.0)
    assert am.firing() == [], "nothing opens it again"


def test_without_us_an_alert_ends_by_itself(alertmanager: Make, session: requests.Session) -> None:
    am = alertmanager().start()
    feed = Feed(session, am)
    feed.say(now_based(hot_gpu))
    feed.drain()
    assert am.firing()
    assert eventually(lambda: am.firing() == [], feed.policy.lease / 1000 + 3)


def test_one_skipped_round_resolves_nothing(alertmanager: Make, session: requests.Session) -> None:
    """As in prometheus/alertmanager#204, prometheus/alertmanager#3048, grafana/grafana PR#38648,
    VictoriaMetrics/VictoriaMetrics#5828, prometheus/prometheus#5277, prometheus/alertmanager#952."""
    am = alertmanager().start()
    feed = Feed(session, am)
    feed.say(now_based(hot_gpu))
    feed.drain()
    for _ in range(3):
        time.sleep(2.2 * feed.policy.resend / 1000)
        assert am.firing() == [("gpu-17", "critical")]
        feed.drain()


def test_a_rise_in_severity_leaves_exactly_one_firing_alert(alertmanager: Make, session: requests.Session) -> None:
    am = alertmanager().start()
    feed = Feed(session, am)
    feed.say(now_based(hot_gpu, severity=Severity.WARNING))
    feed.drain()
    assert am.firing() == [("gpu-17", "warning")]
    time.sleep(0.2)
    page = now_based(hot_gpu, previous_severity=Severity.WARNING)
    feed.say(page)
    feed.drain()
    assert am.firing() == [("gpu-17", "critical")]
    feed.say(ended(page, system_clock()))
    feed.drain()
    assert am.firing() == []


def test_a_rise_at_the_next_moment_too(alertmanager: Make, session: requests.Session) -> None:
    """The margin for clock skew must not put the end of the quieter alert before its start."""
    am = alertmanager().start()
    feed = Feed(session, am, factor=1.0)
    ticket = now_based(hot_gpu, severity=Severity.WARNING)
    feed.say(ticket)
    feed.drain()
    feed.say(hot_gpu(fired_at=ticket.fired_at, updated_at=system_clock(), previous_severity=Severity.WARNING))
    assert all(report.rejected == [] for report in feed.drain().values())
    assert am.firing() == [("gpu-17", "critical")]


def test_a_late_resolution_of_an_old_decision_still_resolves(alertmanager: Make, session: requests.Session) -> None:
    """After a restart the logical end may lie long before Alertmanager's start of the alert."""
    am = alertmanager().start()
    feed = Feed(session, am, factor=1.0)
    now = system_clock()
    page = now_based(hot_gpu, fired_at=now - 90 * MINUTE)
    feed.say(page)
    feed.drain()
    assert am.firing() == [("gpu-17", "critical")]
    feed.say(ended(page, now - 60 * MINUTE))
    assert all(report.rejected == [] for report in feed.drain().values())
    assert am.firing() == []


def test_the_same_node_may_fire_again(alertmanager: Make, session: requests.Session) -> None:
    am = alertmanager().start()
    feed = Feed(session, am)
    first = now_based(hot_gpu)
    for incident in (first, ended(first, system_clock())):
        feed.say(incident)
        feed.drain()
    feed.say(now_based(hot_gpu, id="second"))
    feed.drain()
    assert am.firing() == [("gpu-17", "critical")]


def test_an_alertmanager_that_lost_its_memory_is_filled_again(alertmanager: Make, session: requests.Session) -> None:
    am = alertmanager().start()
    feed = Feed(session, am)
    feed.say(now_based(hot_gpu))
    feed.say(now_based(slow_leaf))
    feed.drain()
    am.stop()
    feed.drain_for(0.5)
    am.start()
    assert am.firing() == []
    feed.drain_for(5, until=lambda: len(am.firing()) == 2)
    assert am.firing() == [("gpu-17", "critical"), ("leaf-2", "warning")]


def test_two_alertmanagers_one_down(alertmanager: Make, session: requests.Session) -> None:
    up, late = alertmanager().start(), alertmanager()
    feed = Feed(session, up, late)
    page, ticket = now_based(hot_gpu), now_based(slow_port)
    feed.say(page)
    feed.say(ticket)
    feed.drain()
    assert len(up.firing()) == 2, "the other one gets everything"
    feed.say(ended(ticket, system_clock()))
    feed.drain_for(0.5)
    assert up.firing() == [("gpu-17", "critical")]
    late.start()
    feed.drain_for(5, until=lambda: bool(late.firing()))
    assert late.firing() == [("gpu-17", "critical")], "and so does the late one, without what is over"


def test_a_shared_cause_holds_back_its_members_tickets_and_a_page_its_own(
    alertmanager: Make, session: requests.Session
) -> None:
    am = alertmanager().start()
    feed = Feed(session, am, factor=1.0)
    for incident in (
        now_based(slow_leaf),
        now_based(slow_port),
        now_based(slow_port, id="c3", cause="thermal", frozen_cause="thermal"),
        now_based(hot_gpu, frozen_cause="network"),
    ):
        feed.say(incident)
    feed.drain()

    def heard() -> list[tuple[str, str]]:
        return sorted((a["labels"].get("node") or a["labels"]["group"], a["labels"]["cause"])
                      for a in am.alerts(inhibited="false"))  # fmt: skip

    expected = [("gpu-05", "thermal"), ("gpu-17", "network"), ("leaf-2", "network")]
    assert eventually(lambda: heard() == expected), heard()


def test_no_alert_is_refused_whatever_the_incident_says(alertmanager: Make, session: requests.Session) -> None:
    am = alertmanager().start()
    feed = Feed(session, am, factor=1.0)
    feed.say(now_based(hot_gpu, cluster="", summary="\ud800 \x00 \u2028 <b>{{ .Labels }}</b>", advice="", jobs=()))
    feed.say(ended(now_based(slow_leaf, fired_at=1), 2))
    assert all(report.rejected == [] for report in feed.drain().values())
    assert am.firing() == [("gpu-17", "critical")]
