"""Delivery to several sinks: each for itself, whatever the others do."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from anomaly.clock import MINUTE, Ms
from anomaly.deliver.entries import SinkRef, outbox_entries
from anomaly.deliver.policy import FeedPolicy
from anomaly.errors import DeliveryUnavailable, StoreError
from anomaly.jobs.deliver import deliver
from anomaly.jobs.parts import Target
from anomaly.records import OutboxEntry
from anomaly.store.store import Store, open_store
from tests.deliver.parts import hot_gpu, slow_port
from tests.jobs.parts import T0, at


@dataclass
class Sink:
    """Takes what it gets, or raises `error`, or waits for `gate` first."""

    batch: int = 10
    leased: bool = True
    error: Exception | None = None
    gate: threading.Event | None = None
    got: list[OutboxEntry] = field(default_factory=list)

    def send(self, entries: Sequence[OutboxEntry], now: Ms) -> None:
        if self.gate is not None:
            assert self.gate.wait(10)
        if self.error is not None:
            raise self.error
        self.got += entries


def store_with_two_alerts(folder: Path, names: Sequence[str]) -> Store:
    store = open_store(folder / "anomaly.duckdb")
    refs = [SinkRef(name, "alertmanager") for name in names]
    for incident in (hot_gpu(), slow_port()):
        store.enqueue(outbox_entries(incident, refs, T0, T0))
    return store


def target(name: str, sink: Sink) -> Target:
    return Target(SinkRef(name, "alertmanager"), sink, FeedPolicy())


def test_one_sink_that_fails_stops_no_other(tmp_path: Path) -> None:
    first, broken, last = Sink(), Sink(error=DeliveryUnavailable("refused")), Sink()
    with store_with_two_alerts(tmp_path, ["a", "b", "c"]) as store:
        reports = deliver(store, [target("a", first), target("b", broken), target("c", last)], T0)
        assert [report.sink for report in reports] == ["a", "b", "c"]
        assert [report.sent for report in reports] == [2, 0, 2]
        assert reports[1].failed == 2 and "refused" in reports[1].error
        assert store.backlog() == {"b": 2}
        broken.error = None
        later = deliver(store, [target("b", broken)], T0 + MINUTE)
        assert later[0].sent == 2


def test_a_sink_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    gate = threading.Event()
    hanging, prompt = Sink(gate=gate), Sink()
    with store_with_two_alerts(tmp_path, ["slow", "prompt"]) as store:
        work = threading.Thread(
            target=deliver, args=(store, [target("slow", hanging), target("prompt", prompt)], T0), daemon=True
        )
        work.start()
        end = time.monotonic() + 5
        while len(prompt.got) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(prompt.got) == 2 and not hanging.got
        gate.set()
        work.join(5)
        assert not work.is_alive()
        assert store.backlog() == {}


def test_what_is_not_about_delivery_is_raised_after_everybody_had_a_turn(tmp_path: Path) -> None:
    sinks = [Sink(error=ValueError("a bug")), Sink()]
    with store_with_two_alerts(tmp_path, ["a", "b"]) as store:
        with pytest.raises(ValueError, match="a bug"):
            deliver(store, [target("a", sinks[0]), target("b", sinks[1])], T0)
        assert len(sinks[1].got) == 2
    with pytest.raises(StoreError):
        deliver(store, [target("a", Sink())], T0)


def test_the_named_point_lies_between_the_post_and_the_mark(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    sink = Sink()
    with store_with_two_alerts(tmp_path, ["a"]) as store:
        deliver(store, [target("a", sink)], T0, lambda where: seen.append((where, len(sink.got), store.backlog()["a"])))
        assert seen == [("after_post", 2, 2)]
        assert deliver(store, [], at(1)) == []
