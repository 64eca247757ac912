"""Published data of one state directory, as data frames."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from anomaly.analyst import frames
from anomaly.analyst.frames import Time, from_rows, instant, table_of
from anomaly.clock import Ms, to_datetime
from anomaly.errors import StoreError, UsageError
from anomaly.records import Incident, Phase
from anomaly.store.published import manifest, read_incidents, read_table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

F = TypeVar("F")
Names = str | Sequence[str]

PUBLISHED = "published"

_INCIDENT = (
    "id:text severity:text phase:text scope:text kind:text name:text cause:text onset:time fired_at:time "
    "resolved_at:time updated_at:time impact_ratio:number coverage:number nodes:texts victims:texts jobs:texts "
    "signals:texts summary:text advice:text absorbed_by:text"
)
_EVENT = "seq:int tick_at:time id:text severity:text phase:text name:text cause:text signals:texts summary:text"
_EVIDENCE = "signal:text device:text observed:number expected:number unit:text detector:text score:number onset:time"
_SIGNAL = "signal:text about:text unit:text kind:text series:int"
_PEER = "device:text value:number peer:text peer_device:text peer_value:number group:text"
_VALUE = "time:time kind:text name:text device:text value:number"


def _columns(text: str) -> dict[str, str]:
    return dict(entry.split(":") for entry in text.split())


def open_state(state: Path) -> "State[pd.DataFrame]":
    """The state under `state`, as pandas frames. Raises StoreError when nothing is published there."""
    directory = state / PUBLISHED
    try:
        manifest(directory)
    except StoreError as error:
        if directory.exists():
            raise
        where = state.resolve()
        raise StoreError(
            f"nothing is published under {where}",
            "run `anomaly demo` or the service (`anomaly run`) first, or open the directory that holds its database",
        ) from error
    return State(directory, frames.to_pandas)


@dataclass(frozen=True, slots=True)
class State(Generic[F]):
    """Published data, read anew at every call: it moves on while a service runs. Times are in UTC.

    A frame whose table has no rows yet is empty but has its columns. `state.polars` gives polars frames instead.
    Samples and roll-ups are published once their hour has closed, everything else after every tick.
    """

    directory: Path
    make: Callable[[Any], F]

    @property
    def polars(self) -> "State[pl.DataFrame]":
        """The same data as polars frames."""
        return State(self.directory, frames.to_polars)

    @property
    def scored_through(self) -> datetime | None:
        """Up to when everything has been judged; None when nothing has."""
        at = manifest(self.directory)["scored_through"]
        return None if at is None else to_datetime(at)

    # ── what was concluded ────────────────────────────────────────────────────────────────────────────

    def incidents(self, *, pending: bool = False) -> F:
        """Incidents by onset: who, why, since when, how bad, who else suffers. `pending` adds what never fired."""
        found = [each for each in read_incidents(self.directory) if pending or each.phase is not Phase.PENDING]
        return self.make(from_rows([_incident_row(each) for each in found], _columns(_INCIDENT)))

    def incident(self, incident: str) -> Incident:
        """The incident whose id begins with `incident`. Raises UsageError when there is none, or more than one."""
        known = read_incidents(self.directory)
        found = [each for each in known if each.id.startswith(incident)] if incident else []
        if len(found) == 1:
            return found[0]
        what = (
            f"no incident's id begins with {incident!r}" if not found else f"{incident!r} names {len(found)} incidents"
        )
        raise UsageError(what, f"give one of the {len(known)} ids in state.incidents()")

    def events(self, incident: str | None = None) -> F:
        """What was told about incidents, in order: firing, changes of severity, cause or signals, resolution."""
        table = read_table(self.directory, "incident_events")
        wanted = None if incident is None else self.incident(incident).id
        rows: list[Mapping[str, Any]] = [] if table is None else table.to_pylist()
        told = [_event_row(row) for row in rows if wanted in (None, row["incident_id"])]
        return self.make(from_rows(told, _columns(_EVENT)))

    def evidence(self, incident: str) -> F:
        """The observations behind an incident as it stands, worst first, each in its signal's unit."""
        items = self.incident(incident).evidence
        rows = [{name: getattr(item, name) for name in _columns(_EVIDENCE)} for item in items]
        return self.make(from_rows(rows, _columns(_EVIDENCE)))

    def findings(self, start: Time | None = None, end: Time | None = None) -> F:
        """Scores past the boundary that lasted, with onset in [start, end]: what incidents are folded from."""
        return self._table("findings", "onset", start, end)

    def dropped(self, start: Time | None = None, end: Time | None = None) -> F:
        """Findings that a rule set aside in ticks of [start, end], with its reason: why nobody was paged."""
        return self._table("dropped", "tick_at", start, end)

    def node_scores(self, start: Time | None = None, end: Time | None = None) -> F:
        """Per tick, node and symptom class the largest score; 1.0 is the boundary, quiet nodes have no row."""
        return self._table("node_scores", "tick_at", start, end)

    def coverage(self, start: Time | None = None, end: Time | None = None) -> F:
        """Per tick and entity what share of the expected samples was seen."""
        return self._table("coverage", "tick_at", start, end)

    def ticks(self, start: Time | None = None, end: Time | None = None) -> F:
        """Every scored tick with its counts."""
        return self._table("ticks", "tick_at", start, end)

    # ── what was measured ─────────────────────────────────────────────────────────────────────────────

    def signals(self) -> F:
        """The signals there are series of, with what they mean; unit and kind are null for signals of your own."""
        from anomaly.analyst.measured import known_signals

        return self.make(from_rows(known_signals(self.directory), _columns(_SIGNAL)))

    def series(self, signal: Names | None = None) -> F:
        """The underlying series (of `signal`), with their labels as JSON."""
        import pyarrow.compute as pc

        table = table_of(self.directory, "series")
        return self.make(table if signal is None else table.filter(pc.field("signal").isin(_list(signal))))

    def samples(
        self, signal: Names, nodes: Names | None = None, start: Time | None = None, end: Time | None = None
    ) -> F:
        """Samples as Prometheus gave them, one row each; counters as counts. See `values` for what detectors see.

        `nodes` are names of entities (for signals of a job: of jobs). Raises UsageError for a signal that has no
        series and StoreError when no sample of [start, end] is published.
        """
        from anomaly.analyst.measured import read_samples

        return self.make(read_samples(self.directory, _list(signal), _maybe(nodes), _ms(start), _ms(end)))

    def values(self, signal: str, nodes: Names | None = None, start: Time | None = None, end: Time | None = None) -> F:
        """What detectors see of a signal: duplicates merged, impossible values null, counters as increase per second.

        Every device has a row at every grid time; null is "no sample". Errors as of `samples`.
        """
        from anomaly.analyst.measured import long_form, measure

        panel = measure(self.directory, [signal], _ms(start), _ms(end)).panel(signal)
        return self.make(long_form(panel, _maybe(nodes), _columns(_VALUE)))

    def rollups(self, start: Time | None = None, end: Time | None = None) -> F:
        """Hourly count, median, robust spread, lowest and highest value of every series, for hours in [start, end]."""
        import pyarrow.compute as pc

        table = read_table(self.directory, "rollups", _ms(start), _ms(end))
        if table is not None:
            table = table.rename_columns(["name" if each == "node" else each for each in table.column_names])
            keep = pc.field("hour") >= (_ms(start) or 0)
            table = table.filter(keep & (pc.field("hour") <= _ms(end)) if end is not None else keep)
        return self.make(frames.shaped(table, frames.columns("rollups")))

    def peers(self, node: str, signal: str, at: Time) -> F:
        """With whom each device of `node` is compared at `at`, and their values then: same slot of the same job first.

        Errors as of `samples`; UsageError when the node has no such signal.
        """
        from anomaly.analyst.peers import peer_rows

        return self.make(from_rows(peer_rows(self.directory, node, signal, instant(at)), _columns(_PEER)))

    def _table(self, table: str, by: str, start: Time | None, end: Time | None) -> F:
        return self.make(table_of(self.directory, table, by, _ms(start), _ms(end)))


def _ms(given: Time | None) -> Ms | None:
    return None if given is None else instant(given)


def _list(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _maybe(names: Names | None) -> list[str] | None:
    return None if names is None else _list(names)


def _incident_row(incident: Incident) -> Mapping[str, Any]:
    special = {"kind": incident.entity.kind, "name": incident.entity.name}
    return {name: special.get(name) or getattr(incident, name, None) for name in _columns(_INCIDENT)}


def _event_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    body = json.loads(row["body"])
    return {
        "seq": row["seq"],
        "tick_at": row["tick_at"],
        "id": row["incident_id"],
        "name": body["entity"]["name"],
        **{name: body[name] for name in ("severity", "phase", "cause", "signals", "summary")},
    }
