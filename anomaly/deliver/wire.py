"""Alertmanager's API v2 on the wire: alert states, the time and the lease give the JSON array that is sent.

Semantics as in Alertmanager's `api/v2` and Prometheus' own client: an alert fires exactly while `endsAt` lies in
Alertmanager's future, so a firing one carries a lease and a resolved one an `endsAt` safely in the past.
"""

import json
from collections.abc import Iterable
from typing import TypedDict

from anomaly.clock import Ms, format_time
from anomaly.deliver.payload import AlertState


class WireAlert(TypedDict):
    """One element of the array that `POST /api/v2/alerts` takes."""

    labels: dict[str, str]
    annotations: dict[str, str]
    startsAt: str
    endsAt: str
    generatorURL: str


def wire_alert(state: AlertState, *, now: Ms, lease: Ms, skew_margin: Ms) -> WireAlert:
    """One alert for sending at `now`.

    Always startsAt ≤ endsAt. Firing: startsAt ≤ now < endsAt = now + lease. Resolved: endsAt ≤ now, earlier by
    `skew_margin` where startsAt leaves room, so that an Alertmanager whose clock is slow still sees the past.
    """
    starts_at = min(state.starts_at, now)
    ends_at = now + lease if state.resolved_at is None else max(starts_at, min(state.resolved_at, now) - skew_margin)
    return {
        "labels": dict(state.labels),
        "annotations": dict(state.annotations),
        "startsAt": format_time(starts_at),
        "endsAt": format_time(ends_at),
        "generatorURL": state.generator_url,
    }


def wire_alerts(states: Iterable[AlertState], *, now: Ms, lease: Ms, skew_margin: Ms) -> list[WireAlert]:
    """Several alerts for one request, in the order given."""
    return [wire_alert(state, now=now, lease=lease, skew_margin=skew_margin) for state in states]


def encode(alerts: list[WireAlert]) -> bytes:
    """The request's body: a JSON array, ASCII only, so that no proxy and no stray surrogate can spoil it."""
    return json.dumps(alerts, separators=(",", ":")).encode("ascii")


def pretty(alerts: list[WireAlert]) -> str:
    """The same for reading: indented, keys in a fixed order, text as it is."""
    return json.dumps(alerts, indent=2, sort_keys=True, ensure_ascii=False)
