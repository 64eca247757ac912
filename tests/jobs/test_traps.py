"""The four traps of pulled data: a gap in the pull, a late sample, a counter reset, a constant series."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from anomaly.clock import MINUTE, Ms
from anomaly.errors import SourceRejected, SourceUnavailable
from anomaly.jobs.collect import collect
from anomaly.jobs.parts import Parts, open_pipeline_store
from anomaly.records import Labels
from anomaly.store.store import Store
from tests.jobs.parts import (
    STEP,
    T0,
    MemorySource,
    Value,
    at,
    collect_to,
    conclusions,
    differences,
    parts_of,
    pipeline_in,
    score_to,
)

NODES = [f"gpu-{number:02d}" for number in range(1, 9)]
PROMETHEUS = {
    "simulate": None,
    "packs": ["dcgm", "node", "rdma"],
    "prometheus": {"url": "http://127.0.0.1:1", "query_offset": "30s", "reread": "30s", "late_check": "5m"},
}


def node_labels(**more: str) -> list[Labels]:
    return [{"job": "node-exporter", "instance": f"{node}:9100", **more} for node in NODES]


def gpu_labels() -> list[Labels]:
    return [
        {"job": "dcgm-exporter", "instance": f"{node}:9400", "Hostname": node, "gpu": gpu, "hpc_job": "train-1"}
        for node in NODES
        for gpu in ("0", "1")
    ]


def wobble(labels: Labels, ts: Ms, size: float = 1.0) -> float:
    """Small, different for every series and instant, the same whenever it is asked."""
    return size * ((hash_of(labels) * 31 + ts // STEP * 17) % 11 - 5) / 5


def with_hole(value: Value, start: Ms, end: Ms) -> Value:
    """The same without anything in (start, end]."""
    return lambda labels, ts: None if start < ts <= end else value(labels, ts)


def hash_of(labels: Labels) -> int:
    return sum(map(ord, "".join(labels.values())))


def healthy() -> MemorySource:
    """Eight nodes of two busy GPUs that do nothing remarkable."""
    return MemorySource(
        {
            "up": (node_labels(), lambda labels, ts: 1.0),
            "gpu_temp": (gpu_labels(), lambda labels, ts: 62 + wobble(labels, ts)),
            "gpu_power": (gpu_labels(), lambda labels, ts: 550 + wobble(labels, ts, 5)),
            "gpu_util": (gpu_labels(), lambda labels, ts: 98 + wobble(labels, ts)),
            "sm_clock": (gpu_labels(), lambda labels, ts: 1965 + wobble(labels, ts, 3)),
        }
    )


@pytest.fixture
def source() -> MemorySource:
    return healthy()


@pytest.fixture
def parts(source: MemorySource, tmp_path: Path) -> Parts:
    return parts_of(pipeline_in(tmp_path, **PROMETHEUS), source)


@pytest.fixture
def store(parts: Parts) -> Iterator[Store]:
    with open_pipeline_store(parts.pipeline) as opened:
        yield opened


def named(store: Store) -> set[str]:
    return {incident.entity.name for incident in store.incidents()}


# ── a gap in the pull ──


def test_a_gap_in_the_pull_is_closed_by_the_next_one(parts: Parts, source: MemorySource, store: Store) -> None:
    """Prometheus is away for eight minutes: nothing moves, then everything is there, once, and nobody is blamed."""
    collect_to(parts, store, at(20))
    score_to(parts, store, at(20))
    away = SourceUnavailable("http://127.0.0.1:1 cannot be reached", "check it")
    source.away = dict.fromkeys(parts.catalogue.signals, away)
    for minute in (22, 25, 28):
        with pytest.raises(SourceUnavailable):
            collect(parts, store, at(minute))
        assert store.watermark("collected") == at(20)
        assert score_to(parts, store, at(minute)).ticks == 0
    source.away = {}
    collect(parts, store, at(30.5))
    assert store.watermark("collected") == at(30)
    assert score_to(parts, store, at(30)).ticks == 10
    temps = store.read("gpu_temp", T0 + 1, at(30))
    assert len(temps) == len(gpu_labels()) * 60
    assert len(set(zip(temps.series_id.tolist(), temps.ts.tolist(), strict=True))) == len(temps)
    assert store.late_samples(0, 2**62) == []
    assert named(store) == set()


def test_a_gap_in_the_data_blames_nobody(parts: Parts, source: MemorySource, store: Store) -> None:
    """Every series stops for six minutes (Prometheus itself was down): missing data is no fault of a node. As in
    opensearch-project/project-website PR#4006."""

    for name, (labels, value) in list(source.signals.items()):
        source.signals[name] = (labels, with_hole(value, at(20), at(26)))
    collect_to(parts, store, at(40))
    assert score_to(parts, store, at(40)).ticks == 40
    assert named(store) == set()


