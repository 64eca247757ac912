"""One connection to one DuckDB file, and the seam where DuckDB's errors become ours.

Everything in this room is a plain function over a `Session`. No other room imports duckdb.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from anomaly.errors import StoreError, StoreLocked

Hooks = Callable[[str], None]
"""Called with `before_commit:<what>` and `after_commit:<what>`: the named points at which tests end the process."""

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]

# Nothing is fetched at run time; unordered results read four times faster (19 M rows: 0.2 s against 0.8 s), and
# whatever needs an order says so; a misspelt table must not become a Python variable of that name.
_SETTINGS: dict[str, str] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "false",
    "python_enable_replacements": "false",
}


def ignore(_point: str) -> None:
    """The hooks of production: nothing happens."""


class Session:
    """A connection that several threads may use in turn, with joined transactions and translated errors."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path, hooks: Hooks = ignore) -> None:
        self.path = path
        self._connection = connection
        self._hooks = hooks
        self._lock = threading.RLock()
        self._depth = 0
        self._broken = False
        self._whats: list[str] = []
        self._on_rollback: list[Callable[[], None]] = []

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def on_rollback(self, forget: Callable[[], None]) -> None:
        """`forget` is called after every rollback: caches of what was written must not outlive it."""
        self._on_rollback.append(forget)

    @contextmanager
    def transaction(self, what: str = "") -> Iterator[None]:
        """All or nothing. A transaction inside another joins the outer one; other threads wait.

        `what` names the crash points around the outermost commit.
        """
        with self._lock:
            if what:
                self._whats.append(what)
            if self._depth:
                self._depth += 1
                try:
                    yield
                except BaseException:
                    self._broken = True
                    raise
                finally:
                    self._depth -= 1
                return
            self._whats = [what] if what else []
            self.run("BEGIN TRANSACTION")
            self._depth, self._broken = 1, False
            try:
                yield
                if self._broken:
                    raise StoreError("part of a transaction failed and its error was set aside", "nothing was written")
                self._call_hooks("before_commit")
                self.run("COMMIT")
            except BaseException:
                self._rollback()
                raise
            finally:
                self._depth = 0
            self._call_hooks("after_commit")

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Execute; how many rows it inserted, changed or deleted."""
        with self._lock, translated(self.path):
            self._connection.execute(sql, list(params))
            if not sql.lstrip()[:6].upper().startswith(("INSERT", "DELETE", "UPDATE")):
                return 0
            row = self._connection.fetchone()
            return int(row[0]) if row else 0

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """A small result as Python tuples."""
        with self._lock, translated(self.path):
            return self._connection.execute(sql, list(params)).fetchall()

    def value(self, sql: str, params: Sequence[Any] = ()) -> Any:
        """The first column of the first row, or None."""
        found = self.rows(sql, params)
        return found[0][0] if found else None

    def columns(self, sql: str, params: Sequence[Any] = ()) -> dict[str, NDArray[Any]]:
        """A large result as NumPy columns: no Python object per row. Numeric columns without nulls only."""
        with self._lock, translated(self.path):
            table = self._connection.sql(sql, params=list(params)).to_arrow_table()
            return {name: table.column(name).to_numpy() for name in table.column_names}

    def batches(self, sql: str, params: Sequence[Any] = ()) -> Iterator[list[NDArray[Any]]]:
        """A large result in batches that fit the processor's cache, each a list of columns."""
        with self._lock, translated(self.path):
            for batch in self._connection.sql(sql, params=list(params)).to_arrow_reader(122_880):
                yield [column.to_numpy() for column in batch.columns]

    @contextmanager
    def aside(self) -> Iterator["Session"]:
        """A second connection that reads what is committed while others go on; long reads keep nobody waiting."""
        with self._lock, translated(self.path):
            session = Session(self._connection.cursor(), self.path)
        try:
            yield session
        finally:
            session.close()

    @contextmanager
    def given(self, name: str, columns: Columns) -> Iterator[None]:
        """`columns` can be queried as table `name` meanwhile. NumPy arrays are read in place; lists may hold None."""
        held: Any = dict(columns)
        if not all(isinstance(column, np.ndarray) and column.dtype != object for column in columns.values()):
            import pyarrow as pa

            held = pa.table({key: pa.array(column) for key, column in columns.items()})
        with self._lock:
            with translated(self.path):
                self._connection.register(name, held)
            try:
                yield
            finally:
                with suppress(duckdb.Error):  # after a rollback the name may be gone already
                    self._connection.unregister(name)

    def insert(self, table: str, columns: Columns) -> int:
        """Append columns to `table` (a name from the schema, never from outside), matched by name."""
        if not len(next(iter(columns.values()))):
            return 0
        with self.given("rows_to_insert", columns):
            return self.run(f"INSERT INTO {table} BY NAME SELECT * FROM rows_to_insert")  # noqa: S608

    def _rollback(self) -> None:
        with suppress(duckdb.Error):  # a failing COMMIT has rolled back already; its error is the one to report
            self._connection.execute("ROLLBACK")
        for forget in self._on_rollback:
            forget()

    def _call_hooks(self, when: str) -> None:
        for what in self._whats:
            self._hooks(f"{when}:{what}")


