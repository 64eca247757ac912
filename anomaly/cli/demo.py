"""`anomaly demo`: the whole thing on a simulated cluster."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anomaly.cli import options
from anomaly.cli.progress import progress
from anomaly.clock import MINUTE, Ms, format_time, parse_time

if TYPE_CHECKING:
    from anomaly.config.pipeline import Pipeline
    from anomaly.jobs.collect import Progress
    from anomaly.jobs.parts import Parts
    from anomaly.records import Incident
    from anomaly.source.simulated import Scenario
    from anomaly.truth import Report

START = parse_time("2026-06-01T07:30:00Z")
LENGTH: Ms = 150 * MINUTE
QUIET_END: Ms = 15 * MINUTE
"""No fault in the last minutes, so that the last one can be seen to end."""


@click.command("demo")
@options.output
def command(output: str) -> None:
    """Show the whole thing on a simulated cluster; no Prometheus needed.

    Two and a half hours of 32 nodes with 256 GPUs, four training jobs and six faults are collected, scored and folded
    into incidents in ./var/demo, afresh each time. It takes about a minute and always shows the same.
    """
    with progress() as shown:
        demo = run(_pipeline_file(), shown)
    click.echo(_json(demo) if output == "json" else _text(demo))


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo came to."""

    file: Path
    state: Path
    end: Ms
    lines: list[dict[str, Any]]
    report: "Report"
    alerts: str
    alerts_at: Ms


def run(file: Path, shown: "Progress") -> Demo:
    """Collect, score, publish and compare, through the code that a service runs."""
    from anomaly.config.load import load_pipeline
    from anomaly.jobs.carry import Live
    from anomaly.jobs.collect import collect
    from anomaly.jobs.deliver import deliver
    from anomaly.jobs.parts import open_pipeline_store, targets
    from anomaly.jobs.publish import publish
    from anomaly.jobs.score import score
    from anomaly.source.simulated import truth
    from anomaly.truth import judge, read_truth

    pipeline = load_pipeline(file)
    end = START + LENGTH
    parts, scenario = _parts(pipeline, end)
    _clear(pipeline)
    files = [target for target in targets(pipeline) if target.ref.kind == "jsonl"]
    with open_pipeline_store(pipeline) as store:
        collect(parts, store, end, start=START, end=end, progress=shown)
        refs = [target.ref for target in files]
        scored = score(parts, store, Live(), refs, end, start=START, end=end, progress=shown)
        deliver(store, files, end)
        publish(store, pipeline, end)
        lines = store.incident_events()
    facts = json.dumps(truth(scenario), indent=2)
    (pipeline.state_dir / "truth.json").write_text(facts + "\n", encoding="utf-8")
    nodes = len(scenario.cluster.nodes)
    report = judge(read_truth(facts, "truth.json"), lines, start=START, end=end, nodes=nodes)
    alerts, at = _alerts(scored.changes)
    return Demo(file, pipeline.state_dir, end, lines, report, alerts, at)


def _parts(pipeline: "Pipeline", end: Ms) -> tuple["Parts", "Scenario"]:
    """The pipeline's parts with a cluster that lives from START to `end`, its faults within."""
    from anomaly.jobs.parts import assemble, topology_of_csv
    from anomaly.source.simulated import Scenario, SimulatedSource, make_cluster, place_faults, topology_csv

    wanted = pipeline.simulate
    assert wanted is not None, "the demo's pipeline simulates its cluster"
    cluster = make_cluster(wanted.seed, wanted.nodes, 8, 4)
    kinds = wanted.faults if isinstance(wanted.faults, int) else list(wanted.faults)
    faults = place_faults(cluster, wanted.seed, kinds, START, end - QUIET_END)
    scenario = Scenario(cluster, faults, START, end, wanted.step, wanted.seed)
    parts = assemble(pipeline, lambda: end)
    topology = topology_of_csv(topology_csv(cluster))
    return replace(parts, source=SimulatedSource(scenario), topology=topology), scenario


def _clear(pipeline: "Pipeline") -> None:
    """Remove what an earlier demo left, and nothing else. Raises StoreLocked while another one is running."""
    from contextlib import suppress

    from anomaly.errors import StoreError, StoreLocked
    from anomaly.jobs.parts import PUBLISHED, open_pipeline_store

    database = pipeline.store.path
    if database.exists():
        try:
            open_pipeline_store(pipeline).close()
        except StoreLocked:
            raise
        except StoreError:
            pass  # damaged or of another version: it goes anyway
    stale = [database, database.with_name(f"{database.name}.wal"), *([pipeline.jsonl.path] if pipeline.jsonl else [])]
    for path in stale:
        with suppress(FileNotFoundError):
            path.unlink()
    shutil.rmtree(pipeline.state_dir / PUBLISHED, ignore_errors=True)


def _alerts(changes: tuple["Incident", ...]) -> tuple[str, Ms]:
    """What Alertmanager would hold at the last page: it fires, and what came before has resolved or fires still."""
    from anomaly.deliver.entries import dry_run
    from anomaly.records import Phase, Severity

    loud = [c.updated_at for c in changes if c.phase is Phase.FIRING and c.severity is not Severity.INFO]
    at = max(loud, default=0)
    return dry_run([change for change in changes if change.updated_at <= at], now=at), at


def _pipeline_file() -> Path:
    """`demo.yaml` as installed, or the one of the checkout that this is run from."""
    from anomaly.errors import ConfigError

    package = Path(__file__).parents[1]
    for folder in (package / "_starter" / "pipelines", package.parent / "pipelines"):
        if (folder / "demo.yaml").is_file():
            return folder / "demo.yaml"
    raise ConfigError("this installation lacks pipelines/demo.yaml", "install anomaly again")


def _json(demo: Demo) -> str:
    """As `anomaly backtest` says it, and what Alertmanager would hold."""
    from anomaly.cli.tables import latest

    body = {
        "start": format_time(START),
        "end": format_time(demo.end),
        "incidents": latest(demo.lines),
        "truth": demo.report.to_json(),
        "alerts": json.loads(demo.alerts),
    }
    return json.dumps(body, indent=2, ensure_ascii=False)


def _text(demo: Demo) -> str:
    from anomaly.cli.comparison import comparison
    from anomaly.cli.tables import incident_table, latest

    state = demo.state
    incidents = incident_table(latest(demo.lines))
    return f"""\
What Alertmanager would hold at {format_time(demo.alerts_at)}, the last time it was told of something new:

{demo.alerts}

What was found in a simulated cluster from {format_time(START)} to {format_time(demo.end)}:

{incidents}

{comparison(demo.report)}

Data: {state}/anomaly.duckdb, {state}/published/ (Parquet), {state}/incidents.jsonl, {state}/truth.json
Next: anomaly incidents --state {state}
      anomaly check pipelines/gpu-cluster.yaml --against    (put your Prometheus' address in first)"""
