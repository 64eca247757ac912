"""An evidence slice is frozen at the firing, completed an hour later, and outlives the samples."""

from pathlib import Path

from anomaly.clock import DAY, HOUR, MINUTE
from anomaly.records import Severity
from anomaly.store import Keep, Store, TickRecord
from anomaly.store.published import read_table
from tests.store.parts import STEP, T0, chunk, incident, series_of


def collected(store: Store, ids: list[int], start: int, end: int) -> None:
    points = [(each, at, float(each)) for each in ids for at in range(start, end + 1, STEP)]
    store.commit_chunk(chunk(start, end, {"gpu_temp": points}))


def test_a_slice_is_frozen_twice_and_no_sample_comes_twice(store: Store) -> None:
    ids = series_of(store, "gpu_temp", 3)
    collected(store, ids, T0 - 2 * HOUR, T0 + 5 * MINUTE)
    store.commit_tick(TickRecord(T0 + 5 * MINUTE, "", incidents=[incident()]))
    (due,) = store.evidence_due()
    assert (due.start, due.end) == (T0 - HOUR, T0 + 61 * MINUTE)
    assert store.freeze_evidence(due, ids[:2]) == 2 * (65 * 4 + 1)
    assert store.evidence_due() == [], "until its time is over"
    collected(store, ids, T0 + 5 * MINUTE + STEP, T0 + 2 * HOUR)
    (due,) = store.evidence_due()
    assert store.freeze_evidence(due, ids[:2]) == 2 * 56 * 4
    assert store.evidence_due() == []


def test_a_note_is_not_frozen_and_one_that_rises_is(store: Store) -> None:
    collected(store, series_of(store, "gpu_temp", 1), T0, T0 + MINUTE)
    store.commit_tick(TickRecord(T0, "", incidents=[incident(severity=Severity.INFO)]))
    assert store.evidence_due() == []
    store.commit_tick(TickRecord(T0 + MINUTE, "", incidents=[incident()]))
    assert [due.incident_id for due in store.evidence_due()] == ["a1"]


def test_it_is_published_and_outlives_the_samples(store: Store, tmp_path: Path) -> None:
    ids = series_of(store, "gpu_temp", 2)
    collected(store, ids, T0 - MINUTE, T0 + MINUTE)
    store.commit_tick(TickRecord(T0 + MINUTE, "", incidents=[incident(resolved_at=T0 + MINUTE)]))
    store.freeze_evidence(store.evidence_due()[0], ids)
    store.publish(tmp_path)
    table = read_table(tmp_path, "evidence")
    assert table.num_rows == 2 * 9
    assert set(table.column("device").to_pylist()) == {"gpu0", "gpu1"}
    gone = store.prune(T0 + 3 * DAY, Keep())
    assert (gone["samples"], gone["evidence"]) == (2 * 9, 0)
    gone = store.prune(T0 + 400 * DAY, Keep())
    assert gone["evidence"] == 2 * 9
