"""The outbox's laws: nothing is lost, nothing overtakes, a resolved alert is never opened again by a late copy."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.clock import HOUR, MINUTE, SECOND, Ms
from anomaly.deliver.drain import drain
from anomaly.deliver.entries import SinkRef, outbox_entries
from anomaly.deliver.outbox import MemoryOutbox, Outbox
from anomaly.deliver.policy import FeedPolicy
from anomaly.deliver.sinks import AlertmanagerSink, WebhookSink
from anomaly.errors import DeliveryRejected, DeliveryUnavailable
from anomaly.records import Entity, Incident, OutboxEntry
from anomaly.store.store import open_store
from tests.deliver.parts import T0, Receiver, ended, hot_gpu, slow_leaf, slow_port

POLICY = FeedPolicy()
SINKS = [SinkRef("am", "alertmanager"), SinkRef("hook", "webhook")]


@dataclass
class Record:
    """A sink that keeps what it takes, in order, and fails as told: `weather` is consumed one item a send."""

    leased: bool = True
    batch: int = 256
    weather: list[str] = field(default_factory=list)
    poison: set[str] = field(default_factory=set)
    taken: list[OutboxEntry] = field(default_factory=list)
    sends: list[int] = field(default_factory=list)

    def send(self, entries: Sequence[OutboxEntry], now: Ms) -> None:
        self.sends.append(len(entries))
        mood = self.weather.pop(0) if self.weather else "fair"
        if mood == "down":
            raise DeliveryUnavailable("down")
        if any(entry.key in self.poison for entry in entries):
            raise DeliveryRejected("poisoned")
        self.taken += entries
        if mood == "lost answer":
            raise DeliveryUnavailable("no answer")

    @property
    def keys(self) -> list[str]:
        return [entry.key for entry in self.taken]


class Box(Outbox, Protocol):
    """An outbox that can be filled."""

    def enqueue(self, entries: Sequence[OutboxEntry], /) -> list[int]: ...


@pytest.fixture(params=["memory", "database"])
def outbox(request: pytest.FixtureRequest) -> Iterator[Box]:
    """The same laws for the outbox in memory and for the store's."""
    if request.param == "memory":
        yield MemoryOutbox()
    else:
        with open_store(Path(), memory=True) as store:
            yield store


def entry(key: str, body: str = "", sink: str = "am", resolved_at: Ms | None = None) -> OutboxEntry:
    return OutboxEntry(0, sink, key, "i", body, T0, resolved_at)


def on_node(n: int) -> Incident:
    return hot_gpu(id=f"i{n}", entity=Entity("node", f"gpu-{n:03}"))


def test_what_waits_is_sent_in_order_and_marked(outbox: Box) -> None:
    sink = Record()
    outbox.enqueue([entry("a"), entry("b"), entry("c", sink="other")])
    report = drain(outbox, "am", sink, T0, POLICY)
    assert (sink.keys, report.sent) == (["a", "b"], 2)
    assert drain(outbox, "am", sink, T0, POLICY).sent == 0
    assert sink.sends == [2]


def test_many_alerts_go_in_batches_of_256() -> None:
    outbox, sink = MemoryOutbox(), Record()
    outbox.enqueue(entry(str(i)) for i in range(3000))
    assert drain(outbox, "am", sink, T0, POLICY).sent == 3000
    assert max(sink.sends) == 256
    assert sink.keys == [str(i) for i in range(3000)]


def test_one_bad_alert_becomes_a_dead_letter_and_takes_no_sibling_with_it(outbox: Box) -> None:
    sink = Record(poison={"17", "200"})
    outbox.enqueue([entry(str(i)) for i in range(256)])
    report = drain(outbox, "am", sink, T0, POLICY)
    assert sorted(map(int, sink.keys)) == [i for i in range(256) if i not in (17, 200)]
    assert sink.keys == sorted(sink.keys, key=int), "the order stands"
    assert [reason for _, reason in report.rejected] == ["poisoned", "poisoned"]
    assert outbox.pending("am", T0 + HOUR, 10) == []
    assert len(sink.sends) < 40
    assert drain(outbox, "am", sink, T0 + HOUR, POLICY).rejected == [], "a dead letter stays dead"


