"""The inbox: others write to the service's database without opening it."""

from pathlib import Path

import pytest

from anomaly.errors import StoreError
from anomaly.store import Store, TickRecord, drop, remove, take
from tests.store.parts import T0


def test_items_are_taken_in_the_order_they_were_dropped(tmp_path: Path) -> None:
    for now, number in [(T0, 1), (T0, 2), (T0 + 1, 3), (T0, 4)]:
        drop(tmp_path, "mark", {"n": number}, now)
    assert [item.payload["n"] for item in take(tmp_path)] == [1, 2, 4, 3]
    assert take(tmp_path / "nowhere") == []


def test_an_item_is_done_once_its_tick_is_committed(store: Store, tmp_path: Path) -> None:
    drop(tmp_path / "in", "close", {"id": "a1"}, T0)
    items = take(tmp_path / "in")
    assert store.undone(items) == items
    store.commit_tick(TickRecord(T0, "", consumed=[item.name for item in items]))
    assert store.undone(take(tmp_path / "in")) == []
    remove(tmp_path / "in", items)
    assert take(tmp_path / "in") == []


@pytest.mark.parametrize("text", ["{half", "[]", '{"kind": 1, "payload": {}}', '{"kind": "mark"}'])
def test_what_cannot_be_read_is_set_aside_and_stops_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "0.json").write_text(text)
    drop(tmp_path, "mark", {}, T0)
    assert [item.kind for item in take(tmp_path)] == ["mark"]
    assert (tmp_path / "0.json.bad").read_text() == text


def test_an_inbox_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="nothing can be left in"):
        drop(tmp_path / "file" / "inbox", "mark", {}, T0)
