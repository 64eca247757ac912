"""What was found, missed and wrongly blamed, against the truth about a stretch of time. Pure.

An *alert* is a rise of an incident's severity to warning (a ticket) or critical (a page). Matching is one to one, and
finds as many faults as it can:

* a node fault is found by an alert on a culprit node, a shared or job fault by one on its group, or by one on a group
  or job that covers most of its members and little else, between onset and min(end, onset + max_delay), both included;
* further alerts of that incident while the fault lasts follow from it and are not judged;
* an alert for a node that only suffers from a fault then active is a *victim blamed*; every other one is false, one
  that comes late or a second time included. Alerts of one incident that are wrong count once, at their loudest.

A fault that began before the range, or whose limit lies beyond it unfound, is not judged, and excuses alerts on it.
Where either a page or a ticket is welcome (`expect: ticket`), a late one is excused too, though the fault is missed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anomaly.clock import Ms, parse_time
from anomaly.truth.facts import Fault, Truth
from anomaly.truth.figures import Alert, Kind, Loud, Outcome, Report, Wrong

_RANKS = {"info": 0, "warning": 1, "critical": 2}


@dataclass(slots=True)
class _Case:
    """One incident: what it said when, and its alerts."""

    said: list[tuple[Ms, tuple[str, ...], str]] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)


def judge(truth: Truth, lines: Iterable[Mapping[str, Any]], *, start: Ms, end: Ms, nodes: int) -> Report:
    """Compare the contract's JSON lines (several of one id are one incident growing) with the truth in [start, end].

    `nodes` is the size of the cluster, for rates. Raises KeyError or ValueError for lines that are none.
    """
    cases = _cases(lines)
    alerts = sorted(
        (alert for case in cases.values() for alert in case.alerts if start <= alert.at <= end),
        key=lambda alert: (alert.at, alert.incident),
    )
    due = sorted(
        (fault for fault in truth.faults if fault.expect != "none" and start <= fault.onset < end),
        key=lambda fault: (fault.onset, fault.id),
    )
    pairs = _pair(due, alerts, cases)
    undecided = [
        fault
        for fault in truth.faults
        if fault.expect != "none" and (fault.onset < start or (fault.id not in pairs and fault.deadline > end))
    ]
    outcomes = []
    for fault in sorted(truth.faults, key=lambda fault: (fault.onset, fault.id)):
        by = pairs.get(fault.id)
        if by is not None:
            outcomes.append(Outcome(fault, "found", _as_last_said(by, fault, cases[by.incident])))
        elif fault in undecided or fault not in due:
            outcomes.append(Outcome(fault, "not judged"))
        else:
            outcomes.append(Outcome(fault, "missed"))
    wrong = _wrong(truth, alerts, cases, pairs, undecided)
    pages = sum(alert.loud == "page" for alert in alerts)
    return Report(start, end, nodes, tuple(outcomes), tuple(wrong), pages, len(alerts) - pages)


def _cases(lines: Iterable[Mapping[str, Any]]) -> dict[str, _Case]:
    cases: dict[str, _Case] = {}
    loudest: dict[str, int] = {}
    for line in sorted(lines, key=lambda line: parse_time(line["updated_at"])):
        name, at = str(line["id"]), parse_time(line["updated_at"])
        first = name not in cases
        case = cases.setdefault(name, _Case())
        case.said.append((at, tuple(line["nodes"]), str(line["cause"])))
        before = line["previous_severity"]
        rises = [(line["severity"], at)]
        if first and before is None:  # later lines of a longer story: it was this loud from the beginning
            rises = [(line["severity"], parse_time(line["fired_at"]))]
        elif first:
            rises.insert(0, (before, parse_time(line["fired_at"])))
        for severity, when in rises:
            rank = _RANKS[severity]
            if rank > loudest.get(name, 0):
                loudest[name] = rank
                case.alerts.append(_alert(line, when, "page" if rank == 2 else "ticket"))
    return cases


def _alert(line: Mapping[str, Any], at: Ms, loud: Loud) -> Alert:
    where = line["node"] if line["scope"] == "node" else line["group"]
    onset = parse_time(line["onset"])
    return Alert(line["id"], at, loud, line["scope"], str(where), tuple(line["nodes"]), line["cause"], onset)


def _on(fault: Fault, alert: Alert, case: _Case) -> bool:
    """Whether the alert is about this fault, leaving time aside."""
    if fault.scope == "node":
        return alert.scope == "node" and alert.where in fault.culprits
    if alert.scope == "node":
        return False
    if fault.group is not None and alert.where == fault.group:
        return True
    last = max(alert.at, fault.deadline)
    named = {node for at, nodes, _ in case.said if at <= last for node in nodes} | set(alert.nodes)
    both = len(named & set(fault.nodes))
    return both * 2 > len(fault.nodes) and both * 2 > len(named)


def _pair(due: Sequence[Fault], alerts: Sequence[Alert], cases: Mapping[str, _Case]) -> dict[str, Alert]:
    """As many faults as possible, each with one alert of its own, the earliest that leaves the others theirs."""
    edges = [
        [i for i, a in enumerate(alerts) if f.onset <= a.at <= f.deadline and _on(f, a, cases[a.incident])] for f in due
    ]
    taken: dict[int, int] = {}

    def place(fault: int, tried: set[int]) -> bool:
        for alert in edges[fault]:
            if alert not in tried:
                tried.add(alert)
                if alert not in taken or place(taken[alert], tried):
                    taken[alert] = fault
                    return True
        return False

    for fault in range(len(due)):
        place(fault, set())
    return {due[fault].id: alerts[alert] for alert, fault in taken.items()}


def _as_last_said(by: Alert, fault: Fault, case: _Case) -> Alert:
    during = [said for said in case.said if by.at <= said[0] <= fault.end]
    nodes, cause = during[-1][1:] if during else (by.nodes, by.cause)
    paged = any(alert.loud == "page" and by.at <= alert.at <= fault.end for alert in case.alerts)
    return Alert(by.incident, by.at, "page" if paged else by.loud, by.scope, by.where, nodes, cause, by.onset)


def _wrong(
    truth: Truth,
    alerts: Sequence[Alert],
    cases: Mapping[str, _Case],
    pairs: Mapping[str, Alert],
    undecided: Sequence[Fault],
) -> list[Wrong]:
    explains: dict[str, list[Fault]] = {}
    for fault in truth.faults:
        if fault.id in pairs:
            explains.setdefault(pairs[fault.id].incident, []).append(fault)
    excusing = [*undecided, *(fault for fault in truth.faults if fault.expect == "ticket" and fault.id not in pairs)]
    judged: dict[str, Wrong] = {}
    for alert in alerts:
        case = cases[alert.incident]
        follows = any(fault.active(alert.at) for fault in explains.get(alert.incident, ()))
        if follows or any(fault.active(alert.at) and _on(fault, alert, case) for fault in excusing):
            continue
        now = _classify(truth, alert, case, pairs)
        before = judged.get(alert.incident)
        if before is not None:  # one wrong incident, at its loudest; a victim stays one
            kept = before if before.kind == "victim" else now
            now = Wrong(alert, kept.kind, kept.because)
        judged[alert.incident] = now
    return sorted(judged.values(), key=lambda wrong: (wrong.alert.at, wrong.alert.incident))


def _classify(truth: Truth, alert: Alert, case: _Case, pairs: Mapping[str, Alert]) -> Wrong:
    active = [fault for fault in truth.faults if fault.active(alert.at)]
    about = [fault for fault in active if _on(fault, alert, case)]
    if about:
        due = about[0].expect != "none"
        kind: Kind = ("repeat" if about[0].id in pairs else "late") if due else "false"
        return Wrong(alert, kind, about[0].id)
    if alert.scope == "node":
        suffers = [fault for fault in active if alert.where in fault.nodes and alert.where not in fault.culprits]
        if suffers:
            return Wrong(alert, "victim", suffers[0].id)
    named = {alert.where} if alert.scope == "node" else set(alert.nodes)
    for decoy in truth.decoys:
        if decoy.start <= alert.at <= decoy.end and 2 * len(named & set(decoy.nodes)) > len(named):
            return Wrong(alert, "decoy", decoy.type)
    return Wrong(alert, "false")