def test_a_sink_that_is_down_is_left_alone_until_its_back_off_is_over(outbox: Box) -> None:
    sink = Record(weather=["down", "down"])
    outbox.enqueue([entry("a")])
    report = drain(outbox, "am", sink, T0, POLICY)
    assert (report.failed, report.retry_at, report.error) == (1, T0 + 5 * SECOND, "down")
    outbox.enqueue([entry("b")])
    assert drain(outbox, "am", sink, T0 + 4 * SECOND, POLICY).retry_at == T0 + 5 * SECOND
    assert sink.sends == [1], "the newcomer did not overtake"
    assert drain(outbox, "am", sink, T0 + 5 * SECOND, POLICY).retry_at == T0 + 15 * SECOND
    assert drain(outbox, "am", sink, T0 + 15 * SECOND, POLICY).sent == 2
    assert sink.keys == ["a", "b"]


def test_jitter_shortens_the_wait() -> None:
    outbox = MemoryOutbox()
    outbox.enqueue([entry("a")])
    assert drain(outbox, "am", Record(weather=["down"]), T0, POLICY, jitter=1.0).retry_at == T0 + 2_500


def test_a_clock_set_back_does_not_hold_the_feed() -> None:
    outbox, sink = MemoryOutbox(), Record(weather=["down"])
    outbox.enqueue([entry("a")])
    drain(outbox, "am", sink, T0 + HOUR, POLICY)
    assert drain(outbox, "am", sink, T0, POLICY).sent == 1
    assert drain(outbox, "am", sink, T0 - HOUR, POLICY).renewed == 1


def test_what_fired_and_resolved_while_the_sink_was_down_arrives_as_resolved_only(outbox: Box) -> None:
    """As in NVIDIA/NVSentinel#450, NVIDIA/NVSentinel#1686."""
    sink = Record()
    outbox.enqueue([entry("a", "firing"), entry("b", "firing"), entry("a", "resolved", resolved_at=T0)])
    report = drain(outbox, "am", sink, T0, POLICY)
    assert [(sent.key, sent.body) for sent in sink.taken] == [("b", "firing"), ("a", "resolved")]
    assert (report.sent, report.superseded) == (2, 1)
    assert outbox.pending("am", T0 + HOUR, 10) == []


def test_the_events_of_a_file_or_webhook_all_arrive_in_order() -> None:
    outbox, sink = MemoryOutbox(), Record(leased=False, batch=1, weather=["fair", "down"])
    outbox.enqueue([entry("a", "1"), entry("a", "2"), entry("b", "3")])
    drain(outbox, "am", sink, T0, POLICY)
    assert drain(outbox, "am", sink, T0 + MINUTE, POLICY).renewed == 0
    assert [sent.body for sent in sink.taken] == ["1", "2", "3"]


def test_a_kill_between_post_and_mark_sends_again() -> None:
    class Killed(BaseException):
        pass

    def kill(point: str) -> None:
        assert point == "after_post"
        raise Killed

    outbox, sink = MemoryOutbox(), Record()
    outbox.enqueue([entry("a")])
    with pytest.raises(Killed):
        drain(outbox, "am", sink, T0, POLICY, hooks=kill)
    assert drain(outbox, "am", sink, T0, POLICY).sent == 1
    assert sink.keys == ["a", "a"]


# ── leases ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_firing_alert_is_sent_again_before_its_lease_ends_for_as_long_as_it_fires() -> None:
    outbox, sink = MemoryOutbox(), Record()
    outbox.enqueue([entry("a")])
    drain(outbox, "am", sink, T0, POLICY)
    assert drain(outbox, "am", sink, T0 + MINUTE - 1, POLICY).renewed == 0
    assert all(drain(outbox, "am", sink, T0 + n * MINUTE, POLICY).renewed == 1 for n in range(1, 200))


