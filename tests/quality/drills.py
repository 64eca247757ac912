"""Drills on reporting seeds: ours through the production tick, the plain rivals on the same readings."""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from anomaly.drill import Drilled, drill, stage
from anomaly.drill.run import TICKETS_ALLOWED, verdict_on
from anomaly.source.simulated import FAULT_TYPES, NOISE_TYPES, truth
from anomaly.source.simulated.faults import KINDS
from anomaly.truth import read_truth
from tests.quality.rivals import RIVALS, lines_of, readings_of

OURS = "anomaly"
QUICK = (
    "thermal_throttle", "nic_degradation", "gpu_lost", "storage_latency", "pcie_degraded", "power_brake_shared",
    "link_flap", "quiet", "job_start_and_end", "pipeline_stage",
)  # fmt: skip
"""The quick form: these, at one effect."""
QUICK_EFFECT = 0.2
ORDER = (0.2, 0.1, 0.4, 0.05)
"""The effects, in the order in which they are run."""


@dataclass(frozen=True)
class Task:
    name: str
    seed: int
    effect: float | None


def tasks(names: Iterable[str], seeds: Sequence[int], effects: Sequence[float]) -> list[Task]:
    """Every drill at every seed; at every effect where it slows its job by what is asked of it. Every drill comes at
    its first effect before any comes at its second, so that a run that is cut short has seen all kinds."""
    chosen = list(names)

    def asked(name: str) -> Sequence[float | None]:
        return effects if name in KINDS and KINDS[name].slows else (None,)

    return [
        Task(name, seed, asked(name)[turn])
        for seed in seeds
        for turn in range(len(effects))
        for name in chosen
        if turn < len(asked(name))
    ]


def planned(seeds: Sequence[int], quick: bool) -> list[Task]:
    return tasks(QUICK, seeds, (QUICK_EFFECT,)) if quick else tasks((*FAULT_TYPES, *NOISE_TYPES), seeds, ORDER)


Told = Mapping[str, Any]
"""What somebody (`who`) made of a drill: `Drilled.to_json()`, what was asked for, and its node-days."""


def run_one(task: Task) -> list[Told]:
    """One drill: ours first, then every rival."""
    out = [_told(OURS, task, drill(task.name, task.seed, task.effect))]
    made = stage(task.name, task.seed, task.effect)
    facts = read_truth(json.dumps(truth(made.scenario)), "truth.json")
    seen = readings_of(made)
    for who, judge in RIVALS.items():
        out.append(_told(who, task, verdict_on(made, facts, lines_of(seen, judge(seen, task.seed)))))
    return out


def _told(who: str, task: Task, drilled: Drilled) -> Told:
    return {"who": who, **asdict(task), "node_days": drilled.node_days, **drilled.to_json(), "effect": task.effect}


def run(
    todo: Sequence[Task], kept: Path, workers: int, said: Callable[[str], None], minutes: float | None = None
) -> list[Told]:
    """What everybody made of all drills, in the order of the tasks, whatever the number of workers.

    Every drill is written to `kept` when it is over, and what stands there is not run again: a night's run that was
    cut short goes on. After `minutes` no more is begun; the answer then lacks what was not run. The caller names the
    file after the code that is judged.
    """
    done = _kept(kept)
    open_ones = [task for task in todo if task not in done] if minutes is None or minutes > 0 else []
    until = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    kept.parent.mkdir(parents=True, exist_ok=True)
    with (
        kept.open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread) as pool,
    ):
        running = {pool.submit(run_one, task): task for task in open_ones}
        for count, future in enumerate(as_completed(running), 1):
            if future.cancelled():
                continue
            done[running[future]] = future.result()
            file.write(json.dumps(future.result()) + "\n")
            file.flush()
            if count % 20 == 0 or count == len(open_ones):
                said(f"drills: {count} of {len(open_ones)}")
            if time.monotonic() > until:
                for waiting in running:
                    waiting.cancel()
    return [told for task in todo for told in done.get(task, [])]


def _kept(file: Path) -> dict[Task, list[Told]]:
    if not file.exists():
        return {}
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {Task(told[0]["name"], told[0]["seed"], told[0]["effect"]): told for told in lines}


def _one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"


def wrong_of(told: Told) -> list[Mapping[str, str]]:
    """What should not have alerted; tickets that a noise allows are none."""
    allowed = told["expected"]["expect"] == "nothing" and told["name"] in TICKETS_ALLOWED
    return [each for each in told["wrong"] if not (allowed and each["level"] == "ticket")]
