"""Files that appear whole: written aside, flushed, renamed."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anomaly.clock import HOUR, Ms, to_datetime
from anomaly.errors import StoreError


def part_path(directory: Path, table: str, span: Ms, part: Ms) -> Path:
    """Where the file of `table` stands whose span of time begins at `part`."""
    if not span:
        return directory / f"{table}.parquet"
    text = to_datetime(part).isoformat()
    folder = f"hour={text[:13]}" if span == HOUR else f"day={text[:10]}"
    return directory / table / folder / f"{table}.parquet"


def aside_of(final: Path) -> Path:
    """Where to write what will be `final`: same directory, a name that no reader's pattern matches."""
    final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return final.parent / f".{final.name}.{uuid.uuid4().hex[:8]}.aside"


def flush(path: Path) -> None:
    """What is written is on the disk, not only in its cache: a rename must not overtake it."""
    with path.open("rb") as written:
        os.fsync(written.fileno())


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """The directory exists; the system's errors become a StoreError."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise StoreError(
            f"nothing can be published under {directory}: {error.strerror or error}",
            "give the state directory space and write permission",
        ) from error


def sweep(directory: Path) -> int:
    """Remove what killed writers left aside; only for the one process that publishes, before it begins."""
    left = list(directory.rglob(".*.aside"))
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)