def test_a_resolved_alert_is_sent_again_for_a_quarter_of_an_hour_only(outbox: Box) -> None:
    """As in prometheus/prometheus#1945."""
    sink = Record()
    outbox.enqueue([entry("a"), entry("a", "resolved", resolved_at=T0)])
    for n in range(18):
        drain(outbox, "am", sink, T0 + n * MINUTE, POLICY)
    assert [sent.body for sent in sink.taken] == ["resolved"] * 15


def test_a_failed_renewal_is_tried_at_the_next_round() -> None:
    outbox, sink = MemoryOutbox(), Record()
    outbox.enqueue([entry("a")])
    drain(outbox, "am", sink, T0, POLICY)
    sink.weather = ["down"]
    assert drain(outbox, "am", sink, T0 + MINUTE, POLICY).error == "down"
    assert drain(outbox, "am", sink, T0 + MINUTE + SECOND, POLICY).renewed == 1


def test_a_renewal_that_is_refused_takes_no_sibling_with_it() -> None:
    outbox, sink = MemoryOutbox(), Record()
    outbox.enqueue([entry("a"), entry("b"), entry("c")])
    drain(outbox, "am", sink, T0, POLICY)
    sink.poison = {"b"}
    report = drain(outbox, "am", sink, T0 + MINUTE, POLICY)
    assert (report.renewed, len(report.rejected)) == (2, 1)


def test_a_refused_resolution_ends_the_renewals_so_that_the_lease_runs_out(outbox: Box) -> None:
    sink = Record()
    outbox.enqueue([entry("a")])
    drain(outbox, "am", sink, T0, POLICY)
    outbox.enqueue([entry("a", "resolved", resolved_at=T0)])
    sink.poison = {"a"}
    drain(outbox, "am", sink, T0 + SECOND, POLICY)
    sink.poison = set()
    assert drain(outbox, "am", sink, T0 + 2 * MINUTE, POLICY).renewed == 0


# ── over HTTP ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [400, 422])
def test_a_poisoned_batch_over_http(session: requests.Session, status: int) -> None:
    outbox = MemoryOutbox()
    for n in range(9):
        outbox.enqueue(outbox_entries(on_node(n), SINKS, T0, T0))
    with Receiver(lambda path, body: status if b"gpu-004" in body else 200) as receiver:
        report = drain(outbox, "am", AlertmanagerSink(receiver.url, session), T0, POLICY)
    assert (report.sent, len(report.rejected)) == (8, 1)
    assert str(status) in outbox.errors[report.rejected[0][0]]


def test_a_group_and_its_absorbed_members_go_in_one_post(session: requests.Session) -> None:
    outbox = MemoryOutbox()
    outbox.enqueue(outbox_entries(slow_port(), SINKS, T0, T0))
    with Receiver() as receiver:
        sink = AlertmanagerSink(receiver.url, session)
        drain(outbox, "am", sink, T0 + 5 * MINUTE, POLICY)
        outbox.enqueue(outbox_entries(slow_leaf(), SINKS, T0, T0 + 6 * MINUTE))
        outbox.enqueue(
            outbox_entries(ended(slow_port(), T0 + 6 * MINUTE, absorbed_by="aa01"), SINKS, T0, T0 + 6 * MINUTE)
        )
        drain(outbox, "am", sink, T0 + 5 * MINUTE + SECOND, POLICY)
    _, both = receiver.alerts()
    assert [alert["labels"]["alertname"] for alert in both] == ["SharedFault", "NodeFault"]


def test_two_alertmanagers_one_down(session: requests.Session) -> None:
    """As in prometheus/alertmanager#787, prometheus/alertmanager#2198, prometheus/alertmanager#4249."""
    refs = [SinkRef("am-a", "alertmanager"), SinkRef("am-b", "alertmanager")]
    outbox, down = MemoryOutbox(), [503]
    with Receiver() as good, Receiver(lambda path, body: down[0]) as bad:
        sinks = {"am-a": AlertmanagerSink(good.url, session), "am-b": AlertmanagerSink(bad.url, session)}
        for n in range(3):
            outbox.enqueue(outbox_entries(on_node(n), refs, T0, T0))
            for name, sink in sinks.items():
                drain(outbox, name, sink, T0 + n * SECOND, POLICY)
        assert len(good.requests) == 3
        down[0], bad.requests = 200, []
        drain(outbox, "am-b", sinks["am-b"], T0 + MINUTE, POLICY)
    assert [len(alerts) for alerts in bad.alerts()] == [3]


