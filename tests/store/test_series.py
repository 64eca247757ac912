"""Identity: label sets become ids, once and for ever."""

from pathlib import Path

import pytest

from anomaly.clock import HOUR
from anomaly.records import Attachment, Entity
from anomaly.store import Keep, Store, open_store
from tests.store.parts import T0, chunk, series_of

NODE = Entity("node", "gpu-17")


def test_the_same_labels_have_the_same_id_whatever_their_order(store: Store) -> None:
    first = store.register([("gpu_temp", NODE, "gpu0", "", {"gpu": "0", "Hostname": "gpu-17"})])
    again = store.register([("gpu_temp", NODE, "gpu0", "", {"Hostname": "gpu-17", "gpu": "0"})])
    assert first.tolist() == again.tolist()
    assert len(store.series()) == 1


def test_signals_keep_their_series_apart(store: Store) -> None:
    labels = {"gpu": "0"}
    ids = store.register([("gpu_temp", NODE, "gpu0", "", labels), ("sm_clock", NODE, "gpu0", "", labels)])
    assert len(set(ids.tolist())) == 2
    assert [row.signal for row in store.series("sm_clock")] == ["sm_clock"]


def test_the_same_series_twice_in_one_call_is_one_series(store: Store) -> None:
    row = ("gpu_temp", NODE, "gpu0", "", {"gpu": "0"})
    assert store.register([row, row]).tolist() == [1, 1]


def test_labels_that_look_alike_when_joined_are_told_apart(store: Store) -> None:
    tricky = [{"a": "1\0b", "c": "2"}, {"a": "1", "b\0c": "2"}, {"a": "1", "b": "c\0" + "2"}, {}, {"a": ""}]
    for _ in range(2):
        ids = store.register([("s", NODE, "", "", labels) for labels in tricky])
        assert len(set(ids.tolist())) == len(tricky)


def test_a_changed_alias_map_moves_known_series_and_keeps_their_ids(tmp_path: Path) -> None:
    labels = {"instance": "10.0.0.7:9400"}
    with open_store(tmp_path / "a.duckdb") as store:
        before = store.register([("gpu_temp", Entity("node", "10.0.0.7"), "gpu0", "", labels)])
    with open_store(tmp_path / "a.duckdb") as store:
        changes = store.series_changes
        after = store.register([("gpu_temp", NODE, "gpu1", "p", labels)])
        assert after.tolist() == before.tolist()
        assert store.series_changes > changes
        (row,) = store.series()
        assert (row.entity, row.device, row.part, row.labels) == (NODE, "gpu1", "p", labels)
        changes = store.series_changes
        store.register([("gpu_temp", NODE, "gpu1", "p", labels)])
        assert store.series_changes == changes


def test_series_can_be_asked_for_by_id(store: Store) -> None:
    ids = series_of(store, "gpu_temp", 5)
    assert [row.series_id for row in store.series_of([ids[3], ids[1], 999])] == [ids[1], ids[3]]


def test_samples_of_unregistered_series_are_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="not registered"):
        store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(7, T0, 1.0)]}))


def test_series_that_nothing_knows_any_more_go_and_their_ids_never_return(store: Store) -> None:
    old = series_of(store, "gpu_temp", 3)
    store.prune(T0 + 100 * HOUR, Keep())
    assert store.series() == []
    assert not set(series_of(store, "gpu_temp", 3)) & set(old)


def test_attachments_are_valid_for_their_time(store: Store) -> None:
    cordon = Attachment(NODE, "cordon", "fan change", T0, None)
    store.attach([cordon])
    assert store.attachments(T0 + 1, T0 + 2) == [cordon]
    ended = Attachment(NODE, "cordon", "fan change", T0, T0 + HOUR)
    store.attach([ended])
    assert store.attachments(T0, T0) == [ended]
    assert store.attachments(T0 + 2 * HOUR, T0 + 3 * HOUR) == []
    assert store.attachments(T0 - 2, T0 - 1) == []
