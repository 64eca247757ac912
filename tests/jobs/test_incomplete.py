"""Answers that the backend itself calls incomplete: what they lack is neither lost nor healthy.

A backend on loopback plays Thanos (200 with `warnings`) and VictoriaMetrics (`isPartial`): from 10:10 to 10:16 its
answers lack a GPU and a target of a node whose other one restarts, or the one exporter that says that a row remap has
failed. The same answers without a word about it show what would be concluded from them.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import requests

from anomaly.clock import Ms
from anomaly.config.pipeline import Pipeline
from anomaly.config.sections import Log
from anomaly.jobs.carry import Live
from anomaly.jobs.collect import collect
from anomaly.jobs.log import make_logger
from anomaly.jobs.metrics import Metrics
from anomaly.jobs.parts import Parts
from anomaly.jobs.publish import publish_results, published_dir
from anomaly.jobs.score import score
from anomaly.jobs.work import Work
from anomaly.source.prometheus import PrometheusSource
from anomaly.store.published import read_table
from anomaly.store.store import Store, open_store
from tests.jobs.parts import STEP, T0, at, parts_of, sample_digests
from tests.source.loopback import Asked, Reply, backend

THANOS = {"warnings": ["No StoreAPIs matched: gpu-store-2:10901: context deadline exceeded"]}
VICTORIA = {"isPartial": True}
SILENT: dict[str, Any] = {}

NODES, GPUS = ("a", "b", "c", "d"), 4
TEMP, MEMORY = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED"
REMAP = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
BEGINS, ENDS = at(10), at(16)

Labels = dict[str, str]


@dataclass
class Cluster:
    """Four nodes of four GPUs; `lacks` says what answers lack between BEGINS and ENDS, `says` what they say of it."""

    says: dict[str, Any]
    lacks: Callable[[str, Labels], bool]
    lost: dict[tuple[str, str], tuple[Ms, Ms]] = field(default_factory=dict)
    """(node, gpu) → when it is really gone."""
    remapped: Ms = 2**62
    """Until then nothing is wrong with GPU 1 of node d; afterwards one of its two exporters says so."""
    mended: Ms = 2**62

    def series(self, metric: str) -> list[Labels]:
        if metric == "up":
            return [
                {"__name__": "up", "job": job, "instance": f"{node}:{port}"}
                for node in NODES
                for job, port in (("dcgm-exporter", 9400), ("node-exporter", 9100))
            ]
        gpus = [{"__name__": metric, "Hostname": node, "gpu": str(g)} for node in NODES for g in range(GPUS)]
        return [{**gpu, "exporter": name} for gpu in gpus for name in ("a", "b")] if metric == REMAP else gpus

    def value(self, labels: Labels, t: Ms) -> float | None:
        metric = labels["__name__"]
        if metric == "up":
            return 0.0 if labels["instance"] == "c:9100" and BEGINS <= t < ENDS else 1.0
        if metric == REMAP:
            bad = labels["Hostname"] == "d" and labels["gpu"] == "1" and labels["exporter"] == "a"
            return 1.0 if bad and self.remapped <= t < self.mended else 0.0
        begins, ends = self.lost.get((labels["Hostname"], labels["gpu"]), (0, 0))
        return None if begins <= t < ends else 60.0 + (t // STEP) % 3

    def answer(self, asked: Asked) -> Reply:
        text, start, end, step = (asked.form[name][0] for name in ("query", "start", "end", "step"))
        grid = range(round(float(start) * 1000), round(float(end) * 1000) + 1, round(float(step) * 1000))
        lacking = BEGINS <= grid[-1] < ENDS
        result = []
        for metric in (TEMP, MEMORY, REMAP, "up"):
            if metric != text and metric not in text.replace('"', "|").split("|"):
                continue
            for labels in self.series(metric):
                if lacking and self.lacks(metric, labels):
                    continue
                values = [[t / 1000, str(v)] for t in grid if (v := self.value(labels, t)) is not None]
                if values:
                    result.append({"metric": labels, "values": values})
        said = self.says if lacking else {}
        body = {"status": "success", "data": {"resultType": "matrix", "result": result}, **said}
        return Reply(body=json.dumps(body).encode())


def a_gpu_and_targets(metric: str, labels: Labels) -> bool:
    """A GPU of node b, and all of node c's targets but the one that is down."""
    if metric == "up":
        return labels["instance"] == "c:9400"
    return metric != REMAP and labels["Hostname"] == "b" and labels["gpu"] == "3"


