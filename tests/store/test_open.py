"""Opening the database: what can be wrong with the file, and what the user is told."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from anomaly.errors import StoreError, StoreLocked
from anomaly.store import open_store
from anomaly.store.connect import open_session
from tests.store.parts import T0, chunk, series_of, stored

HOLDER = """
import sys
from pathlib import Path
from anomaly.store import open_store
with open_store(Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_new_file_belongs_to_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "anomaly.duckdb"
    open_store(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_was_stored_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "anomaly.duckdb"
    with open_store(path) as store:
        ids = series_of(store, "gpu_temp", 1)
        store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(ids[0], T0, 60.0)]}))
    with open_store(path) as store:
        assert series_of(store, "gpu_temp", 1) == ids
        assert stored(store, "gpu_temp") == [(ids[0], T0, 60.0)]


def test_in_memory_leaves_no_file(tmp_path: Path) -> None:
    with open_store(tmp_path / "anomaly.duckdb", memory=True) as store:
        assert series_of(store, "gpu_temp", 1) == [1]
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_use_names_the_process_that_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "anomaly.duckdb"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreLocked, match=f"process {holder.pid}.*stop that process") as caught:
            open_store(path)
    assert caught.value.retryable
    open_store(path).close()


def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "anomaly.duckdb"
    path.write_bytes(b"this is a diary, not a database\n" * 500)
    with pytest.raises(StoreError, match=r"not an anomaly database.*move it aside and start again"):
        open_store(path)
    assert path.read_bytes().startswith(b"this is a diary")


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "anomaly.duckdb"
    with open_store(path) as store:
        ids = series_of(store, "gpu_temp", 400)
        store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(i, T0, 60.0) for i in ids]}))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(StoreError, match=r"damaged.*pulled from Prometheus again"):
        open_store(path)


def test_an_empty_file_is_what_a_killed_first_start_leaves_and_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "anomaly.duckdb"
    path.touch()
    open_store(path).close()


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "anomaly.duckdb"
    session = open_session(path)
    session.run("CREATE TABLE diary (day DATE)")
    session.close()
    with pytest.raises(StoreError, match=r"not an anomaly database.*diary"):
        open_store(path)


def test_a_newer_schema_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "anomaly.duckdb"
    open_store(path).close()
    session = open_session(path)
    session.run("INSERT INTO schema_version VALUES (99)")
    session.close()
    with pytest.raises(StoreError, match=r"schema version 99.*newer program"):
        open_store(path)


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be created or opened.*store\.path"):
        open_store(tmp_path / "file" / "anomaly.duckdb")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError):
        open_store(tmp_path / "anomaly.duckdb")


def test_a_transaction_is_all_or_nothing_and_inner_ones_join_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "anomaly.duckdb") as store:
        with pytest.raises(KeyError), store.transaction():
            ids = series_of(store, "gpu_temp", 2)
            store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(ids[0], T0, 1.0)]}))
            raise KeyError("anything")
        assert stored(store, "gpu_temp") == []
        assert store.series() == []
        assert store.watermarks() == {}
        assert series_of(store, "gpu_temp", 2) == ids


def test_a_failure_inside_cannot_be_set_aside(tmp_path: Path) -> None:
    with open_store(tmp_path / "anomaly.duckdb") as store:
        with pytest.raises(StoreError, match="nothing was written"), store.transaction():
            store.set_watermark("gpu_temp", T0)
            try:
                with store.transaction():
                    store.set_watermark("sm_clock", T0)
                    raise ValueError
            except ValueError:
                pass
        assert store.watermarks() == {}


def test_threads_take_turns(tmp_path: Path) -> None:
    with open_store(tmp_path / "anomaly.duckdb") as store:
        errors: list[BaseException] = []

        def work(name: str) -> None:
            try:
                for turn in range(20):
                    with store.transaction():
                        before = store.watermark(name) or 0
                        assert before == turn
                        store.set_watermark(name, before + 1)
            except BaseException as error:  # noqa: BLE001 — reported below
                errors.append(error)

        threads = [threading.Thread(target=work, args=(f"s{n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert store.watermarks() == {"s0": 20, "s1": 20, "s2": 20}
