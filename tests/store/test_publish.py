"""Published data: whole files, nothing missing, nobody blocked; roll-ups and what is kept."""

import math
import threading
from pathlib import Path

import polars as pl
import pytest

from anomaly.clock import DAY, HOUR, MINUTE
from anomaly.errors import StoreError
from anomaly.store import Keep, NodeScore, Store, TickRecord, open_store, prune_published
from anomaly.store.files import sweep
from anomaly.store.published import manifest, read_archive, read_incidents, read_table
from tests.store.parts import STEP, T0, chunk, finding, incident, series_of

TABLES = {"series", "incidents"}


def tick(at: int, **fields: object) -> TickRecord:
    return TickRecord(at, "", **fields)  # type: ignore[arg-type]


def test_readers_see_what_was_committed_without_the_database(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "published"
    series_of(store, "gpu_temp", 2)
    store.commit_tick(
        tick(T0, findings=[finding()], incidents=[incident()], node_scores=[NodeScore("a", "b", 1.0, "c")])
    )
    store.record_job("score", T0, T0 + 5, "ok")
    store.publish(out)
    assert read_incidents(out) == [incident()]
    assert manifest(out) == {"format": 1, "collected_through": None, "scored_through": T0}
    for table in ("series", "findings", "incident_events", "node_scores", "ticks", "job_runs"):
        assert read_table(out, table).num_rows == (2 if table == "series" else 1), table
    assert read_table(out, "coverage") is None
    assert read_table(out, "ticks", T0 + 2 * DAY) is None
    assert pl.read_parquet(out / "incidents.parquet")["cause"].to_list() == ["thermal"]


def test_only_what_changed_is_written_again(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "published"
    store.commit_tick(tick(T0, findings=[finding()], incidents=[incident()]))
    assert len(store.publish(out)) == 6
    assert store.publish(out) == []
    store.commit_tick(tick(T0 + MINUTE, incidents=[incident()]))
    assert [path.name for path in store.publish(out)] == ["ticks.parquet"]
    store.commit_tick(tick(T0 + 2 * MINUTE, findings=[finding(last=T0 + 2 * MINUTE)]))
    assert [path.name for path in store.publish(out)] == ["ticks.parquet", "findings.parquet"]


def test_what_was_not_published_before_a_restart_is_published_after_it(tmp_path: Path) -> None:
    out = tmp_path / "published"
    with open_store(tmp_path / "a.duckdb") as store:
        store.publish(out)
        store.commit_tick(tick(T0, incidents=[incident()]))
    with open_store(tmp_path / "a.duckdb") as store:
        store.publish(out)
        assert read_incidents(out) == [incident()]


def test_an_emptied_directory_is_filled_again(store: Store, tmp_path: Path) -> None:
    store.commit_tick(tick(T0, findings=[finding()], incidents=[incident()]))
    store.publish(tmp_path / "one")
    store.publish(tmp_path / "two")
    assert read_incidents(tmp_path / "two") == [incident()]
    assert read_table(tmp_path / "two", "findings").num_rows == 1


def test_a_reader_meanwhile_always_sees_a_whole_table(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "published"
    store.commit_tick(tick(T0, incidents=[incident("0")]))
    store.publish(out)
    done = threading.Event()
    seen: list[int] = []
    errors: list[BaseException] = []

    def reading() -> None:
        try:
            while not done.is_set():
                seen.append(len(read_incidents(out)))
        except BaseException as error:  # noqa: BLE001 — reported below
            errors.append(error)

    reader = threading.Thread(target=reading)
    reader.start()
    for k in range(1, 15):
        store.commit_tick(tick(T0 + k, incidents=[incident(str(n)) for n in range(k + 1)]))
        store.publish(out)
    done.set()
    reader.join()
    assert not errors
    assert seen == sorted(seen)
    assert len(seen) > 2


def test_what_a_killed_writer_left_is_swept_and_never_read(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "published"
    store.commit_tick(tick(T0, incidents=[incident()]))
    store.publish(out)
    (out / ".incidents.parquet.0.aside").write_text("half")
    assert read_incidents(out) == [incident()]
    assert sweep(out) == 1


def test_reading_where_nothing_is_published_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nothing is published.*--state"):
        manifest(tmp_path)


def test_a_place_that_cannot_be_written_says_so(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="nothing can be published"):
        store.publish(tmp_path / "file" / "published")


def fill(store: Store, hours: int) -> list[int]:
    """Two signals of three GPUs, one sample a minute, all scored."""
    ids = [*series_of(store, "gpu_temp", 3), *series_of(store, "sm_clock", 3)]
    for hour in range(hours):
        times = [T0 + hour * HOUR + k * MINUTE for k in range(60)]
        points = {
            signal: [(i, at, float(hour * 100 + k)) for k, at in enumerate(times) for i in mine]
            for signal, mine in (("gpu_temp", ids[:3]), ("sm_clock", ids[3:]))
        }
        store.commit_chunk(chunk(times[0], times[-1], points))
    store.commit_tick(tick(T0 + hours * HOUR - 1))
    return ids


def test_closed_hours_are_written_once_sorted_with_the_identity_of_their_series(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "published"
    ids = fill(store, 2)
    now = T0 + 2 * HOUR
    assert store.roll_up(now) == 12
    files = store.publish_closed_hours(out, now)
    assert [str(path.relative_to(out)) for path in files] == [
        "samples/hour=2027-01-15T08/samples.parquet",
        "samples/hour=2027-01-15T09/samples.parquet",
        "rollups/hour=2027-01-15T08/rollups.parquet",
        "rollups/hour=2027-01-15T09/rollups.parquet",
    ]
    assert store.publish_closed_hours(out, now) == []
    frame = pl.read_parquet(files[0], hive_partitioning=False)
    assert frame.columns == ["series_id", "signal", "kind", "node", "device", "part", "ts", "value"]
    assert frame.height == 360
    assert frame.equals(frame.sort("series_id", "ts"))
    assert frame.row(0) == (ids[0], "gpu_temp", "node", "gpu-00", "gpu0", "", T0, 0.0)
    part = read_archive(out, ["sm_clock"], T0 + 30 * MINUTE, T0 + HOUR)
    assert part.num_rows == 3 * 31
    assert set(part.column("signal").to_pylist()) == {"sm_clock"}
    assert read_archive(out, ["sm_clock"], T0 - 2 * HOUR, T0 - HOUR) is None


def test_an_hour_is_closed_when_it_is_past_and_scored_to_its_end(store: Store, tmp_path: Path) -> None:
    fill(store, 1)
    out = tmp_path / "published"
    assert store.roll_up(T0 + HOUR - 1) == 0
    assert store.publish_closed_hours(out, T0 + HOUR - 1) == []
    assert len(store.publish_closed_hours(out, T0 + HOUR)) == 1


def test_roll_ups_are_count_median_spread_and_range_of_finite_samples_once(store: Store) -> None:
    (a, _, _, *_) = series_of(store, "gpu_temp", 3)
    values = [1.0, 2.0, 3.0, 4.0, 100.0, math.inf]
    store.commit_chunk(chunk(T0, T0 + HOUR, {"gpu_temp": [(a, T0 + k * STEP, v) for k, v in enumerate(values)]}))
    store.commit_tick(tick(T0 + HOUR))
    assert (store.roll_up(T0 + DAY), store.roll_up(T0 + DAY)) == (1, 0)
    row = {name: column.tolist() for name, column in store.read_rollups(["gpu_temp"], T0, T0).items()}
    assert row == {
        "series_id": [a],
        "hour": [T0],
        "samples": [5],
        "median": [3.0],
        "spread": [1.4826],
        "lowest": [1.0],
        "highest": [100.0],
    }


def test_what_is_too_old_goes_by_whole_hours_and_open_incidents_stay(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "published"
    ids = fill(store, 3)
    store.commit_tick(tick(T0 + 3 * HOUR, incidents=[incident("open"), incident("old", resolved_at=T0 + 1)]))
    now = T0 + 3 * HOUR + 30 * MINUTE
    store.roll_up(now)
    store.publish_closed_hours(out, now)
    keep = Keep(samples=90 * MINUTE, archive=90 * MINUTE, rollups=DAY, findings=HOUR)
    deleted = store.prune(now, keep)
    assert (deleted["samples"], deleted["rollups"], deleted["incidents"], deleted["series"]) == (720, 0, 1, 0)
    assert [one.id for one in store.incidents()] == ["open"]
    assert [row.series_id for row in store.series()] == ids
    assert prune_published(out, now, keep) == 2
    assert [path.parent.name for path in sorted(out.glob("samples/*/*"))] == ["hour=2027-01-15T10"]
    assert len(list(out.glob("rollups/*/*"))) == 3