def the_bad_news(metric: str, labels: Labels) -> bool:
    """Everything from the exporter that knows of the failed row remap."""
    return metric == REMAP and labels["exporter"] == "a"


@dataclass
class Playing:
    parts: Parts
    store: Store
    live: Live = field(default_factory=Live)
    reports: list[dict[str, str]] = field(default_factory=list)

    def minutes(self, first: int, last: int, *, forgetful: bool = False) -> None:
        """Pull and judge minute by minute up to `last`; a forgetful process starts anew every minute."""
        for minute in range(first, last + 1):
            start = T0 if self.store.watermark("collected") is None else None
            found = collect(self.parts, self.store, at(minute), start=start, end=at(minute))
            self.reports.append(dict(found.incomplete))
            live = Live() if forgetful else self.live
            score(self.parts, self.store, live, (), at(minute), start=T0, end=at(minute))

    def incidents(self) -> dict[tuple[str, str], str]:
        """(node, cause) → phase, of everything that ever fired."""
        return {(item.entity.name, item.cause): item.phase.value for item in self.store.incidents()}


@contextmanager
def playing(folder: Path, cluster: Cluster) -> Iterator[Playing]:
    with (
        backend(by=cluster.answer) as server,
        requests.Session() as session,
        open_store(folder / "anomaly.duckdb", memory=True) as store,
    ):
        session.trust_env = False
        pipeline = Pipeline.model_validate(
            {
                "cluster": "small",
                "packs": ["dcgm", "node"],
                "prometheus": {"url": server.url},
                "store": {"path": str(folder / "anomaly.duckdb")},
            }
        )
        parts = parts_of(pipeline, PrometheusSource(server.url, session))
        few = {name: parts.catalogue[name] for name in ("gpu_temp", "framebuffer_used", "row_remap_failure", "up")}
        yield Playing(replace(parts, catalogue=replace(parts.catalogue, signals=few)), store)


# ── a missing answer is no loss ──


def test_without_a_word_what_is_missing_is_lost(tmp_path: Path) -> None:
    with playing(tmp_path, Cluster(SILENT, a_gpu_and_targets)) as play:
        play.minutes(1, 16)
        assert set(play.incidents()) == {("b", "gpu_lost"), ("c", "node_lost")}


@pytest.mark.parametrize("says", [THANOS, VICTORIA], ids=["thanos", "victoria"])
def test_what_an_incomplete_answer_lacks_is_not_lost(tmp_path: Path, says: dict[str, Any]) -> None:
    """As in thanos-io/thanos#622, kubecost#451."""
    with playing(tmp_path, Cluster(says, a_gpu_and_targets)) as play:
        play.minutes(1, 24)
        assert play.incidents() == {}
        assert {"up", "gpu_temp"} <= play.reports[11].keys()
        assert play.reports[5] == play.reports[20] == {}


def test_what_is_really_lost_meanwhile_is_found_when_answers_are_complete_again(tmp_path: Path) -> None:
    cluster = Cluster(THANOS, a_gpu_and_targets, lost={("a", "2"): (at(12), at(40))})
    with playing(tmp_path, cluster) as play:
        play.minutes(1, 16)
        assert play.incidents() == {}
        play.minutes(17, 20)
        assert play.incidents() == {("a", "gpu_lost"): "firing"}


# ── nor health ──


def test_without_a_word_missing_bad_news_is_good_news(tmp_path: Path) -> None:
    with playing(tmp_path, Cluster(SILENT, the_bad_news, remapped=at(6))) as play:
        play.minutes(1, 15)
        assert play.incidents() == {("d", "memory_ecc"): "resolved"}


