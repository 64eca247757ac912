"""What Alertmanager should hold for an incident. Pure: the same incident always gives the same bytes.

Labels are identity: a changed label is another alert, and the old one lingers until its lease ends. So labels carry
names only, and everything that moves (values, times, lists of hosts, the refined cause) is an annotation.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from anomaly.clock import Ms, format_duration, format_time
from anomaly.deliver import narrate
from anomaly.records import Incident, Phase, Severity

LABELS = ("alertname", "cause", "cluster", "group", "node", "severity")


@dataclass(frozen=True, slots=True)
class AlertState:
    """One alert as it should stand: firing while `resolved_at` is None. Times are wall time in milliseconds."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    starts_at: Ms = 0
    resolved_at: Ms | None = None
    generator_url: str = ""

    @property
    def key(self) -> str:
        return alert_key(self.labels)


def alert_key(labels: Mapping[str, str]) -> str:
    """The alert's identity: its labels as canonical JSON."""
    return json.dumps(dict(labels), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def alert_states(incident: Incident, *, starts_at: Ms, external_url: str = "") -> list[AlertState]:
    """The alerts that one change of an incident asserts: none, one, or two when its severity has just risen.

    `starts_at` is the wall time of the decision, not the onset: an old `startsAt` makes Alertmanager skip
    `group_wait` and slips past inhibition. Notes and what never fired give nothing. A rise gives the louder alert
    firing and the quieter one resolved, to be sent in one request.
    """
    if not has_fired(incident) or incident.severity is Severity.INFO:
        return []
    ended = narrate.ending(incident) is not None
    ended_at = incident.resolved_at if incident.resolved_at is not None else incident.updated_at
    notes = annotations(incident)
    url = f"{external_url.rstrip('/')}/incidents/{incident.id}" if external_url else ""
    # A resolution needs room before it for the clock-skew margin, hence the earlier start.
    earlier = min(starts_at, incident.fired_at)
    states = [
        AlertState(labels(incident, incident.severity), notes, earlier if ended else starts_at,
                   ended_at if ended else None, url)
    ]  # fmt: skip
    before = incident.previous_severity
    if before is not None and before is not incident.severity and before is not Severity.INFO:
        passed = notes | {"ended": f"severity rose to {incident.severity.value}"}
        states.append(AlertState(labels(incident, before), passed, earlier, incident.updated_at, url))
    return states


def has_fired(incident: Incident) -> bool:
    """Whether anybody outside may know of it (`fired_at` is 0 until an incident fires)."""
    return incident.phase is not Phase.PENDING and incident.fired_at > 0


def labels(incident: Incident, severity: Severity) -> dict[str, str]:
    """The identity of an incident's alert at one severity. Empty values are left out, as Alertmanager drops them."""
    place = "node" if incident.scope == "node" else "group"
    found = {
        "alertname": incident.alertname,
        "cause": incident.frozen_cause,
        "cluster": incident.cluster,
        place: incident.entity.name,
        "severity": severity.value,
    }
    return {name: value for name, value in found.items() if value}


def annotations(incident: Incident) -> dict[str, str]:
    """Everything that a person needs and that may change while the alert stands."""
    found = {
        "summary": narrate.headline(incident),
        "description": narrate.describe(incident),
        "cause": incident.cause,
        "onset": format_time(incident.onset),
        "onset_uncertainty": format_duration(incident.uncertainty),
        "incident_id": incident.id,
        "nodes": narrate.names(incident.nodes),
        "victims": narrate.names(incident.victims),
        "jobs": narrate.names(incident.jobs),
        "impact": narrate.impact_line(incident),
        "coverage": "unknown" if incident.coverage is None else f"{incident.coverage:.0%}",
        "advice": incident.advice,
        "runbook": f"anomaly explain {incident.id}",
        "ended": narrate.ending(incident) or "",
    }
    return {name: value for name, value in found.items() if value}


def label_problems(found: Mapping[str, str]) -> list[str]:
    """What is wrong with a label set, in words: labels beyond the agreed ones, values, times, lists of hosts."""
    problems = [f"{name}: not one of the agreed labels" for name in found if name not in LABELS]
    problems += [f"{name}: missing" for name in ("alertname", "cause", "severity") if not found.get(name)]
    if ("node" in found) == ("group" in found):
        problems.append("node, group: exactly one of them names the entity")
    if found.get("severity") not in (Severity.WARNING.value, Severity.CRITICAL.value):
        problems.append("severity: neither warning nor critical")
    for name, value in found.items():
        if re.fullmatch(r"[-+]?\d+(\.\d+)?\s*(%|[a-zA-Z°/]{0,4})", value):
            problems.append(f"{name}: {value!r} is a number")
        if re.search(r"\d{4}-\d\d-\d\d[T ]\d\d:|\b1\d{9,12}\b", value):
            problems.append(f"{name}: {value!r} holds a time")
        if re.search(r"\w\s*[,;]\s*\w", value):
            problems.append(f"{name}: {value!r} is a list")
    return problems


def to_body(state: AlertState) -> str:
    """An alert state as the outbox keeps it: JSON, times in milliseconds, `resolvedAt` null while it fires."""
    return json.dumps(
        {
            "labels": dict(state.labels),
            "annotations": dict(state.annotations),
            "startsAt": state.starts_at,
            "resolvedAt": state.resolved_at,
            "generatorURL": state.generator_url,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def from_body(body: str) -> AlertState:
    """The inverse of `to_body`."""
    raw = json.loads(body)
    return AlertState(raw["labels"], raw["annotations"], raw["startsAt"], raw["resolvedAt"], raw["generatorURL"])