def test_a_webhook_s_dead_letter_does_not_stop_the_next_incident(session: requests.Session) -> None:
    outbox = MemoryOutbox()
    for n in range(3):
        outbox.enqueue(outbox_entries(on_node(n), SINKS, T0, T0))
    with Receiver(lambda path, body: 400 if b"gpu-001" in body else 200) as receiver:
        report = drain(outbox, "hook", WebhookSink(lambda: receiver.url, session), T0, POLICY)
    assert (report.sent, len(report.rejected)) == (2, 1)
    assert [json.loads(body)["id"] for _, _, body in receiver.requests] == ["i0", "i1", "i2"]


# ── laws ──────────────────────────────────────────────────────────────────────────────────────────────

steps = st.lists(
    st.one_of(
        st.tuples(st.just("fire"), st.sampled_from("abc")),
        st.tuples(st.just("resolve"), st.sampled_from("abc")),
        st.tuples(st.just("drain"), st.sampled_from(["fair", "down", "lost answer", "killed"])),
        st.tuples(st.just("wait"), st.sampled_from(["1", "5", "61", "2000"])),
    ),
    max_size=40,
)


class _Kill(BaseException):
    pass


def _kill(point: str) -> None:
    raise _Kill


def _play(script: list[tuple[str, str]], outbox: Box, sink: Record) -> dict[int, str]:
    """The script, then fair weather until nothing waits. The key of every entry by `seq`."""
    now, keys = T0, {}
    for step, what in [*script, ("wait", "2000"), ("drain", "fair"), ("wait", "61"), ("drain", "fair")]:
        if step == "wait":
            now += int(what) * SECOND
        elif step == "drain":
            sink.weather = [what] if what in ("down", "lost answer") else []
            try:
                drain(outbox, "am", sink, now, POLICY, hooks=_kill if what == "killed" else None)
            except _Kill:
                continue
        else:
            (seq,) = outbox.enqueue([entry(what, resolved_at=now if step == "resolve" else None)])
            keys[seq] = what
    assert outbox.pending("am", T0 + 10**9, 10) == []
    return keys


def _newest_state_law(script: list[tuple[str, str]], outbox: Box, batch: int) -> None:
    sink = Record(batch=batch)
    keys = _play(script, outbox, sink)
    for key in set(keys.values()):
        seqs = [sent.seq for sent in sink.taken if sent.key == key]
        assert seqs == sorted(seqs), "a late copy followed a newer state"
        assert seqs[-1] == max(seq for seq, name in keys.items() if name == key)


def _every_event_law(script: list[tuple[str, str]], outbox: Box) -> None:
    sink = Record(leased=False, batch=2)
    keys = _play(script, outbox, sink)
    assert list(dict.fromkeys(sent.seq for sent in sink.taken)) == sorted(keys)


@given(steps, st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_alertmanager_ends_with_the_newest_state_and_never_goes_back(script: list[tuple[str, str]], batch: int) -> None:
    _newest_state_law(script, MemoryOutbox(), batch)


@given(steps)
@settings(max_examples=100, deadline=None)
def test_every_event_arrives_at_least_once_and_first_copies_in_order(script: list[tuple[str, str]]) -> None:
    _every_event_law(script, MemoryOutbox())


@given(steps)
@settings(max_examples=6, deadline=None)
def test_the_laws_hold_on_the_database_too(script: list[tuple[str, str]]) -> None:
    for law in (partial(_newest_state_law, batch=2), _every_event_law):
        with open_store(Path(), memory=True) as store:
            law(script, store)
