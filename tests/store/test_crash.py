"""A process that dies at a named point leaves a whole database: everything of a transaction or nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anomaly.store import CollectedChunk, SignalChunk, Store, TickRecord, drop, open_store, remove, take
from tests.store.parts import STEP, T0, chunk, entry, finding, incident, series_of, stored


def work(path: Path, die_at: str) -> None:
    """Collect, score, deliver and publish two rounds; killed at the second visit of `die_at`."""
    visits = 0

    def hook(point: str) -> None:
        nonlocal visits
        visits += point == die_at
        if visits == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    with open_store(path, hooks=hook) as store:
        rounds(store, path.parent)


def rounds(store: Store, state: Path) -> None:
    """What a service does; starting again after a crash goes on where the store says."""
    ids = series_of(store, "gpu_temp", 50)
    for k in range(2):
        at = T0 + k * STEP
        store.commit_chunk(chunk(at, at, {"gpu_temp": [(i, at, float(k)) for i in ids]}))
        if (store.scored_through() or 0) < at:
            items = store.undone(take(state / "inbox"))
            store.commit_tick(
                TickRecord(
                    at,
                    f"state {k}",
                    findings=[finding(last=at)],
                    incidents=[incident(signals=tuple(f"s{n}" for n in range(k + 1)), updated_at=at)],
                    outbox=[entry(key=f"k{k}")],
                    consumed=[item.name for item in items],
                )
            )
        remove(state / "inbox", take(state / "inbox"))
        store.mark_sent([one.seq for one in store.pending("am", at)], at)
        store.publish(state / "published")


def outcome(store: Store) -> list[object]:
    """Everything that must be the same however often the work was interrupted."""
    return [
        stored(store, "gpu_temp"),
        store.watermarks(),
        store.load_state(),
        store.findings(0, 2**62),
        store.incidents(),
        store.incident_events(),
        [(one.seq, one.key, one.attempts) for one in store.live("am", T0, 0)],
        store.backlog(),
        store._session.rows("SELECT item FROM inbox_done"),
    ]


@pytest.mark.parametrize("when", ["before_commit", "after_commit"])
@pytest.mark.parametrize("what", ["collect", "tick", "outbox", "publish"])
def test_killed_and_started_again_is_as_if_never_killed(tmp_path: Path, when: str, what: str) -> None:
    item = drop(tmp_path / "killed" / "inbox", "mark", {"id": "a1", "verdict": "real"}, T0)
    (tmp_path / "whole" / "inbox").mkdir(parents=True)
    (tmp_path / "whole" / "inbox" / item.name).write_bytes(item.read_bytes())
    with open_store(tmp_path / "whole" / "a.duckdb") as whole:
        rounds(whole, tmp_path / "whole")
        expected = outcome(whole)
    path = tmp_path / "killed" / "a.duckdb"
    code = (
        f"from pathlib import Path\nfrom tests.store.test_crash import work\nwork(Path({str(path)!r}), '{when}:{what}')"
    )
    killed = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False)
    assert killed.returncode == -signal.SIGKILL
    with open_store(path) as store:
        held = stored(store, "gpu_temp")
        assert {ts for _, ts, _ in held} <= {T0, T0 + STEP}
        assert len(held) == 50 * (1 + ((store.watermark("gpu_temp") or 0) > T0))
        rounds(store, path.parent)
        assert outcome(store) == expected
    assert list((tmp_path / "killed" / "inbox").iterdir()) == []
    names = [
        sorted(str(p.relative_to(root)) for p in (root / "published").rglob("*.parquet"))
        for root in (tmp_path / "whole", tmp_path / "killed")
    ]
    assert names[0] == names[1]


def test_a_failing_commit_writes_nothing(tmp_path: Path) -> None:
    def full(point: str) -> None:
        if point == "before_commit:collect":
            raise OSError("no space left on device")

    with open_store(tmp_path / "a.duckdb", hooks=full) as store:
        ids = series_of(store, "gpu_temp", 1)
        with pytest.raises(OSError, match="no space"):
            store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(ids[0], T0, 1.0)]}))
        assert (stored(store, "gpu_temp"), store.watermarks()) == ([], {})
        assert isinstance(store.series()[0].series_id, int)


def test_hooks_are_called_around_the_outermost_commit_only(tmp_path: Path) -> None:
    seen: list[str] = []
    with open_store(tmp_path / "a.duckdb", hooks=seen.append) as store:
        seen.clear()
        with store.transaction():
            store.commit_chunk(CollectedChunk(T0, T0, (SignalChunk("s", T0, T0, store.read("s", 0, 0)),)))
            assert seen == []
            store.commit_tick(TickRecord(T0, ""))
    assert seen == ["before_commit:collect", "before_commit:tick", "after_commit:collect", "after_commit:tick"]
