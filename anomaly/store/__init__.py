"""The store: samples, conclusions and what is to be sent, in one DuckDB file; published as Parquet beside it."""

from anomaly.store.files import sweep
from anomaly.store.inbox import InboxItem, drop, remove, take
from anomaly.store.incident_marks import IncidentMark
from anomaly.store.results import CoverageRow, NodeScore, TickRecord
from anomaly.store.retention import Keep, prune_published
from anomaly.store.samples import CollectedChunk, Committed, SignalChunk
from anomaly.store.store import Store, open_store

__all__ = [
    "CollectedChunk",
    "Committed",
    "CoverageRow",
    "InboxItem",
    "IncidentMark",
    "Keep",
    "NodeScore",
    "SignalChunk",
    "Store",
    "TickRecord",
    "drop",
    "open_store",
    "prune_published",
    "remove",
    "sweep",
    "take",
]
