"""What people leave in the inbox is done with the next tick, once, whatever kills come in between."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from anomaly.deliver.entries import SinkRef
from anomaly.jobs.carry import Live
from anomaly.jobs.evidence import freeze_evidence
from anomaly.jobs.inbox import ask_to_close, ask_to_mark
from anomaly.jobs.parts import INBOX, Parts, open_pipeline_store
from anomaly.jobs.publish import publish_results, published_dir
from anomaly.jobs.score import ScoredRun, score
from anomaly.records import Incident, Phase
from anomaly.store import drop
from anomaly.store.published import read_table
from anomaly.store.store import Store
from tests.jobs.parts import T0, at, collect_to, conclusions, differences, score_to, small_cluster

FIRED, NEXT, END = 33, 36, 44
"""By minute 33 both faults of the small cluster fire; they last until 40 and 41."""


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the small cluster, collected to the end and scored until both faults fire."""
    folder = tmp_path_factory.mktemp("lived")
    parts = small_cluster(folder, END)
    with open_pipeline_store(parts.pipeline) as store:
        collect_to(parts, store, at(END))
        score_to(parts, store, at(FIRED))
        assert len(firing(store)) == 2
    return folder / "anomaly.duckdb"


@pytest.fixture
def parts(lived: Path, tmp_path: Path) -> Parts:
    (tmp_path / "anomaly.duckdb").write_bytes(lived.read_bytes())
    return small_cluster(tmp_path, END)


@pytest.fixture
def store(parts: Parts) -> Iterator[Store]:
    with open_pipeline_store(parts.pipeline) as opened:
        yield opened


def firing(store: Store) -> list[Incident]:
    return [incident for incident in store.incidents() if incident.phase is Phase.FIRING]


def tick_to(parts: Parts, store: Store, minute: int, live: Live | None = None) -> ScoredRun:
    sinks = [SinkRef("am", "alertmanager")]
    inbox = parts.state_dir / INBOX
    return score(parts, store, live or Live(), sinks, at(minute), start=T0, end=at(minute), inbox=inbox)


def test_a_closed_incident_ends_with_the_next_tick_and_its_alert_with_it(parts: Parts, store: Store) -> None:
    hot, _ = firing(store)
    inbox = parts.state_dir / INBOX
    ask_to_close(inbox, hot.id, "known fan", "ops", at(FIRED))
    ask_to_mark(inbox, hot.id, "known", "", "ops", at(FIRED) + 1)
    live = Live()
    run = tick_to(parts, store, NEXT, live)
    assert [mark.kind for mark in run.taken.marks] == ["close", "label"]
    closed = store.incident(hot.id)
    assert closed is not None
    assert (closed.phase, closed.resolved_at) == (Phase.CLOSED, at(FIRED + 1))
    last = [json.loads(entry.body) for entry in store.pending("am", at(END)) if entry.incident_id == hot.id][-1]
    assert last["annotations"]["ended"] == "closed by a person"
    assert last["resolvedAt"] == at(FIRED + 1)
    assert list(inbox.glob("*.json")) == []
    tick_to(parts, store, 39, live)
    assert [incident.id for incident in firing(store)] == [firing(store)[0].id] != [hot.id]
    assert len(store.incidents()) == 2, "while its findings last nothing opens in its place"
    assert [(mark.kind, mark.label, mark.note) for mark in store.incident_marks(hot.id)] == [
        ("close", "", "known fan"),
        ("label", "known", ""),
    ]
    publish_results(store, parts.pipeline)
    assert read_table(published_dir(parts.pipeline), "incident_marks").num_rows == 2


def test_a_label_changes_no_incident_and_no_alert(parts: Parts, store: Store) -> None:
    before = firing(store)
    ask_to_mark(parts.state_dir / INBOX, before[0].id, "false", "was a test", "ops", at(FIRED))
    tick_to(parts, store, FIRED + 1)
    assert [incident.id for incident in firing(store)] == [incident.id for incident in before]
    assert [mark.label for mark in store.incident_marks()] == ["false"]


def test_what_nobody_understands_is_done_without_effect_and_other_kinds_are_left(parts: Parts, store: Store) -> None:
    inbox = parts.state_dir / INBOX
    drop(inbox, "mark", {"incident": "x", "label": "bogus", "at": 1}, at(FIRED))
    drop(inbox, "close", {"incident": 7}, at(FIRED))
    drop(inbox, "rollback", {"model": "node-forest"}, at(FIRED))
    run = tick_to(parts, store, FIRED + 1)
    assert (len(run.taken.strange), run.taken.marks) == (2, ())
    assert [json.loads(path.read_text())["kind"] for path in inbox.iterdir()] == ["rollback"]


def test_nothing_is_taken_where_no_tick_is_due(parts: Parts, store: Store) -> None:
    ask_to_mark(parts.state_dir / INBOX, "x", "real", "", "ops", at(FIRED))
    tick_to(parts, store, FIRED)
    assert len(list((parts.state_dir / INBOX).glob("*.json"))) == 1


def test_the_evidence_of_both_is_frozen_with_peers(parts: Parts, store: Store) -> None:
    assert freeze_evidence(store) > 1000
    assert freeze_evidence(store) == 0
    publish_results(store, parts.pipeline)
    rows = read_table(published_dir(parts.pipeline), "evidence").to_pylist()
    for incident in firing(store):
        kept = [row for row in rows if row["incident_id"] == incident.id]
        nodes = {row["name"] for row in kept if row["kind"] == "node"}
        assert set(incident.nodes) < nodes
        assert {item.signal for item in incident.evidence} <= {row["signal"] for row in kept}
        assert min(row["ts"] for row in kept) >= incident.onset - 3_600_000


def in_a_child(work: Callable[[], None]) -> int:
    """How a forked child that does `work` ends."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - a child must not go on as a second parent
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("points", [("before_commit:tick",), ("after_commit:tick",), ("before_commit:tick",) * 2])
def test_a_kill_at_the_commit_neither_loses_nor_repeats_a_wish(
    lived: Path, tmp_path: Path, points: tuple[str, ...]
) -> None:
    def one_life(folder: Path, kill: str) -> None:
        def hook(point: str) -> None:
            if point == kill:
                os.kill(os.getpid(), signal.SIGKILL)

        parts = small_cluster(folder, END)
        with open_pipeline_store(parts.pipeline, hook) as store:
            tick_to(parts, store, NEXT)

    found = {}
    for name, kills in (("quiet", ()), ("killed", points)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "anomaly.duckdb").write_bytes(lived.read_bytes())
        parts = small_cluster(folder, END)
        with open_pipeline_store(parts.pipeline) as store:
            hot = firing(store)[0].id
        ask_to_close(folder / INBOX, hot, "", "ops", at(FIRED))
        ask_to_mark(folder / INBOX, hot, "real", "", "ops", at(FIRED))
        for kill in kills:
            assert in_a_child(partial(one_life, folder, kill)) == -signal.SIGKILL
        assert in_a_child(partial(one_life, folder, "never")) == 0
        with open_pipeline_store(parts.pipeline) as store:
            tick_to(parts, store, NEXT + 1)
            found[name] = conclusions(parts, store) | {"marks": store.incident_marks()}
        assert list((folder / INBOX).glob("*.json")) == []
    assert differences(found["quiet"], found["killed"]) == []
    assert len(found["killed"]["marks"]) == 2
