"""Small real things to store: series, chunks, findings, incidents."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anomaly.clock import Ms
from anomaly.records import Dropped, Entity, Evidence, Finding, Incident, OutboxEntry, Phase, Samples, Severity
from anomaly.store import CollectedChunk, SignalChunk, Store

T0: Ms = 1_800_000_000_000 - 1_800_000_000_000 % 3_600_000
STEP: Ms = 15_000


def series_of(store: Store, signal: str, count: int) -> list[int]:
    """Ids of `count` GPUs' series of `signal`."""
    rows = [
        (
            signal,
            Entity("node", f"gpu-{n // 8:02d}"),
            f"gpu{n % 8}",
            "",
            {"gpu": str(n % 8), "Hostname": f"gpu-{n // 8:02d}"},
        )
        for n in range(count)
    ]
    return [int(i) for i in store.register(rows)]


def samples(points: Sequence[tuple[int, Ms, float]]) -> Samples:
    """Samples from (series id, instant, value)."""
    return Samples(
        np.array([p[0] for p in points], np.int32),
        np.array([p[1] for p in points], np.int64),
        np.array([p[2] for p in points], np.float64),
    )


def chunk(
    start: Ms,
    end: Ms,
    per_signal: Mapping[str, Sequence[tuple[int, Ms, float]]],
    *,
    scored_through: Ms = 0,
    failed: Sequence[tuple[str, str]] = (),
) -> CollectedChunk:
    """One collected stretch."""
    parts = tuple(SignalChunk(signal, start, end, samples(points)) for signal, points in per_signal.items())
    return CollectedChunk(start, end, parts, tuple(failed), scored_through)


def stored(store: Store, signal: str) -> list[tuple[int, Ms, float]]:
    """Everything stored of a signal, sorted."""
    found = store.read(signal, 0, 2**62)
    return sorted(zip(found.series_id.tolist(), found.ts.tolist(), found.values.tolist(), strict=True))


def finding(node: str = "gpu-17", **changes: Any) -> Finding:
    """A hot GPU."""
    values: dict[str, Any] = {
        "entity": Entity("node", node),
        "signal": "gpu_temp",
        "device": "gpu3",
        "detector": "peers",
        "cause": "thermal",
        "symptom": "thermal",
        "hard": False,
        "asymmetric": True,
        "onset": T0,
        "uncertainty": STEP,
        "last": T0 + 4 * STEP,
        "peak": 2.5,
        "score": 1.5,
        "direction": "high",
        "observed": 91.0,
        "expected": 64.0,
        "unit": "celsius",
        "hint": "",
        "confirmed": T0 + STEP,
    }
    return Finding(**(values | changes))


def dropped(reason: str, node: str = "gpu-17") -> Dropped:
    """A finding that a rule set aside."""
    return Dropped(finding(node), reason, "because of the test")


def incident(incident_id: str = "a1", **changes: Any) -> Incident:
    """A firing ticket on one node."""
    values: dict[str, Any] = {
        "id": incident_id,
        "cluster": "prod-a",
        "scope": "node",
        "entity": Entity("node", "gpu-17"),
        "nodes": ("gpu-17",),
        "victims": ("gpu-18",),
        "jobs": ("llama",),
        "cause": "thermal",
        "frozen_cause": "thermal",
        "severity": Severity.WARNING,
        "previous_severity": None,
        "phase": Phase.FIRING,
        "onset": T0,
        "uncertainty": STEP,
        "fired_at": T0 + 60_000,
        "updated_at": T0 + 60_000,
        "resolved_at": None,
        "impact_ratio": 0.18,
        "coverage": 0.97,
        "signals": ("gpu_temp",),
        "evidence": (Evidence("gpu_temp", "gpu3", 91.0, 64.0, "celsius", "peers", 2.5, T0),),
        "summary": "gpu-17 runs hot",
        "advice": "check the fans",
        "absorbed_by": None,
    }
    return Incident(**(values | changes))


def entry(sink: str = "am", key: str = "k", *, resolved_at: Ms | None = None, body: str = "{}") -> OutboxEntry:
    """Something to send; its number is given by the store."""
    return OutboxEntry(0, sink, key, "a1", body, T0, resolved_at)
