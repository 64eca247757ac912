"""The comparison with the truth, for people."""

from anomaly.cli.tables import LEVELS, minute, span, table
from anomaly.clock import format_time
from anomaly.truth import Outcome, Rate, Report
from anomaly.truth.figures import BASE_RATE

_WHY = {
    "victim": "victim blamed: it only suffers from {}",
    "late": "too late for {}",
    "repeat": "{} had been found already",
    "decoy": "looks like a fault, is a {}",
    "false": "nothing is wrong there",
}


def comparison(report: Report) -> str:
    """What was found, what should not have alerted, and the figures."""
    due = len(report.found) + len(report.missed)
    parts = [f"Against the truth: {len(report.found)} of {due} faults found, {_blamed(report)}, {_false(report)}"]
    if report.outcomes:
        parts.append(table(["FAULT", "TYPE", "WHERE", "ONSET (UTC)", "RESULT", "AFTER", "LIMIT", "CAUSE"],
                           [_outcome(outcome) for outcome in report.outcomes], give=2))  # fmt: skip
    if report.wrong:
        rows = [
            [minute(w.alert.at), w.alert.loud, w.alert.where, w.alert.cause, _WHY[w.kind].format(w.because)]
            for w in report.wrong
        ]
        parts.append("Should not have alerted:\n" + table(["AT (UTC)", "LEVEL", "WHERE", "CAUSE", "WHY"], rows))
    parts.append("\n".join(_figures(report)))
    return "\n\n".join(parts)


def _outcome(outcome: Outcome) -> list[str]:
    fault, by = outcome.fault, outcome.by
    cause = "" if by is None else by.cause if outcome.cause_right in (True, None) else f"{by.cause}, not right"
    return [
        fault.id,
        fault.type,
        fault.where,
        format_time(fault.onset)[:19].replace("T", " "),
        f"found ({by.loud})" if by else outcome.status.upper() if outcome.status == "missed" else outcome.status,
        span(by.at - fault.onset) if by else "",
        span(fault.limit),
        cause,
    ]


def _blamed(report: Report) -> str:
    victims = len(report.victims)
    return "no victim blamed" if not victims else f"{victims} victim{'s' * (victims > 1)} blamed"


def _false(report: Report) -> str:
    pages, tickets = len(report.false("page")), len(report.false("ticket"))
    if not pages + tickets:
        return "nothing false"
    return f"{pages} false page{'s' * (pages != 1)} and {tickets} false ticket{'s' * (tickets != 1)}"


def _figures(report: Report) -> list[str]:
    told = [outcome.cause_right for outcome in report.found if outcome.cause_right is not None]
    median, late = report.delay_seconds(0.5), report.delay_seconds(0.9)
    recall = f"recall {_percent(report.recall)}{_between(report.recall_interval)}"
    precision = f"precision {_percent(report.precision)}{_between(report.precision_interval)}"
    lines = [f"{recall}, {precision}, F1 {_number(report.f1)}"]
    if median is not None and late is not None:
        lines.append(f"found after {span(round(median * 1000))} (median), {span(round(late * 1000))} (p90)")
        lines[-1] += f"; cause right {sum(told)} of {len(told)}" if told else ""
    due = len(report.found) + len(report.missed)
    alerts = f"{report.pages} {_many(LEVELS['critical'], report.pages)}"
    alerts += f" and {report.tickets} {_many(LEVELS['warning'], report.tickets)}"
    lines.append(f"{alerts} in all" + (f", {report.pages / due:.1f} pages a fault" if due else ""))
    for name, wrong in (("false pages", report.false("page")), ("false tickets", report.false("ticket"))):
        lines.append(f"{name} per 100 node-days: {_rate(report.rate(len(wrong)))} in {report.node_days:.2f} node-days")
    at, worst, best = report.precision_in_the_field
    if at is not None:
        lines.append(
            f"precision where faults are as rare as in the field ({BASE_RATE} per 100 node-days): {_percent(at)}, "
            f"95 % interval {_percent(worst)} to {_percent(best)}"
        )
    return lines


def _rate(rate: Rate) -> str:
    if rate.per_100_node_days is None or rate.low is None or rate.high is None:
        return "unknown"
    return f"{rate.per_100_node_days:.2f} (95 % interval {rate.low:.2f} to {rate.high:.2f})"


def _between(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f" ({100 * interval[0]:.0f} to {_percent(interval[1])})"


def _many(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.0f} %"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
