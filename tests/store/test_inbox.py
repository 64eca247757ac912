"""The inbox: others write to the service's database without opening it."""

import os
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


def test_a_file_that_may_not_be_read_is_set_aside_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's file must not stop every tick; one that is gone meanwhile is nobody's business."""
    drop(tmp_path, "mark", {"n": 1}, T0)
    drop(tmp_path, "mark", {"n": 2}, T0)
    drop(tmp_path, "mark", {"n": 3}, T0)
    first, second, _ = sorted(path.name for path in tmp_path.iterdir())
    really = Path.read_text

    def read_text(path: Path, encoding: str | None = None) -> str:
        if path.name == first:
            raise PermissionError(13, "Permission denied")
        if path.name == second:
            path.unlink()
        return really(path, encoding=encoding)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert [item.payload["n"] for item in take(tmp_path)] == [3]
    assert (tmp_path / f"{first}.bad").is_file()


def test_what_cannot_be_moved_either_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text("{half")
    (tmp_path / "0.json.bad").mkdir()
    with pytest.raises(StoreError, match="neither read nor moved"):
        take(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_leaves_belongs_to_whoever_owns_the_state(tmp_path: Path) -> None:
    os.chown(tmp_path, 4711, 4712)
    path = drop(tmp_path / "inbox", "mark", {}, T0)
    assert [(each.stat().st_uid, each.stat().st_gid) for each in (path, path.parent)] == [(4711, 4712)] * 2
