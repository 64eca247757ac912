"""Rule 6: what the evidence says the cause is, and how loud the case may be."""

from dataclasses import replace

from anomaly.causes import default_severity
from anomaly.denoise.doubt import loudest
from anomaly.denoise.world import Case, World
from anomaly.records import Finding, Severity

PAGE_RATIO = 0.20
TICKET_RATIO = 0.10
"""Slow-down of a job from which a case is a page or a ticket (Guard's and traceml's lines)."""

_ORDER = (
    "node_lost",
    "gpu_lost",
    "memory_ecc",
    "nvlink",
    "hang",
    "driver",
    "thermal",
    "pcie",
    "network",
    "power",
    "storage",
    "cpu",
    "software",
    "telemetry",
)
"""Of causes with equally good evidence the more specific: a hot GPU also clocks low, bad PCIe also fills the NIC."""


def cause_of(case: Case) -> str:
    """The family that hard evidence names; otherwise the most specific one among the asymmetric findings."""
    hard = [finding.cause for finding in case.findings if finding.hard]
    pool = hard or [finding.cause for finding in case.findings if finding.asymmetric and not _note(finding)]
    pool = pool or [finding.cause for finding in case.findings]
    return min(pool, key=_place)


def more_specific(known: str, cause: str) -> str:
    """What an incident is called when its evidence changes: a cause is refined, and not lost with its evidence."""
    return min(known, cause, key=_place)


def _place(cause: str) -> int:
    return _ORDER.index(cause) if cause in _ORDER else len(_ORDER)


def _note(finding: Finding) -> bool:
    return finding.cause == "telemetry"


def tier(world: World, cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """Severity = the larger of what the cause and what the measured impact ask for."""
    return tuple(_judge(world, case) for case in cases)


def _judge(world: World, case: Case) -> Case:
    cause = cause_of(case)
    severity = default_severity(cause, hard=case.hard)
    if not case.hard:
        speaking = [finding for finding in case.findings if finding.asymmetric or case.scope == "job"]
        most = max((loudest(world, finding) for finding in speaking), key=_rank, default=severity)
        if case.scope == "node":
            severity = min(severity, most, key=_rank)
    if cause == "telemetry":
        # A node that nobody scrapes any more may have been taken out on purpose.
        gone = all(finding.detector == "vanished" for finding in case.findings)
        severity = Severity.INFO if case.scope == "node" and gone else Severity.WARNING
    if cause == "node_lost" and case.scope == "group" and _drained(world, case):
        severity = Severity.WARNING
    ratio = case.effect_ratio()
    hangs = any(effect.cause == "hang" for effect in case.effects)
    if hangs or (ratio is not None and ratio >= PAGE_RATIO):
        severity = Severity.CRITICAL
    elif ratio is not None and ratio >= TICKET_RATIO:
        severity = max(severity, Severity.WARNING, key=_rank)
    return replace(case, cause=cause, severity=severity)


def _drained(world: World, case: Case) -> bool:
    """Nodes that go together while no job works on any of them, though jobs are known: maintenance, more likely."""
    return bool(world.jobs) and not any(world.jobs_of(node) for node in case.nodes)


def _rank(severity: Severity) -> int:
    return severity.rank
