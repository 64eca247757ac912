"""A restart changes nothing, and many ticks at once give what they give one by one."""

from pathlib import Path

import numpy as np
import pytest

from anomaly.clock import MINUTE
from anomaly.detect.habit import Habit
from anomaly.jobs.carry import Carried, Live, closed_buckets, decode, encode, fill, refresh
from anomaly.jobs.parts import Parts, open_pipeline_store
from anomaly.pipeline import Batch, Context, State, advance, ticks_between
from anomaly.signals.identity import Aliases
from anomaly.store.store import Store
from tests.jobs.parts import T0, at, collect_to, conclusions, differences, score_to, small_cluster

END = 60


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """The whole hour in a store, nothing scored. Copies of its file are scored in different ways."""
    parts = small_cluster(tmp_path_factory.mktemp("collected"), END)
    with open_pipeline_store(parts.pipeline) as store:
        collect_to(parts, store, at(END))
    return parts


def copy_of(collected: Parts, folder: Path) -> Parts:
    parts = small_cluster(folder, END)
    folder.mkdir(parents=True, exist_ok=True)
    parts.pipeline.store.path.write_bytes(collected.pipeline.store.path.read_bytes())
    return parts


def scored(parts: Parts, every: int, *, restarts: bool) -> dict[str, object]:
    """Everything concluded when score runs every so many minutes, each time in a new process or in one."""
    with open_pipeline_store(parts.pipeline) as store:
        live = Live()
        for minute in range(every, END + 1, every):
            live = Live() if restarts else live
            score_to(parts, store, at(minute), live)
        return conclusions(parts, store)


@pytest.mark.slow
def test_how_often_it_runs_and_restarts_makes_no_difference(collected: Parts, tmp_path: Path) -> None:
    """As in vmanomaly changelog."""
    in_one_go = scored(copy_of(collected, tmp_path / "once"), END, restarts=False)
    assert in_one_go["incidents"], "nothing happened, so nothing is compared"
    for every, restarts in ((10, True), (7, True)):
        parts = copy_of(collected, tmp_path / f"every-{every}")
        found = scored(parts, every, restarts=restarts)
        if END % every:
            with open_pipeline_store(parts.pipeline) as store:
                score_to(parts, store, at(END))
                found = conclusions(parts, store)
        assert differences(in_one_go, found) == [], f"scored every {every} min, restarts: {restarts}"


@pytest.mark.slow
def test_collecting_as_time_goes_by_is_collecting_at_once(collected: Parts, tmp_path: Path) -> None:
    """As the service lives: five minutes are pulled, then scored, then the process ends."""
    whole = scored(copy_of(collected, tmp_path / "once"), END, restarts=False)
    parts = small_cluster(tmp_path / "live", END)
    with open_pipeline_store(parts.pipeline) as store:
        for minute in range(5, END + 1, 5):
            collect_to(parts, store, at(minute))
            score_to(parts, store, at(minute))
        found = conclusions(parts, store)
    assert differences(whole, found) == []


def test_blocks_of_ticks_are_single_ticks(collected: Parts) -> None:
    """The very same Tick records, state and habits, whether 40 ticks are one call or 40. As in keephq/keep#5251."""
    with open_pipeline_store(collected.pipeline) as store:
        live = Live()
        spec = refresh(collected, store, live, Aliases())
        due = ticks_between(T0, at(40), MINUTE)

        def batch(start: int, end: int) -> Batch:
            return Batch(start, end, store.read_many(list(spec.catalogue.signals), start + 1, end), live.directory)

        at_once, context, state = advance(spec, batch(T0, at(40)), Context(), State(), due)
        one_by_one, single, last = [], Context(), State()
        for tick in due:
            ticks, single, last = advance(spec, batch(tick - MINUTE, tick), single, last, [tick])
            one_by_one += ticks
    for whole, alone in zip(at_once, one_by_one, strict=True):
        assert whole == alone
    assert any(tick.denoised.changed for tick in at_once)
    assert state == last
    assert context.habits.keys() == single.habits.keys()
    for name, habit in context.habits.items():
        assert learnt(habit) == learnt(single.habits[name]), name


def learnt(habit: Habit) -> dict[tuple[str, int], float]:
    """Every value a habit holds; a bucket without any is nothing, whether or not its end is listed."""
    rows, columns = np.nonzero(~np.isnan(habit.values))
    return {
        (habit.keys[i], int(habit.ends[j])): float(habit.values[i, j])
        for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
    }


def test_state_survives_its_json_exactly(collected: Parts) -> None:
    with open_pipeline_store(collected.pipeline) as store:
        live = Live()
        spec = refresh(collected, store, live, Aliases())
        samples = store.read_many(list(spec.catalogue.signals), T0 + 1, at(35))
        _, _, state = advance(
            spec, Batch(T0, at(35), samples, live.directory), Context(), State(), ticks_between(T0, at(35), MINUTE)
        )
    carried = Carried(state, ("a", "b"))
    assert state.memory.open
    assert decode(encode(carried)) == carried
    assert decode(None) == Carried(State())


def test_a_refilled_context_is_the_one_that_lived(collected: Parts, tmp_path: Path) -> None:
    """Rings bit for bit; habits come from the store, where only closed buckets are."""
    parts = copy_of(collected, tmp_path)
    with open_pipeline_store(parts.pipeline) as store:
        lived = Live()
        score_to(parts, store, at(20), lived)
        score_to(parts, store, at(45), lived)
        again = Live()
        spec = refresh(parts, store, again, Aliases())
        found = fill(store, spec, again, parts.pace, at(45))
    assert lived.context is not None
    assert found.rings.keys() == lived.context.rings.keys()
    for name, ring in lived.context.rings.items():
        assert ring.series.tolist() == found.rings[name].series.tolist(), name
        assert ring.times.tolist() == found.rings[name].times.tolist(), name
        assert ring.raw.tobytes() == found.rings[name].raw.tobytes(), name
    ends = [end for end, _ in closed_buckets(lived.context, 0)]
    assert ends == [at(minute) for minute in range(5, 46, 5)]
    stored = [end for end, _ in closed_buckets(found, 0)]
    assert stored == [end for end in ends if end in stored]
    assert len(stored) >= 8


def test_series_that_come_and_go_are_seen_by_the_next_run(collected: Parts, tmp_path: Path) -> None:
    """As many go as come: the directory must not go by how many there are."""
    parts = copy_of(collected, tmp_path)
    with open_pipeline_store(parts.pipeline) as store:
        live = Live()
        refresh(parts, store, live, Aliases())
        before = live.directory.signals["up"].series.tolist()
        replace_one_series(store)
        refresh(parts, store, live, Aliases())
        known = [row.series_id for row in store.series("up")]
    assert len(known) == len(before)
    assert live.directory.signals["up"].series.tolist() == known != before


def replace_one_series(store: Store) -> None:
    gone = store.series("up")[0]
    store._session.run("DELETE FROM series WHERE series_id = ?", [gone.series_id])
    store._series.forget()
    store.register([("up", gone.entity, "", "", {**gone.labels, "instance": "elsewhere:9100"})])
