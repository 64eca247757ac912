"""Migrations: every version ever released still opens.

`frozen/v<N>.sql` is a small database of version N as SQL, written when N was current and never edited. When the
schema gets a new version, freeze the old one first: `python -m tests.store.test_schema > tests/store/frozen/v<N>.sql`.
"""

from dataclasses import fields
from pathlib import Path

import pytest

from anomaly.records import Finding
from anomaly.store import IncidentMark, NodeScore, TickRecord, open_store
from anomaly.store.connect import Session, open_session
from anomaly.store.schema import MIGRATIONS, NEWEST, migrate, version
from tests.store.parts import T0, chunk, dropped, entry, finding, incident, series_of, stored

FROZEN = sorted((Path(__file__).parent / "frozen").glob("v*.sql"), key=lambda path: int(path.stem[1:]))


def shape(session: Session) -> list[tuple[str, ...]]:
    """Every table and view with its columns and types."""
    return session.rows(
        """SELECT table_name, column_name, data_type FROM information_schema.columns
           ORDER BY table_name, ordinal_position"""
    )


def dump() -> str:
    """A database of the newest version with a little of everything, as SQL."""
    with open_store(Path("unused"), memory=True) as store:
        (a,) = series_of(store, "gpu_temp", 1)
        store.commit_chunk(chunk(T0, T0, {"gpu_temp": [(a, T0, 61.5)]}))
        store.commit_tick(
            TickRecord(
                T0,
                "state",
                findings=[finding()],
                dropped=[dropped("settle")],
                incidents=[incident()],
                node_scores=[NodeScore("gpu-17", "thermal", 1.5, "peers")],
                outbox=[entry()],
                marks=[IncidentMark("a1", "label", "real", "fan replaced", "ops", T0)],
            )
        )
        session = store._session
        lines = [sql for (sql,) in session.rows("SELECT sql FROM duckdb_tables() ORDER BY table_name")]
        lines += [sql for (sql,) in session.rows("SELECT sql FROM duckdb_views() WHERE NOT internal")]
        for (table,) in session.rows("SELECT table_name FROM duckdb_tables() ORDER BY table_name"):
            for row in session.rows(f"FROM {table} ORDER BY ALL"):
                values = ", ".join(
                    "NULL" if v is None else repr(v) if not isinstance(v, str) else _quoted(v) for v in row
                )
                lines.append(f"INSERT INTO {table} VALUES ({values});")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_versions_rise_by_one() -> None:
    assert [number for number, _ in MIGRATIONS] == list(range(1, NEWEST + 1))


def test_every_version_up_to_the_newest_is_frozen() -> None:
    assert [path.stem for path in FROZEN] == [f"v{number}" for number in range(1, NEWEST + 1)]


def test_an_empty_file_gets_every_step_once(tmp_path: Path) -> None:
    session = open_session(tmp_path / "a.duckdb")
    assert version(session) == 0
    assert migrate(session) == len(MIGRATIONS)
    assert version(session) == NEWEST
    assert migrate(session) == 0
    session.close()


def test_a_step_that_fails_leaves_the_version_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [*MIGRATIONS, (NEWEST + 1, ("CREATE TABLE half (a INTEGER)", "SELECT nonsense"))]
    monkeypatch.setattr("anomaly.store.schema.MIGRATIONS", broken)
    session = open_session(tmp_path / "a.duckdb")
    with pytest.raises(Exception, match="nonsense"):
        migrate(session, NEWEST + 1)
    assert version(session) == NEWEST
    assert "half" not in {row[0] for row in shape(session)}
    session.close()


@pytest.mark.parametrize("frozen", FROZEN, ids=lambda path: path.stem)
def test_a_frozen_database_opens_with_the_newest_shape_and_all_it_held(tmp_path: Path, frozen: Path) -> None:
    path = tmp_path / "a.duckdb"
    session = open_session(path)
    session.run(frozen.read_text())
    assert version(session) == int(frozen.stem[1:])
    session.close()
    with open_store(path) as store:
        fresh = open_session(path, memory=True)
        migrate(fresh)
        assert shape(store._session) == shape(fresh)
        fresh.close()
        assert stored(store, "gpu_temp") == [(1, T0, 61.5)]
        assert series_of(store, "gpu_temp", 1) == [1]
        assert store.incidents() == [incident()]
        assert store.findings(0, T0) == [finding()]
        assert [one.key for one in store.pending("am", T0)] == ["k"]
        assert (store.load_state(), store.scored_through()) == ("state", T0)


def test_the_findings_table_has_a_column_for_every_field() -> None:
    session = open_session(Path("unused"), memory=True)
    migrate(session)
    columns = {name for table, name, _ in shape(session) if table == "findings"}
    assert columns == {field.name for field in fields(Finding)} - {"entity"} | {"kind", "name"}
    session.close()


if __name__ == "__main__":
    print(dump(), end="")  # noqa: T201
