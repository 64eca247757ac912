"""The comparison with the truth as records, and the figures that follow from it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from anomaly.clock import DAY, Ms, format_time
from anomaly.truth.facts import Fault

BASE_RATE = 0.42
"""Hardware faults per 100 node-days: 584 on 400 GPU servers in 348 days, a published fault trace."""

Loud = Literal["page", "ticket"]
Kind = Literal["victim", "false", "late", "repeat", "decoy"]
"""Why an alert is wrong; all but `victim` are false, the last three with a reason."""


@dataclass(frozen=True, slots=True)
class Alert:
    """An incident becoming a ticket or a page. `cause` and `nodes` are what it said by the time it was looked at."""

    incident: str
    at: Ms
    loud: Loud
    scope: str
    where: str
    nodes: tuple[str, ...]
    cause: str
    onset: Ms


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one fault."""

    fault: Fault
    status: Literal["found", "missed", "not judged"]
    by: Alert | None = None
    """The alert that found it: its time counts; its loudness and cause are the last while the fault lasted."""

    @property
    def delay_seconds(self) -> float | None:
        return None if self.by is None else (self.by.at - self.fault.onset) / 1000

    @property
    def cause_right(self) -> bool | None:
        if self.by is None or self.fault.cause_family is None:
            return None
        return self.by.cause == self.fault.cause_family