def test_one_signal_that_fails_stays_behind_alone(parts: Parts, source: MemorySource, store: Store) -> None:
    """A bad query is refused for ten minutes; everything else is judged in time, and its own samples come later. As
    in AICoE/prometheus-anomaly-detector#114, AICoE/prometheus-anomaly-detector#187."""
    collect_to(parts, store, at(10))
    score_to(parts, store, at(10))
    source.away = {"sm_clock": SourceRejected("400 bad_data", "correct the query")}
    found = collect(parts, store, at(20), end=at(20))
    assert list(found.failed) == ["sm_clock"]
    assert store.watermark("sm_clock") == at(10)
    assert score_to(parts, store, at(20)).ticks == 10
    source.away = {}
    found = collect(parts, store, at(30), end=at(30))
    assert found.failed == {}
    assert found.late == len(gpu_labels()) * 20, "what came after its steps were scored is set aside"
    assert len(store.read("sm_clock", T0 + 1, at(30))) == len(gpu_labels()) * 40
    assert score_to(parts, store, at(30)).ticks == 10
    assert named(store) == set()


def test_a_source_that_goes_away_is_not_asked_for_every_signal(
    parts: Parts, source: MemorySource, store: Store
) -> None:
    """Each question may take its whole time-out: after three without an answer the chunk is given up."""
    collect_to(parts, store, at(10))
    source.asked.clear()
    source.away = dict.fromkeys(parts.catalogue.signals, SourceUnavailable("timed out"))
    with pytest.raises(SourceUnavailable):
        collect(parts, store, at(12))
    assert len(source.asked) == 3
    # The same in the middle of a chunk: what had answered is asked again, and no more.
    answers = sorted(parts.catalogue.signals)[:5]
    source.away = {name: error for name, error in source.away.items() if name not in answers}
    source.asked.clear()
    original = source.pull

    def goes_away_for_good(query: object) -> object:
        if len(source.asked) >= 8:
            source.away = dict.fromkeys(parts.catalogue.signals, SourceUnavailable("timed out"))
        return original(query)  # type: ignore[arg-type]

    source.pull = goes_away_for_good  # type: ignore[assignment, method-assign]
    with pytest.raises(SourceUnavailable):
        collect(parts, store, at(12))
    assert len(source.asked) < len(parts.catalogue.signals)
    assert store.watermark("collected") == at(10)


def test_the_last_sample_before_a_chunk_stays(parts: Parts, store: Store) -> None:
    """Chunks meet without a gap and without an overlap, scored or not."""
    collect_to(parts, store, at(31))
    temps = store.read("gpu_temp", T0 + 1, at(31))
    assert sorted(set(temps.ts.tolist())) == list(range(T0 + 2 * STEP, at(31) + 1, 2 * STEP))
    assert len(temps) == len(gpu_labels()) * 62


# ── a late sample ──


def test_a_late_sample_is_kept_aside_and_changes_no_history(parts: Parts, source: MemorySource, store: Store) -> None:
    """One GPU's sample of 10:16:30 arrives only after 10:20, and it looks like a fault."""
    labels, value = source.signals["gpu_temp"]
    late = gpu_labels()[5]
    arrived = [False]

    def held_back(each: Labels, ts: Ms) -> float | None:
        if each == late and ts == at(16.5):
            return 104.0 if arrived[0] else None
        return value(each, ts)

    source.signals["gpu_temp"] = (labels, held_back)
    collect_to(parts, store, at(20))
    score_to(parts, store, at(20))
    before = conclusions(parts, store)
    history = store.read("gpu_temp", T0, at(20))

    arrived[0] = True
    assert collect(parts, store, at(24)).late == 0, "looked for every five minutes only"
    found = collect(parts, store, at(26))
    assert found.late == 1, "the search looks back two of its intervals"
    assert collect(parts, store, at(31)).late == 0, "what is known to be late is not told twice"
    assert [(ts, value) for _, ts, value, _ in store.late_samples(0, 2**62)] == [(at(16.5), 104.0)]
    after = store.read("gpu_temp", T0, at(20))
    assert sorted(zip(after.series_id, after.ts, after.values, strict=True)) == sorted(
        zip(history.series_id, history.ts, history.values, strict=True)
    )
    assert differences(before, conclusions(parts, store)) == []
    score_to(parts, store, at(30))
    assert named(store) == set()


