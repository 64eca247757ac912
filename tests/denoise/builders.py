"""A small world, findings in it, and ticks of the rules."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anomaly.clock import MINUTE, Ms
from anomaly.denoise.rules import Denoised, denoise
from anomaly.denoise.world import Memory, World
from anomaly.records import Entity, Finding, Incident, Severity

STEP: Ms = 15_000
NOON: Ms = 1_796_040_000_000
NODES = tuple(f"n{i}" for i in range(1, 13))
RACKS = {node: f"rack-{i // 4 + 1}" for i, node in enumerate(NODES)}
JOBS = {"train-a": NODES[:8], "train-b": NODES[8:]}
ALONE = {"load_per_core": Severity.INFO, "pfc_pause_received": Severity.INFO}

KINDS: Mapping[str, dict[str, Any]] = {
    "gpu_temp": {"cause": "thermal", "symptom": "thermal", "device": "3"},
    "sm_clock": {"cause": "power", "symptom": "compute", "device": "3", "direction": "low"},
    "symbol_errors": {"cause": "network", "symptom": "network", "device": "mlx5_1", "uncertainty": 2 * MINUTE},
    "pfc_pause_received": {"cause": "network", "symptom": "network", "device": "rdma0", "uncertainty": 2 * MINUTE},
    "load_per_core": {"cause": "cpu", "symptom": "host"},
    "gpu_power": {"cause": "power", "symptom": "compute", "device": "3", "asymmetric": False, "direction": "low"},
    "storage_p99": {"cause": "storage", "symptom": "storage", "device": "train-data", "detector": "shift"},
    "xid": {"cause": "gpu_lost", "symptom": "presence", "device": "3", "detector": "codes", "hard": True},
    "up": {"cause": "node_lost", "symptom": "presence", "detector": "node_lost", "hard": True},
    "silent": {"cause": "telemetry", "symptom": "presence", "device": "dcgm-exporter", "detector": "silent"},
    "vanished": {"cause": "telemetry", "symptom": "presence", "detector": "vanished"},
    "frozen": {"cause": "gpu_lost", "symptom": "presence", "device": "3", "detector": "frozen"},
}


def find(signal: str, node: str, at: float, **more: Any) -> Finding:
    """A finding that began `at` minutes after noon and was confirmed three minutes later (hard ones at once)."""
    kind = {**KINDS[signal], **more}
    onset = NOON + round(at * MINUTE)
    hard = bool(kind.get("hard", False))
    return Finding(
        entity=Entity("node", node),
        signal={"silent": "up", "vanished": "up", "frozen": "gpu_power"}.get(signal, signal),
        device=kind.get("device", ""),
        detector=kind.get("detector", "peers"),
        cause=kind["cause"],
        symptom=kind["symptom"],
        hard=hard,
        asymmetric=kind.get("asymmetric", True),
        onset=onset,
        uncertainty=kind.get("uncertainty", 30_000),
        last=onset,
        peak=kind.get("peak", 2.0),
        score=2.0,
        direction=kind.get("direction", "high"),
        observed=80.0,
        expected=65.0,
        unit="",
        hint=kind.get("hint", ""),
        confirmed=onset if hard else onset + 3 * MINUTE,
    )


def slow(job: str, at: float, by: float = 0.25) -> Finding:
    """A job whose steps take longer from `at` on."""
    return replace(
        find("gpu_temp", job, at),
        entity=Entity("job", job),
        signal="iteration_seconds",
        device="",
        detector="shift",
        cause="software",
        symptom="training",
        asymmetric=False,
        observed=10.0 * (1 + by),
        expected=10.0,
    )


def world(at: float, **more: Any) -> World:
    given: dict[str, Any] = {
        "now": NOON + round(at * MINUTE),
        "cluster": "prod-a",
        "step": STEP,
        "nodes": frozenset(NODES),
        "groups": {"rack": RACKS},
        "jobs": {job: frozenset(nodes) for job, nodes in JOBS.items()},
        "alone": ALONE,
        "shared_kinds": {"storage_p99": "storage"},
        "coverage": dict.fromkeys(NODES, 1.0),
    }
    return World(**{**given, **more})


@dataclass
class Days:
    """Ticks of the rules, one a minute, with what they said."""

    memory: Memory = field(default_factory=Memory)
    told: list[Incident] = field(default_factory=list)
    last: Denoised | None = None

    def tick(self, at: float, findings: Iterable[Finding], alive: bool = True, **more: Any) -> Denoised:
        """`alive`: every finding has just been past its boundary; otherwise its samples ended with its `last`."""
        now = world(at, **more)
        known = tuple(replace(item, last=now.now) if alive else item for item in findings if item.confirmed <= now.now)
        self.last = denoise(now, self.memory, known)
        self.memory = self.last.memory
        self.told += self.last.changed
        return self.last

    def run(self, start: int, end: int, findings: Sequence[Finding], **more: Any) -> None:
        for at in range(start, end + 1):
            self.tick(at, findings, **more)

    def lines(self) -> list[str]:
        """`12:05 node/n2 thermal warning firing`, one per change."""
        return [
            f"{(item.updated_at - NOON) // MINUTE} {item.entity} {item.cause} {item.severity} {item.phase}"
            f"{' absorbed' if item.absorbed_by else ''}"
            for item in self.told
        ]

    def open(self) -> dict[str, Incident]:
        return {str(incident.entity): incident for incident in self.memory.open if incident.phase == "firing"}