@pytest.mark.parametrize("forgetful", [False, True], ids=["one process", "restarted every minute"])
def test_an_incident_does_not_end_on_an_incomplete_answer(tmp_path: Path, forgetful: bool) -> None:
    """As in thanos-io/thanos#622, kubecost#451."""
    with playing(tmp_path, Cluster(THANOS, the_bad_news, remapped=at(6), mended=at(22))) as play:
        play.minutes(1, 20, forgetful=forgetful)
        assert play.incidents() == {("d", "memory_ecc"): "firing"}
        assert len(play.store.incident_events()) == 1, "said once, and nothing since"
        play.minutes(21, 26, forgetful=forgetful)
        assert play.incidents() == {("d", "memory_ecc"): "resolved"}


# ── nor a reason to forget ──


def test_an_incomplete_answer_takes_nothing_away_that_was_read_before(tmp_path: Path) -> None:
    def everything(metric: str, labels: Labels) -> bool:
        return True

    with playing(tmp_path, Cluster(THANOS, everything)) as play:
        collect(play.parts, play.store, at(9), start=T0, end=BEGINS - 1)
        before = sample_digests(play.store)
        # Reads the last half minute again, of which this answer has nothing.
        found = collect(play.parts, play.store, at(12), end=at(12))
        assert found.incomplete
        assert found.inserted == 0
        assert sample_digests(play.store) == before
        assert play.store.watermark("collected") == at(12)


def test_a_complete_answer_takes_the_doubt_away(tmp_path: Path) -> None:
    with playing(tmp_path, cluster := Cluster(THANOS, a_gpu_and_targets)) as play:
        collect(play.parts, play.store, at(12), start=T0, end=at(12))
        assert play.store.incomplete(0, 2**62)["up"][-1][1] == at(12)
        cluster.says, cluster.lacks = {}, lambda metric, labels: False
        collect(play.parts, play.store, at(13), end=at(13))
        assert play.store.incomplete(0, 2**62)["up"][-1][1] == at(12) - 30_000, "half a minute is read again"


# ── and said ──


def test_it_is_said_in_coverage(tmp_path: Path) -> None:
    with playing(tmp_path, Cluster(THANOS, a_gpu_and_targets)) as play:
        play.minutes(1, 18)
        publish_results(play.store, play.parts.pipeline)
        table = read_table(published_dir(play.parts.pipeline), "coverage")
        assert table is not None
        told = [row for row in table.to_pylist() if row["kind"] == "signal" and row["name"] == "up"]
        assert {row["verdict"] for row in told} == {"incomplete"}
        assert [row["tick_at"] for row in told] == [at(minute) for minute in range(10, 16)]


def test_it_is_said_once_in_the_log_and_in_the_metrics(tmp_path: Path) -> None:
    now = at(9)
    with playing(tmp_path, Cluster(THANOS, a_gpu_and_targets)) as play:
        log, metrics = StringIO(), Metrics()
        work = Work(play.parts, play.store, [], lambda: now, make_logger(Log(), log), metrics)
        for minute in (9, 12, 14, 20, 22):
            now = at(minute)
            work.data()
        lines = [line for line in log.getvalue().splitlines() if " signal=up" in line]
        assert [line.split("event=")[1].split()[0] for line in lines] == ["data_incomplete", "data_complete"]
        assert "context deadline exceeded" in lines[0]
        text = metrics.exposition("")[0].decode()
        assert "anomaly_signals_incomplete 0.0" in text
        counted = next(line for line in text.splitlines() if line.startswith("anomaly_incomplete_answers_total"))
        assert float(counted.split()[1]) > 2


def test_warnings_about_the_query_do_not_make_an_answer_incomplete(tmp_path: Path) -> None:
    says = {"warnings": ['PromQL warning: bucket label "le" is missing or has a malformed value of ""']}
    with playing(tmp_path, Cluster(says, a_gpu_and_targets)) as play:
        found = collect(play.parts, play.store, at(12), start=T0, end=at(12))
        assert found.incomplete == {}
        assert any("bucket label" in text for text in found.warnings)
        assert play.store.incomplete(0, 2**62) == {}
