"""Published samples as a source: the past again, from the files that a service left, without Prometheus."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from anomaly.clock import HOUR, Ms, format_time, parse_time
from anomaly.errors import StoreError
from anomaly.jobs.parts import PUBLISHED
from anomaly.records import Labels, Pulled, Query
from anomaly.store.published import manifest, read_archive, read_table
from anomaly.store.published import parts as files


class StoredSource:
    """Answers each query with the samples that were published for its signal, under the labels they had.

    `path` is a state directory or the published one in it. Raises StoreError where nothing is published.
    """

    def __init__(self, path: Path) -> None:
        self.directory = path / PUBLISHED if (path / PUBLISHED).is_dir() else path
        manifest(self.directory)
        hours = [parse_time(f"{file.parent.name.partition('=')[2]}:00") for file in files(self.directory, "samples")]
        if not hours:
            raise StoreError(
                f"no samples are published under {self.directory} yet", "an hour is published once it has closed"
            )
        self.start: Ms = hours[0]
        """When the oldest published hour begins."""
        self.end: Ms = hours[-1] + HOUR
        """When the newest published hour ends."""
        self._labels: Mapping[int, Labels] = {}

    def pull(self, query: Query) -> Pulled:
        """What was stored in the range, on the grid of `query.step`; series without labels are left out, and said."""
        table = read_archive(self.directory, [query.signal], query.start, query.end)
        if table is None or not table.num_rows:
            return _nothing()
        self._labels = self._labels or self._read_labels()
        ids = table.column("series_id").to_numpy()
        ts, values = table.column("ts").to_numpy(), table.column("value").to_numpy()
        known = np.isin(ids, np.array(list(self._labels), ids.dtype))
        use = known & (ts % query.step == 0)
        order = np.lexsort((ts[use], ids[use]))
        ids, ts, values = ids[use][order], ts[use][order], values[use][order]
        if not len(ids):
            return _nothing()
        series, lengths = np.unique(ids, return_counts=True)
        lost = "" if known.all() else f"{int((~known).sum())} samples of series that are forgotten"
        labels = tuple(self._labels[number] for number in series.tolist())
        return Pulled(
            labels, lengths.astype(np.int64), ts.astype(np.int64), values.astype(float), (lost,) if lost else ()
        )

    def reaches(self, end: Ms) -> None:
        """Raises StoreError where `end` lies beyond what is published."""
        if end > self.end:
            raise StoreError(
                f"samples are published up to {format_time(self.end)} and not to {format_time(end)}",
                "give an earlier --to; an hour is published once it has closed",
            )

    def _read_labels(self) -> Mapping[int, Labels]:
        table = read_table(self.directory, "series")
        if table is None:
            return {}
        texts = table.column("labels").to_pylist()
        return dict(zip(table.column("series_id").to_pylist(), map(json.loads, texts), strict=True))


def _nothing() -> Pulled:
    return Pulled((), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
