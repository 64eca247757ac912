"""What one change of an incident adds to the outbox, and what Alertmanager would get, without sending anything."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anomaly.clock import Ms
from anomaly.deliver.payload import AlertState, alert_states, has_fired, to_body
from anomaly.deliver.policy import FeedPolicy
from anomaly.deliver.sinks import SinkKind, sink_name
from anomaly.deliver.wire import pretty, wire_alerts
from anomaly.incident_json import incident_json
from anomaly.records import Incident, OutboxEntry


@dataclass(frozen=True, slots=True)
class SinkRef:
    """A configured sink, as far as the outbox needs it."""

    name: str
    kind: SinkKind

    @classmethod
    def of(cls, kind: SinkKind, target: str) -> "SinkRef":
        """The sink for a URL or path, under its usual name."""
        return cls(sink_name(kind, target), kind)


def outbox_entries(
    incident: Incident, sinks: Sequence[SinkRef], starts_at: Ms, now: Ms, *, external_url: str = ""
) -> list[OutboxEntry]:
    """The entries (`seq` 0: the store numbers them) of one change, for every sink independently.

    `starts_at` is the wall time at which the incident was first decided, `now` the wall time of this change. What
    never fired adds nothing; a note goes to files and webhooks, never to Alertmanager.
    """
    states = alert_states(incident, starts_at=starts_at, external_url=external_url)
    line = json_line(incident) if has_fired(incident) else ""
    entries = []
    for sink in sinks:
        if sink.kind == "alertmanager":
            entries += [_alert_entry(incident, sink, state, now) for state in states]
        elif line:
            entries.append(OutboxEntry(0, sink.name, event_key(incident.id, line), incident.id, line, now, None))
    return entries


def json_line(incident: Incident) -> str:
    """The incident as one JSON line of the contract, without the newline."""
    return json.dumps(incident_json(incident), ensure_ascii=False, separators=(",", ":"))


def event_key(incident_id: str, line: str) -> str:
    """The idempotency key of one change: the same change, replayed after a crash, has the same key. ASCII."""
    return f"{incident_id}-{hashlib.sha256(line.encode('utf-8', 'replace')).hexdigest()[:16]}"


def dry_run(incidents: Iterable[Incident], *, now: Ms, policy: FeedPolicy | None = None, external_url: str = "") -> str:
    """The JSON that Alertmanager would hold after these changes, in order: the newest state of each alert, pretty.

    Stable: alerts stand in the order of their start and labels; `startsAt` is the incident's firing time.
    """
    policy = policy or FeedPolicy()
    newest: dict[str, AlertState] = {}
    for incident in incidents:
        for state in alert_states(incident, starts_at=incident.fired_at, external_url=external_url):
            newest[state.key] = state
    states = sorted(newest.values(), key=lambda state: (state.starts_at, state.key))
    return pretty(wire_alerts(states, now=now, lease=policy.lease, skew_margin=policy.skew_margin))


def _alert_entry(incident: Incident, sink: SinkRef, state: AlertState, now: Ms) -> OutboxEntry:
    ended = None if state.resolved_at is None else now
    return OutboxEntry(0, sink.name, state.key, incident.id, to_body(state), now, ended)