@dataclass(frozen=True, slots=True)
class Wrong:
    """An incident that should not have alerted (then)."""

    alert: Alert
    kind: Kind
    because: str = ""
    """The fault it suffers from, or the decoy it fell for."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A count as a rate per 100 node-days, with its exact 95 % Poisson interval."""

    count: int
    per_100_node_days: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """The comparison and its figures. A figure that has nothing to stand on is None, never 0 or 1."""

    start: Ms
    end: Ms
    nodes: int
    outcomes: tuple[Outcome, ...]
    wrong: tuple[Wrong, ...] = ()
    pages: int = 0
    tickets: int = 0
    """All alerts in the range by loudness; an incident that opens as a ticket and becomes a page is one of each."""

    @property
    def found(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.status == "found"]

    @property
    def missed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.status == "missed"]

    @property
    def victims(self) -> list[Wrong]:
        return [wrong for wrong in self.wrong if wrong.kind == "victim"]

    def false(self, loud: Loud | None = None) -> list[Wrong]:
        """What was wrong and no victim: all, pages only or tickets only."""
        return [wrong for wrong in self.wrong if wrong.kind != "victim" and loud in (None, wrong.alert.loud)]

    @property
    def recall(self) -> float | None:
        return _ratio(len(self.found), len(self.found) + len(self.missed))

    @property
    def precision(self) -> float | None:
        return _ratio(len(self.found), len(self.found) + len(self.wrong))

    @property
    def f1(self) -> float | None:
        right = 2 * len(self.found)
        return _ratio(right, right + len(self.missed) + len(self.wrong))

    @property
    def recall_interval(self) -> tuple[float, float] | None:
        """95 %, exact; None where nothing was due."""
        due = len(self.found) + len(self.missed)
        return binomial_interval(len(self.found), due) if due else None

    @property
    def precision_interval(self) -> tuple[float, float] | None:
        """95 %, exact; None where nothing alerted."""
        said = len(self.found) + len(self.wrong)
        return binomial_interval(len(self.found), said) if said else None

    @property
    def node_days(self) -> float:
        return self.nodes * (self.end - self.start) / DAY

    def rate(self, count: int) -> Rate:
        """`count` events of this range per 100 node-days."""
        if self.node_days <= 0:
            return Rate(count, None, None, None)
        low, high = poisson_interval(count)
        scale = 100 / self.node_days
        return Rate(count, count * scale, low * scale, high * scale)

    @property
    def precision_in_the_field(self) -> tuple[float | None, float | None, float | None]:
        """Precision where faults are as rare as in the field (`BASE_RATE`), at the rate of false alerts seen here and
        at the two ends of its interval (worst, best). Victims come with faults, false alerts with time."""
        due = len(self.found) + len(self.missed)
        rate = self.rate(len(self.false()))
        if not due or rate.per_100_node_days is None or rate.low is None or rate.high is None:
            return None, None, None
        right = BASE_RATE * len(self.found) / due
        blamed = BASE_RATE * len(self.victims) / due
        at, worst, best = (_ratio(right, right + blamed + f) for f in (rate.per_100_node_days, rate.high, rate.low))
        return at, worst, best

    def delay_seconds(self, share: float) -> float | None:
        """The delay that `share` of the found faults did not exceed (nearest rank)."""
        delays = sorted(o.delay_seconds for o in self.outcomes if o.delay_seconds is not None)
        return delays[max(0, math.ceil(share * len(delays)) - 1)] if delays else None

    @property
    def cause_accuracy(self) -> float | None:
        told = [outcome.cause_right for outcome in self.found if outcome.cause_right is not None]
        return _ratio(sum(told), len(told))

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON values, times in RFC 3339."""
        field_at, worst, best = self.precision_in_the_field
        rates = {"false_pages": self.false("page"), "false_tickets": self.false("ticket"), "victims": self.victims}
        return {
            "start": format_time(self.start),
            "end": format_time(self.end),
            "nodes": self.nodes,
            "node_days": self.node_days,
            "faults": len(self.outcomes),
            "found": len(self.found),
            "missed": len(self.missed),
            "not_judged": len(self.outcomes) - len(self.found) - len(self.missed),
            "recall": self.recall,
            "recall_interval": self.recall_interval and list(self.recall_interval),
            "precision": self.precision,
            "precision_interval": self.precision_interval and list(self.precision_interval),
            "f1": self.f1,
            "victims_blamed": len(self.victims),
            "false_pages": len(self.false("page")),
            "false_tickets": len(self.false("ticket")),
            "decoy_hits": sum(wrong.kind == "decoy" for wrong in self.wrong),
            "pages": self.pages,
            "tickets": self.tickets,
            "pages_per_fault": _ratio(self.pages, len(self.found) + len(self.missed)),
            "delay_seconds": {"median": self.delay_seconds(0.5), "p90": self.delay_seconds(0.9)},
            "cause_accuracy": self.cause_accuracy,
            "per_100_node_days": {name: _rate_json(self.rate(len(found))) for name, found in rates.items()},
            "field": {
                "faults_per_100_node_days": BASE_RATE,
                "precision": field_at,
                "precision_low": worst,
                "precision_high": best,
            },
            "outcomes": [_outcome_json(outcome) for outcome in self.outcomes],
            "wrong": [{**_alert_json(w.alert), "kind": w.kind, "because": w.because} for w in self.wrong],
        }


def poisson_interval(count: int, level: float = 0.95) -> tuple[float, float]:
    """The exact (Garwood) interval of a Poisson mean after seeing `count` events."""
    tail = (1 - level) / 2
    most = count + 10 * math.sqrt(count + 1) + 10
    low = 0.0 if count == 0 else _solve(lambda mean: 1 - _poisson_cdf(count - 1, mean), tail, most)
    return low, _solve(lambda mean: -_poisson_cdf(count, mean), -tail, most)


def binomial_interval(count: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """The exact (Clopper and Pearson) interval of a share after seeing `count` of `trials` (at least one)."""
    tail = (1 - level) / 2
    low = 0.0 if count == 0 else _solve(lambda share: 1 - _binomial_cdf(count - 1, trials, share), tail, 1.0)
    high = 1.0 if count == trials else _solve(lambda share: -_binomial_cdf(count, trials, share), -tail, 1.0)
    return low, high


def _solve(rising: Callable[[float], float], goal: float, high: float) -> float:
    """Where a function that rises from 0 to `high` reaches `goal`, by bisection."""
    low = 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < goal else (low, middle)
    return (low + high) / 2


def _poisson_cdf(count: int, mean: float) -> float:
    if mean <= 0:
        return 1.0
    return math.fsum(math.exp(i * math.log(mean) - mean - math.lgamma(i + 1)) for i in range(count + 1))


def _binomial_cdf(count: int, trials: int, share: float) -> float:
    if not 0 < share < 1:
        return float(share <= 0)
    whole = math.lgamma(trials + 1)
    return math.fsum(
        math.exp(
            whole - math.lgamma(i + 1) - math.lgamma(trials - i + 1)
            + i * math.log(share) + (trials - i) * math.log1p(-share)
        )
        for i in range(count + 1)
    )  # fmt: skip


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _rate_json(rate: Rate) -> dict[str, Any]:
    return {"count": rate.count, "rate": rate.per_100_node_days, "low": rate.low, "high": rate.high}


def _alert_json(alert: Alert) -> dict[str, Any]:
    return {
        "incident": alert.incident,
        "at": format_time(alert.at),
        "loud": alert.loud,
        "scope": alert.scope,
        "where": alert.where,
        "cause": alert.cause,
        "onset": format_time(alert.onset),
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    fault = outcome.fault
    return {
        "id": fault.id,
        "type": fault.type,
        "scope": fault.scope,
        "where": fault.where,
        "onset": format_time(fault.onset),
        "end": format_time(fault.end),
        "expect": fault.expect,
        "max_delay_s": fault.limit / 1000,
        "cause_family": fault.cause_family,
        "status": outcome.status,
        "delay_s": outcome.delay_seconds,
        "cause_right": outcome.cause_right,
        "by": None if outcome.by is None else _alert_json(outcome.by),
    }
