"""An incident as the JSON line others rely on (backtest, JSON-lines sink, webhook, our own tables), and back.

The contract's keys are exactly those of the documentation. What a lossless way back needs besides stands under
additional keys, which readers may ignore: `alertname, cluster, entity, frozen_cause, phase, uncertainty_ms,
absorbed_by`; in each evidence item `score` and `onset`. JSON knows no infinity: a number that is not finite is
null, with its text (`+Inf`, `-Inf`, `NaN`) under `<key>_text`.
"""

import math
from collections.abc import Mapping
from typing import Any

from anomaly.clock import Ms, format_time, parse_time
from anomaly.records import Entity, Evidence, Incident, Phase, Severity


def incident_json(incident: Incident) -> dict[str, Any]:
    """The contract form of `incident`; only JSON types, times in RFC 3339 UTC, unknown values null."""
    entity = incident.entity
    on_node = incident.scope == "node"
    return {
        "id": incident.id,
        "scope": incident.scope,
        "node": entity.name if on_node else None,
        "group": None if on_node else entity.name,
        "nodes": list(incident.nodes),
        "victims": list(incident.victims),
        "jobs": list(incident.jobs),
        "cause": incident.cause,
        "severity": incident.severity.value,
        "previous_severity": incident.previous_severity.value if incident.previous_severity else None,
        **_number("impact_ratio", incident.impact_ratio),
        "impact_known": incident.impact_ratio is not None,
        **_number("coverage", incident.coverage),
        "onset": format_time(incident.onset),
        "fired_at": _time(incident.fired_at),
        "updated_at": _time(incident.updated_at),
        "resolved_at": None if incident.resolved_at is None else format_time(incident.resolved_at),
        "signals": list(incident.signals),
        "evidence": [_evidence_json(item) for item in incident.evidence],
        "summary": incident.summary,
        "advice": incident.advice,
        "alertname": incident.alertname,
        "cluster": incident.cluster,
        "entity": {"kind": entity.kind, "name": entity.name},
        "frozen_cause": incident.frozen_cause,
        "phase": incident.phase.value,
        "uncertainty_ms": incident.uncertainty,
        "absorbed_by": incident.absorbed_by,
    }


def incident_from_json(line: Mapping[str, Any]) -> Incident:
    """The incident that `incident_json` turned into `line`: equal to it, field by field.

    Raises KeyError or ValueError for anything else.
    """
    previous = line["previous_severity"]
    resolved = line["resolved_at"]
    return Incident(
        id=line["id"],
        cluster=line["cluster"],
        scope=line["scope"],
        entity=Entity(line["entity"]["kind"], line["entity"]["name"]),
        nodes=tuple(line["nodes"]),
        victims=tuple(line["victims"]),
        jobs=tuple(line["jobs"]),
        cause=line["cause"],
        frozen_cause=line["frozen_cause"],
        severity=Severity(line["severity"]),
        previous_severity=None if previous is None else Severity(previous),
        phase=Phase(line["phase"]),
        onset=parse_time(line["onset"]),
        uncertainty=line["uncertainty_ms"],
        fired_at=_instant(line["fired_at"]),
        updated_at=_instant(line["updated_at"]),
        resolved_at=None if resolved is None else parse_time(resolved),
        impact_ratio=_float(line, "impact_ratio"),
        coverage=_float(line, "coverage"),
        signals=tuple(line["signals"]),
        evidence=tuple(_evidence(item) for item in line["evidence"]),
        summary=line["summary"],
        advice=line["advice"],
        absorbed_by=line["absorbed_by"],
    )


def line_due(before: Incident | None, now: Incident) -> bool:
    """Whether `now` deserves a line of its own after `before` (None: never seen).

    A line is due at firing, whenever severity, cause or the set of signals changes while it fires, and at
    resolution. What never fired leaves no line.
    """
    if now.phase is Phase.PENDING:
        return False
    fired_before = before is not None and before.phase is not Phase.PENDING
    if before is None or not fired_before:
        return now.phase is Phase.FIRING or now.fired_at > 0
    if now.phase is not before.phase:
        return True
    return now.phase is Phase.FIRING and (
        (now.severity, now.cause) != (before.severity, before.cause) or set(now.signals) != set(before.signals)
    )


def _evidence_json(item: Evidence) -> dict[str, Any]:
    return {
        "signal": item.signal,
        "device": item.device,
        **_number("observed", item.observed),
        **_number("expected", item.expected),
        "unit": item.unit,
        "detector": item.detector,
        **_number("score", item.score),
        "onset": _time(item.onset),
    }


def _evidence(item: Mapping[str, Any]) -> Evidence:
    score = _float(item, "score")
    return Evidence(
        signal=item["signal"],
        device=item["device"],
        observed=_float(item, "observed"),
        expected=_float(item, "expected"),
        unit=item["unit"],
        detector=item["detector"],
        score=1.0 if score is None else score,
        onset=_instant(item["onset"]),
    )


def _number(key: str, value: float | None) -> dict[str, Any]:
    if value is None or math.isfinite(value):
        return {key: None if value is None else float(value)}
    text = "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return {key: None, f"{key}_text": text}


def _float(line: Mapping[str, Any], key: str) -> float | None:
    value = line[key]
    if value is None:
        text = line.get(f"{key}_text")
        return None if text is None else float(text)
    return float(value)


def _time(instant: Ms) -> str | None:
    """Zero stands for "not yet" in the records."""
    return format_time(instant) if instant else None


def _instant(text: str | None) -> Ms:
    return parse_time(text) if text else 0