# ── a counter reset ──


def port_labels() -> list[Labels]:
    return node_labels(device="mlx5_0", port="1")


def test_a_counter_reset_is_no_burst(parts: Parts, source: MemorySource, store: Store) -> None:
    """A driver reload sets one port's counters to zero at 10:22: neither a huge nor a negative rate comes of it."""
    reset = port_labels()[2]

    def symbol_errors(labels: Labels, ts: Ms) -> float:
        if labels == reset:
            return 9.0e9 if ts < at(22) else 0.0
        return 40.0

    def received(labels: Labels, ts: Ms) -> float:
        seconds = (ts - T0) / 1000 + 10_000_000
        if labels == reset and ts >= at(22):
            seconds = (ts - at(22)) / 1000
        return seconds * 2.0e10

    source.signals["symbol_errors"] = (port_labels(), symbol_errors)
    source.signals["rdma_bytes_received"] = (port_labels(), received)
    collect_to(parts, store, at(40))
    score_to(parts, store, at(40))
    assert named(store) == set()
    assert store.findings(0, 2**62) == []


def test_a_counter_that_grows_after_its_reset_is_still_seen(parts: Parts, source: MemorySource, store: Store) -> None:
    """The reset hides nothing: 30 symbol errors a second from then on name the node."""
    bad = port_labels()[2]
    source.signals["symbol_errors"] = (
        port_labels(),
        lambda labels, ts: (
            5.0e6 if labels == bad and ts < at(22) else (ts - at(22)) / 1000 * 30 if labels == bad else 7
        ),
    )
    collect_to(parts, store, at(40))
    score_to(parts, store, at(40))
    assert named(store) == {"gpu-03"}


# ── a constant series ──


@pytest.mark.parametrize("constant", [0.0, 1.0, 62.0])
def test_series_that_never_move_are_nothing(parts: Parts, source: MemorySource, store: Store, constant: float) -> None:
    """No spread at all: no division by zero, no infinite score, nobody named. As in twitter/AnomalyDetection#58,
    twitter/AnomalyDetection#57, netdata/netdata#12967."""
    for name, (labels, _) in list(source.signals.items()):
        if name != "up":
            source.signals[name] = (labels, lambda each, ts: constant)
    source.signals["symbol_errors"] = (port_labels(), lambda each, ts: constant)
    collect_to(parts, store, at(40))
    score_to(parts, store, at(40))
    assert named(store) == set()
    assert store.findings(0, 2**62) == []


def test_one_constant_series_among_moving_ones_is_nothing(parts: Parts, source: MemorySource, store: Store) -> None:
    """Its own spread is zero while its value is everybody's."""
    labels, value = source.signals["sm_clock"]
    source.signals["sm_clock"] = (labels, lambda each, ts: 1965.0 if each == labels[3] else value(each, ts))
    collect_to(parts, store, at(40))
    score_to(parts, store, at(40))
    assert named(store) == set()


def test_ticks_go_on_whatever_is_missing(parts: Parts, source: MemorySource, store: Store) -> None:
    """Nothing at all, one sample, one series: each tick is run, and says nothing. As in arundo/adtk#115,
    arundo/adtk#146, arundo/adtk#60, twitter/AnomalyDetection#22, twitter/AnomalyDetection#45."""
    source.signals.clear()
    collect_to(parts, store, at(5))
    assert score_to(parts, store, at(5)).ticks == 5
    source.signals["gpu_temp"] = (gpu_labels()[:1], lambda each, ts: 60.0 if ts == at(7) else None)
    collect_to(parts, store, at(10))
    assert score_to(parts, store, at(10)).ticks == 5
    assert store.scored_through() == at(10)
    assert at(10) % MINUTE == 0
    assert named(store) == set()
