"""One drill through the production tick, and what it came to."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from anomaly.backtest import replay
from anomaly.clock import DAY, Ms, format_time
from anomaly.config.pipeline import Pipeline
from anomaly.drill.stage import Stage, stage
from anomaly.jobs.collect import collect
from anomaly.jobs.parts import Parts, assemble, topology_of_csv
from anomaly.records import Incident, Phase, Severity
from anomaly.source.simulated import SimulatedSource, topology_csv, truth, write_openmetrics
from anomaly.store.store import open_store
from anomaly.truth import Alert, Report, Truth, judge, read_truth

PACKS = ("dcgm", "node", "rdma", "storage", "training")
TICKETS_ALLOWED = ("maintenance", "slow_gpu")
"""Noise of which a ticket may be written, though nobody may be woken: the nodes are away, the board is slow."""

Verdict = Literal["ok", "small", "late", "missed", "false"]


@dataclass(frozen=True, slots=True)
class Said:
    """What a drill said to whom it should not have, or found: where, why, how loud."""

    where: str
    cause: str
    loud: str
    kind: str = "found"

    @classmethod
    def of(cls, alert: Alert, kind: str = "found") -> "Said":
        return cls(alert.where, alert.cause, alert.loud, kind)


@dataclass(frozen=True, slots=True)
class Drilled:
    """What one drill came to. Times and places of a fault are None for noise.

    The verdict is `missed` or `late` for a fault that was not found in its time (`small` where it slows its job by
    less than a tenth, so that nothing is due), `false` for noise that alerted, `ok` otherwise. `wrong` is every alert
    that should not have been.
    """

    name: str
    seed: int
    effect: float | None
    where: str | None
    expect: str
    cause_family: str | None
    limit_s: float | None
    found: Said | None
    delay_s: float | None
    verdict: Verdict
    wrong: tuple[Said, ...]
    node_days: float
    incidents: tuple[Incident, ...] = ()
    """As they stood when they were loudest, for an exercise with a real Alertmanager."""

    def to_json(self) -> dict[str, Any]:
        """Everything but the incidents, as plain JSON values."""

        def said(item: Said) -> dict[str, str]:
            return {"where": item.where, "cause": item.cause, "level": item.loud, "kind": item.kind}

        return {
            "name": self.name,
            "seed": self.seed,
            "effect": self.effect,
            "expected": {"where": self.where, "expect": self.expect, "cause": self.cause_family},
            "limit_s": self.limit_s,
            "found": None if self.found is None else said(self.found),
            "delay_s": self.delay_s,
            "verdict": self.verdict,
            "wrong": [said(item) for item in self.wrong],
        }


def drill(
    name: str, seed: int, effect: float | None = None, export: Path | None = None, plot: Path | None = None
) -> Drilled:
    """Run one drill: its samples into a scratch store, the production ticks over them, and the judge.

    `export` and `plot` are directories: the drill's metrics (OpenMetrics), topology and truth go into a folder of its
    name, its picture into `<name>.png`. Raises KeyError for an unknown name.
    """
    made = stage(name, seed, effect)
    facts_text = json.dumps(truth(made.scenario), indent=2)
    if export is not None:
        _export(made, facts_text, export / name)
    facts = read_truth(facts_text, "truth.json")
    scenario = made.scenario
    parts = parts_of(made)
    with (
        tempfile.TemporaryDirectory(prefix="anomaly-drill-") as directory,
        open_store(Path(directory) / "scratch.duckdb", memory=True) as store,
    ):
        found = collect(parts, store, scenario.end, start=scenario.start, end=scenario.end)
        told = replay(parts, store, scenario.start, scenario.end, found)
        incidents = tuple(_loud(store.incidents()))
        if plot is not None:
            from anomaly.drill.picture import draw

            store.publish(Path(directory) / "published")
            draw(made, told.lines, Path(directory) / "published", plot / f"{name}.png")
    return verdict_on(made, facts, told.lines, incidents)


def parts_of(made: Stage) -> Parts:
    """The parts of a pipeline with every pack, on the drill's cluster."""
    scenario = made.scenario
    nodes = len(scenario.cluster.nodes)
    pipeline = Pipeline.model_validate(
        {
            "cluster": "drill",
            "packs": PACKS,
            "simulate": {"seed": made.seed, "nodes": nodes, "faults": 0},
            "context": "5m",  # there is nothing before a drill
        }
    )
    parts = assemble(pipeline, lambda: scenario.end)
    return replace(parts, source=SimulatedSource(scenario), topology=topology_of_csv(topology_csv(scenario.cluster)))


def _export(made: Stage, facts: str, folder: Path) -> None:
    write_openmetrics(made.scenario, folder)
    (folder / "topology.csv").write_text(topology_csv(made.scenario.cluster), encoding="utf-8")
    (folder / "truth.json").write_text(facts + "\n", encoding="utf-8")


def _loud(incidents: list[Incident]) -> list[Incident]:
    """The incidents that alerted, as if they were firing."""
    fired = (each for each in incidents if each.fired_at and each.severity is not Severity.INFO)
    return [replace(each, phase=Phase.FIRING, resolved_at=None, previous_severity=None) for each in fired]


def verdict_on(
    made: Stage, facts: Truth, lines: tuple[Mapping[str, Any], ...], incidents: tuple[Incident, ...] = ()
) -> Drilled:
    """What a drill came to, given the JSON lines that somebody, not necessarily we, wrote about it."""
    scenario = made.scenario
    start, end = scenario.start, scenario.end
    nodes = len(scenario.cluster.nodes)
    report = judge(facts, lines, start=start, end=end, nodes=nodes)
    node_days = nodes * (end - start) / DAY
    wrong = tuple(Said.of(each.alert, each.kind) for each in report.wrong)
    if made.noise is not None:
        disturbs = [each for each in wrong if each.loud == "page" or made.name not in TICKETS_ALLOWED]
        verdict: Verdict = "false" if disturbs else "ok"
        return Drilled(made.name, made.seed, None, None, "nothing", None, None, None, None, verdict, wrong,
                       node_days, incidents)  # fmt: skip
    [fault] = facts.faults
    [outcome] = report.outcomes
    by, verdict = outcome.by, "ok"
    if fault.expect == "none":
        verdict = "small"
    elif by is None:
        by = _ever(facts, lines, start, end, nodes)
        small = fault.expect == "ticket" and made.fault is not None and fault.effect is not None and fault.effect < 0.1
        verdict = "small" if small and by is None else "missed" if by is None else "late"
        wrong = tuple(each for each in wrong if each.kind != "late")
    delay = None if by is None else (by.at - fault.onset) / 1000
    said = None if by is None else Said.of(by)
    return Drilled(made.name, made.seed, fault.effect, fault.where, fault.expect, fault.cause_family,
                   fault.limit / 1000, said, delay, verdict, wrong, node_days, incidents)  # fmt: skip


def _ever(facts: Truth, lines: tuple[Mapping[str, Any], ...], start: Ms, end: Ms, nodes: int) -> Alert | None:
    """The alert that found the fault while it lasted, whatever its limit."""
    patient = Truth(tuple(replace(fault, limit=DAY) for fault in facts.faults), facts.decoys)
    report: Report = judge(patient, lines, start=start, end=end, nodes=nodes)
    return report.outcomes[0].by


def when(instant: Ms) -> str:
    """`08:31:15`."""
    return format_time(instant)[11:19]
