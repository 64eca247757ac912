"""`anomaly report`: how much was told in a period, what people thought of it, and what was left unsaid."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anomaly.cli import options
from anomaly.cli.lookup import Told, paragraphs, told, wrapped
from anomaly.clock import DAY, Ms, format_time

if TYPE_CHECKING:
    from anomaly.records import Incident

WEEK: Ms = 7 * DAY
KINDS = (("page", "pages"), ("ticket", "tickets"))
VERDICTS = ("healthy", "suspect", "faulty", "unknown")
LAYERS = ("hardware", "system", "network", "storage", "training")


@click.command("report")
@click.option("--days", type=click.IntRange(min=1), default=7, show_default=True, help="How far to look back.")
@click.option("--pipeline", type=options.PATH, metavar="FILE", help="Compare with the budget of this pipeline file.")
@options.state
@options.output
def command(days: int, pipeline: Path | None, state: Path, output: str) -> None:
    """Sum up a period: incidents, pages and tickets a node-day, labels, what was set aside and why; and how the nodes
    stand now, layer by layer: healthy, suspect, faulty, or unknown where too little is seen of them.

    What the budget of false pages has been spent on is known only where people label incidents (`anomaly mark`); the
    figures are given with their exact 95 % Poisson intervals, since a few events say little.
    """
    known = told(state)
    budget = _budget(pipeline) if pipeline else {}
    found = figures(known, days, budget)
    click.echo(json.dumps(found, indent=2, ensure_ascii=False) if output == "json" else _text(found))


def _budget(file: Path) -> dict[str, float]:
    from anomaly.config.load import load_pipeline

    budget = load_pipeline(file).budget
    return {"page": budget.false_pages_per_week, "ticket": budget.false_tickets_per_week}


def figures(known: Told, days: int, budget: dict[str, float]) -> dict[str, Any]:
    """Everything the report says, as plain JSON values. The period is what was judged of the last `days`."""
    through = known.through or 0
    begin = through - days * DAY
    ticks = [row for row in known.rows("ticks", begin, through) if begin < row["tick_at"] <= through]
    start = max(begin, min((row["tick_at"] for row in ticks), default=through))
    names, covered = _covered(known, start, through)
    names = names or known.nodes()
    node_days = len(names) * (through - start) / DAY
    weeks = (through - start) / WEEK
    labels = known.labels()
    incidents = [each for each in known.incidents if start < each.fired_at <= through]
    return {
        "start": format_time(start),
        "end": format_time(through),
        "nodes": len(names),
        "node_days": round(node_days, 3),
        "incidents": len(incidents),
        "open": sum(each.resolved_at is None for each in known.incidents),
        "by_level": {level: _level(incidents, level, node_days) for level, _ in KINDS}
        | {"note": {"count": sum(each.severity.rank == 0 for each in incidents)}},
        "by_cause": _by_cause(incidents),
        "labels": dict(
            sorted(Counter(labels.get(each.id, "none") for each in incidents if each.severity.rank).items())
        ),
        "false": {level: _false(incidents, level, labels, weeks, budget.get(level)) for level, _ in KINDS},
        "layers": _layers(covered),
        "dropped": _dropped(ticks),
        "ticks": len(ticks),
    }


def _level(incidents: list["Incident"], level: str, node_days: float) -> dict[str, Any]:
    return _rate(sum(_is(each, level) for each in incidents), 100 / node_days if node_days else None)


def _is(incident: "Incident", level: str) -> bool:
    from anomaly.cli.tables import LEVELS

    return LEVELS[incident.severity] == level


def _rate(count: int, scale: float | None) -> dict[str, Any]:
    """A count and its rate, with the exact interval; rates are null where nothing was judged."""
    from anomaly.truth.figures import poisson_interval

    if scale is None:
        return {"count": count, "rate": None, "low": None, "high": None}
    low, high = poisson_interval(count)
    return {"count": count, "rate": count * scale, "low": low * scale, "high": high * scale}


def _false(
    incidents: list["Incident"], level: str, labels: dict[str, str], weeks: float, budget: float | None
) -> dict[str, Any]:
    """What was labelled false, a week; `at_most` adds what nobody has labelled."""
    those = [each for each in incidents if _is(each, level)]
    false = sum(labels.get(each.id) == "false" for each in those)
    unlabelled = sum(each.id not in labels for each in those)
    scale = 1 / weeks if weeks else None
    return {
        "a_week": _rate(false, scale),
        "unlabelled": unlabelled,
        "at_most": _rate(false + unlabelled, scale),
        "budget": budget,
    }


def _by_cause(incidents: list["Incident"]) -> dict[str, int]:
    return dict(Counter(each.cause for each in incidents if each.severity.rank).most_common())


def _covered(known: Told, start: Ms, through: Ms) -> tuple[set[str], list[dict[str, Any]]]:
    """Every node that was looked at, and the rows of the newest look. A week has millions: columns, no loops."""
    import pyarrow.compute as pc

    from anomaly.store.published import read_table

    rows = read_table(known.directory, "coverage", start, through)
    if rows is None:
        return set(), []
    rows = rows.filter(pc.equal(rows["kind"], "node"))
    newest = rows.filter(pc.equal(rows["tick_at"], pc.max(rows["tick_at"])))
    return set(rows["name"].unique().to_pylist()), newest.to_pylist()


def _layers(covered: list[dict[str, Any]]) -> dict[str, Any]:
    """Layer → how many nodes have which verdict, and which ones nothing can be said of."""
    out: dict[str, Any] = {}
    for row in covered:
        layer = out.setdefault(row["layer"], {**dict.fromkeys(VERDICTS, 0), "unknown_nodes": []})
        layer[row["verdict"]] = layer.get(row["verdict"], 0) + 1
        if row["verdict"] == "unknown":
            layer["unknown_nodes"].append(row["name"])
    return {layer: out[layer] for layer in (*LAYERS, "all") if layer in out}


def _dropped(ticks: list[dict[str, Any]]) -> dict[str, int]:
    out: Counter[str] = Counter()
    for row in ticks:
        out.update(json.loads(row["dropped"]))
    return dict(out.most_common())


def _text(found: dict[str, Any]) -> str:
    from anomaly.cli.tables import table
    from anomaly.denoise.rules import REASONS

    head = (
        f"{found['start']} to {found['end']}: {found['nodes']} nodes, {found['node_days']:.1f} node-days; "
        f"{found['incidents']} incident{'' if found['incidents'] == 1 else 's'}, {found['open']} open now"
    )
    rows = []
    for level, plural in KINDS:
        told_of, false = found["by_level"][level], found["false"][level]
        rows.append(
            [
                plural,
                str(told_of["count"]),
                _interval(told_of),
                str(false["a_week"]["count"]),
                str(false["unlabelled"]),
                _interval(false["a_week"]),
            ]
        )
    rows.append(["notes", str(found["by_level"]["note"]["count"])] + [""] * 4)
    headers = ["", "COUNT", "PER 100 NODE-DAYS (95 %)", "FALSE", "UNLABELLED", "FALSE A WEEK (95 %)"]
    reasons = [[reason, str(count), REASONS.get(reason, "")] for reason, count in found["dropped"].items()]
    causes = ", ".join(f"{cause} {count}" for cause, count in found["by_cause"].items())
    labels = ", ".join(f"{label} {count}" for label, count in found["labels"].items())
    return paragraphs(
        [
            wrapped(head),
            table(headers, rows),
            "\n".join(_spent(found, level, plural) for level, plural in KINDS),
            wrapped(f"causes: {causes}") if causes else "",
            wrapped(f"labels: {labels}") if labels else "",
            table(["SET ASIDE", "FINDINGS × TICKS", "WHY"], reasons) if reasons else "",
            _seen(found["layers"]),
        ]
    )


def _seen(layers: dict[str, Any]) -> str:
    """Nodes by layer and verdict, as of the newest look."""
    from anomaly.cli.tables import table

    rows = [
        [layer, *(str(layers[layer][verdict]) for verdict in VERDICTS), _few(layers[layer]["unknown_nodes"])]
        for layer in layers
    ]
    return table(["NODES NOW", *(word.upper() for word in VERDICTS), "NOTHING KNOWN OF"], rows) if rows else ""


def _few(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _interval(rate: dict[str, Any]) -> str:
    return "" if rate["rate"] is None else f"{rate['rate']:.2f} ({rate['low']:.2f} to {rate['high']:.2f})"


def _spent(found: dict[str, Any], level: str, plural: str) -> str:
    """What can be said of the budget, and what labels are missing for it."""
    false = found["false"][level]
    seen, most, budget = false["a_week"], false["at_most"], false["budget"]
    if seen["rate"] is None:
        return f"false {plural}: nothing was judged"
    text = f"false {plural}: {seen['rate']:.2f} a week by label"
    if false["unlabelled"]:
        text += f", at most {most['rate']:.2f} with the {false['unlabelled']} that nobody has labelled"
    if budget is not None:
        text += f"; the budget is {budget:g} a week: {_judged(seen, most, budget)}"
    return wrapped(text)


def _judged(seen: dict[str, Any], most: dict[str, Any], budget: float) -> str:
    if seen["low"] > budget:
        return "it is overspent"
    if most["high"] <= budget:
        return "it is kept"
    return "these few events cannot tell whether it is kept"
