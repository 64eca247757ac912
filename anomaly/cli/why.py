"""`anomaly why`: what was thought of a node at one moment, and so why it was paged, or was not."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anomaly.cli import options
from anomaly.cli.lookup import Told, node_called, paragraphs, told, wrapped
from anomaly.clock import HOUR, MINUTE, Ms, format_time
from anomaly.errors import UsageError

if TYPE_CHECKING:
    from anomaly.records import Incident

LOOK_BACK: Ms = 10 * MINUTE
"""How far back coverage is looked for (it is not kept for every tick), and how long a gap between ticks may be."""

LEAST_SCORE = 0.3
"""Scores below this are not kept."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """What was known about a node at the tick before a moment."""

    node: str
    at: Ms
    tick: Ms
    open: tuple[tuple["Incident", Row], ...]
    """Incidents that were open and touch the node, each as it was told then."""
    later: tuple["Incident", ...]
    """Those that had begun and fired only afterwards."""
    findings: tuple[Row, ...]
    dropped: tuple[Row, ...]
    """What rules had set aside at that tick."""
    scores: tuple[Row, ...]
    coverage: float | None
    layers: tuple[Row, ...] = ()
    """What was seen of each layer, and the verdict on it."""


@click.command("why")
@click.argument("node")
@click.option("--at", "at", type=options.Time(), metavar="TIME", help="The moment; without it, the newest tick.")
@options.state
@options.output
def command(node: str, at: Ms | None, state: Path, output: str) -> None:
    """Tell why a node was paged, or was not, at some time.

    Shows the incidents that touched it, what was past its boundary and which rule set it aside for what reason, the
    scores by symptom class, and how much of each layer of the node was seen at all. Reasons are kept as long as samples
    (`store.keep.samples`).
    """
    known = told(state)
    view = look(known, node_called(known, node), at)
    if output == "json":
        click.echo(json.dumps(_as_json(view), indent=2, ensure_ascii=False))
    else:
        click.echo(_text(view, state))


def look(known: Told, node: str, at: Ms | None) -> View:
    """What was known at the last tick at or before `at`. Raises UsageError for a time that was not judged."""
    from anomaly.records import Phase

    if known.through is None:
        raise UsageError("nothing has been scored yet", "wait for the first tick of the service")
    at = known.through if at is None else at
    ticks = [row["tick_at"] for row in known.rows("ticks", at - 24 * HOUR, at) if row["tick_at"] <= at]
    tick = max(ticks, default=None)
    if at > known.through + LOOK_BACK:
        raise UsageError(
            f"{format_time(at)} has not been judged yet: scored up to {format_time(known.through)}",
            "give an earlier --at",
        )
    if tick is None or at - tick > LOOK_BACK:
        last = f"the tick before was at {format_time(tick)}" if tick is not None else "no tick of that day is kept"
        raise UsageError(f"nothing was judged at {format_time(at)}: {last}", "give another --at")
    touching = [each for each in known.incidents if node in {each.entity.name, *each.nodes, *each.victims}]
    alive = [each for each in touching if each.fired_at <= tick and (each.resolved_at or tick + 1) > tick]
    then = []
    for incident in alive:
        lines = [line for when, line in known.events(incident.id) if when <= tick]
        if lines and lines[-1]["phase"] == Phase.FIRING:
            then.append((incident, lines[-1]))
    found = [row for row in known.rows("findings", tick - 40 * 24 * HOUR, tick) if row["name"] == node]
    dropped = [row for row in known.rows("dropped", tick, tick) if row["tick_at"] == tick and row["name"] == node]
    set_aside = {(*_key(row), row["onset"]) for row in dropped}
    slack = LOOK_BACK if then else 0
    lasting = [
        row
        for row in found
        if row["onset"] <= tick and (row["last"] + slack >= tick or (*_key(row), row["onset"]) in set_aside)
    ]
    scores = [row for row in known.rows("node_scores", tick, tick) if row["tick_at"] == tick and row["node"] == node]
    seen = [
        row
        for row in known.rows("coverage", tick - LOOK_BACK, tick)
        if row["name"] == node and tick - LOOK_BACK <= row["tick_at"] <= tick
    ]
    newest = max((row["tick_at"] for row in seen), default=None)
    layers = {row["layer"]: row for row in seen if row["tick_at"] == newest}
    overall = layers.pop("all", None)
    return View(
        node,
        at,
        tick,
        tuple(then),
        tuple(each for each in touching if each.onset <= tick < each.fired_at),
        tuple(sorted(lasting, key=lambda row: (-row["peak"], row["signal"], row["device"]))),
        tuple(dropped),
        tuple(sorted(scores, key=lambda row: -row["score"])),
        overall["ratio"] if overall else None,
        tuple(layers.values()),
    )


def _key(row: Row) -> tuple[str, str, str]:
    return (row["signal"], row["device"], row["detector"])


def reason_of(view: View, finding: Row) -> str:
    """What became of a finding at the tick, in words."""
    from anomaly.denoise.rules import REASONS

    if finding["confirmed"] > view.tick:
        return "not for long enough yet"
    for row in view.dropped:
        if _key(row) == _key(finding):
            because = f" ({row['because']})" if row["because"] else ""
            return f"set aside, {row['reason']}: {REASONS.get(row['reason'], 'an older rule')}{because}"
    own = [line for incident, line in view.open if incident.entity.name == view.node]
    if own:
        return "speaks in its incident"
    return "neither an incident nor a reason is known any more" if not view.open else "speaks in the incident above"


def verdict(view: View) -> str:
    """The answer in one sentence."""
    from anomaly.cli.tables import LEVELS

    own = [(incident, line) for incident, line in view.open if incident.entity.name == view.node]
    if own:
        incident, line = own[0]
        level = LEVELS[line["severity"]]
        what = "it was a note only, which nobody is told" if level == "note" else f"a {level} for it was open"
        return f"{what}: {incident.id}, {line['cause']}, since {line['onset']}, told {line['fired_at']}"
    for incident, line in view.open:
        level, where = LEVELS[line["severity"]], f"{incident.entity.kind} {incident.entity.name}"
        if view.node in line["nodes"]:
            return f"not by itself: it was part of the {level} on {where} ({incident.id})"
        if view.node in line["victims"]:
            return f"not to blame: it only waited for {where} ({incident.id}), for which a {level} was open"
    if view.later:
        first = min(view.later, key=lambda incident: incident.fired_at)
        return f"not yet: {first.id} on {first.entity.name} had begun and was told at {format_time(first.fired_at)}"
    if any(finding["confirmed"] <= view.tick for finding in view.findings):
        return "nobody was told: what was past its boundary had been set aside, for the reasons below"
    if view.findings:
        return "nobody was told: what was past its boundary had not been so for long enough"
    past = [row for row in view.scores if row["score"] >= 1]
    if past:
        return f"nobody was told: {_closest(past[0])}, and it did not last"
    if view.coverage is not None and view.coverage < 0.5:
        return f"nobody was told, and little can be said: only {view.coverage:.0%} of it was seen"
    if not view.scores:
        return f"nobody was told: nothing reached {LEAST_SCORE} of its boundary"
    return f"nobody was told: nothing was past its boundary; {_closest(view.scores[0])}"


def _closest(row: Row) -> str:
    signal, _, detector = row["detector"].partition(":")
    return f"the closest was {signal}{f' ({detector})' if detector else ''} at {row['score']:.2f} of it"


def _text(view: View, state: Path) -> str:
    from anomaly.cli.tables import WIDTH

    seen = "unknown" if view.coverage is None else f"{view.coverage:.0%} of what it should report"
    head = f"{view.node} at {format_time(view.at)}: {verdict(view)}"
    facts = f"judged at the tick of {format_time(view.tick)}; seen: {seen}{_layers(view)}"
    return paragraphs(
        [
            click.style(wrapped(head, width=WIDTH), bold=True) + "\n" + facts,
            _incidents(view),
            _findings(view),
            _scores(view),
            f"Next: anomaly explain {view.open[0][0].id}{_where(state)}" if view.open else "",
        ]
    )


def _layers(view: View) -> str:
    """`hardware faulty, system healthy, network unknown (0%)`: the share only where it is not all."""
    words = [
        f"{row['layer']} {row['verdict']}"
        + ("" if row["ratio"] == 1 else " (never seen)" if row["ratio"] is None else f" ({row['ratio']:.0%})")
        for row in view.layers
    ]
    return f"\nlayers: {', '.join(words)}" if words else ""


def _where(state: Path) -> str:
    return "" if state == Path("var") else f" --state {state}"


def _incidents(view: View) -> str:
    from anomaly.cli.tables import LEVELS, minute, table

    rows = []
    for incident, line in view.open:
        part = "culprit" if incident.entity.name == view.node else "member" if view.node in line["nodes"] else "victim"
        level = LEVELS[line["severity"]]
        rows.append([minute(incident.onset)[5:], level, incident.entity.name, line["cause"], part, incident.id])
    return table(["OPEN SINCE", "LEVEL", "WHERE", "CAUSE", "ITS PART", "ID"], rows, give=2) if rows else ""


def _findings(view: View) -> str:
    """One row for each signal, detector and what became of it; rows with the same reason stand together above it."""
    from anomaly.cli.tables import table

    groups: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for row in view.findings:
        groups.setdefault(reason_of(view, row), {}).setdefault((row["signal"], row["detector"]), []).append(row)
    rows = [
        [
            signal,
            found[0]["device"] if len(found) == 1 else f"{found[0]['device']} and {len(found) - 1} more",
            detector,
            f"{found[0]['peak']:.3g}",
            format_time(min(row["onset"] for row in found))[11:],
        ]
        for by_signal in groups.values()
        for (signal, detector), found in by_signal.items()
    ]
    if not rows:
        return ""
    head, *lines = table(["PAST ITS BOUNDARY", "DEVICE", "DETECTOR", "PEAK", "ONSET"], rows).splitlines()
    out = [head]
    for reason, by_signal in groups.items():
        out += lines[: len(by_signal)]
        lines = lines[len(by_signal) :]
        out.append(wrapped(reason, indent="    "))
    return "\n".join(out)


def _scores(view: View) -> str:
    from anomaly.cli.tables import table

    rows = [[row["symptom"], f"{row['score']:.2f}", row["detector"].replace(":", ", ")] for row in view.scores]
    return table(["SYMPTOM CLASS", "SCORE", "BY"], rows) if rows else ""


def _as_json(view: View) -> dict[str, Any]:
    return {
        "node": view.node,
        "at": format_time(view.at),
        "tick": format_time(view.tick),
        "verdict": verdict(view),
        "coverage": view.coverage,
        "layers": {row["layer"]: {"ratio": row["ratio"], "verdict": row["verdict"]} for row in view.layers},
        "incidents": [line for _, line in view.open],
        "later": [{"id": each.id, "fired_at": format_time(each.fired_at)} for each in view.later],
        "findings": [
            {
                **{
                    name: row[name]
                    for name in ("signal", "device", "detector", "cause", "peak", "observed", "expected")
                },
                "onset": format_time(row["onset"]),
                "confirmed": format_time(row["confirmed"]),
                "reason": next((drop["reason"] for drop in view.dropped if _key(drop) == _key(row)), None),
                "became": reason_of(view, row),
            }
            for row in view.findings
        ],
        "scores": [{name: row[name] for name in ("symptom", "score", "detector")} for row in view.scores],
    }