def open_session(path: Path, *, memory: bool = False, hooks: Hooks = ignore) -> Session:
    """Open (or create, directory 0700 and file 0600) the database at `path`, or one in memory.

    Raises StoreLocked when another process has it open, StoreError when it cannot be used.
    """
    if memory:
        return Session(duckdb.connect(":memory:", config=dict(_SETTINGS)), path, hooks)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A process killed while it created the file leaves it empty: nothing is in it that could be lost.
        if path.is_file() and path.stat().st_size == 0:
            path.unlink()
        new = not path.exists()
        clean = not new and not path.with_name(path.name + ".wal").exists()
        with translated(path):
            connection = duckdb.connect(str(path), config=dict(_SETTINGS))
        if new:
            path.chmod(0o600)
        session = Session(connection, path, hooks)
        if clean:
            _check_size(session)
    except OSError as error:
        raise StoreError(
            f"the database {path} cannot be created or opened: {error.strerror or error}",
            _MAY_NOT,
        ) from error
    return session


def _check_size(session: Session) -> None:
    """DuckDB opens a truncated file as long as the table of contents is whole, and fails on the first read of data."""
    ((block_size, used),) = session.rows("SELECT block_size, used_blocks FROM pragma_database_size()")
    have, least = session.path.stat().st_size, int(block_size) * int(used)
    if have < least:
        session.close()
        raise damaged(session.path, f"it has {have} bytes and should have more than {least}")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """DuckDB's errors inside become StoreLocked or StoreError, with the file and what to do next."""
    try:
        yield
    except duckdb.Error as error:
        raise explain(error, path) from error


_DAMAGED = (
    "not a valid duckdb",
    "extension",
    "could not read enough bytes",
    "corrupt",
    "checksum",
    "replaying wal",
    "invalidated",
)


_MAY_NOT = "give store.path a directory that this user may write"


def explain(error: Exception, path: Path) -> StoreError:
    """What DuckDB's `error` means for the user of `path`."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    low = text.lower()
    if "conflicting lock" in low or "set lock on file" in low:
        pid = re.search(r"PID (\d+)", text)
        program = re.search(r"held in (\S+)", text)
        who = f"process {pid.group(1)}" if pid else "another process"
        if program and pid:
            who += f" ({Path(program.group(1)).name})"
        return StoreLocked(
            f"the database {path} is in use by {who}",
            "stop that process first, or read what it publishes beside the file, which needs no lock",
        )
    if "version number" in low:
        return StoreError(f"the database {path} was written by another DuckDB version: {text}", "update DuckDB")
    unopened = re.match(r'IO Error: (?:Cannot open|Could not read from) file "([^"]+)": (.*)', text)
    if unopened:
        file = path if Path(unopened[1]) == path.absolute() else unopened[1]
        return StoreError(f"{file} cannot be opened: {unopened[2]}", _MAY_NOT)
    if any(sign in low for sign in _DAMAGED):
        return damaged(path, text)
    if "no space left" in low or "out of memory" in low or "could not write" in low:
        return StoreError(f"the database {path} cannot be written: {text}", "free disk space or memory and start again")
    return StoreError(f"the database {path} refused: {text}", "if this stays so, run `anomaly doctor` and report it")


def damaged(path: Path, detail: str) -> StoreError:
    """The file is not ours, or no longer whole."""
    return StoreError(
        f"{path} is not an anomaly database, or it is damaged ({detail})",
        "move it aside and start again: samples are pulled from Prometheus again",
    )
