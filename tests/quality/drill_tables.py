"""What the drills came to, as Markdown: recall against effect, kind by kind, ours beside the rivals."""

import math
from collections.abc import Iterable, Sequence

from anomaly.source.simulated import FAULT_TYPES, NOISE_TYPES
from anomaly.source.simulated.faults import KINDS
from anomaly.source.simulated.limits import DUE
from anomaly.source.simulated.place import EFFECTS
from anomaly.truth.figures import BASE_RATE, binomial_interval, poisson_interval
from tests.quality.drills import OURS, Told, wrong_of
from tests.quality.markdown import number, of, percent, table
from tests.quality.rivals import RIVALS

DUE_VERDICTS = ("ok", "late", "missed")


def of_whom(told: Iterable[Told], who: str) -> list[Told]:
    return [one for one in told if one["who"] == who]


def is_fault(one: Told) -> bool:
    return one["name"] in KINDS


def found(told: Iterable[Told]) -> int:
    """Faults found in time."""
    return sum(is_fault(one) and one["verdict"] == "ok" for one in told)


def due(told: Iterable[Told]) -> list[Told]:
    return [one for one in told if is_fault(one) and one["verdict"] in DUE_VERDICTS and not _small(one)]


def _small(one: Told) -> bool:
    """Below a tenth of the step time nothing is due, though finding it is welcome."""
    return one["effect"] is not None and one["effect"] < 0.1


def section(told: Sequence[Told], kept_out: frozenset[str]) -> str:
    """Part (a): ours."""
    ours = of_whom(told, OURS)
    parts = [_by_effect(ours, kept_out), _by_kind(ours, kept_out), _noise(ours, kept_out), _to_look_at(ours)]
    return "\n\n".join(part for part in parts if part)


def _by_effect(ours: Sequence[Told], kept_out: frozenset[str]) -> str:
    rows = []
    for effect in (*EFFECTS, None):
        faults = [one for one in ours if is_fault(one) and one["effect"] == effect]
        if not faults:
            continue
        judged = due(faults)
        name = "stops the job, or slows nothing" if effect is None else percent(effect)
        if effect is not None and effect < 0.1:
            rows.append([f"{name} (nothing due)", of(found(faults), len(faults)), "", "", "", ""])
            continue
        low, high = binomial_interval(found(judged), len(judged)) if judged else (0.0, 1.0)
        hidden = [one for one in judged if one["name"] in kept_out]
        counts = [str(sum(one["verdict"] == verdict for one in judged)) for verdict in ("late", "missed")]
        share = f"{100 * low:.0f}–{percent(high)}" if judged else ""
        rows.append([name, of(found(judged), len(judged)), share, of(found(hidden), len(hidden)), *counts])
    return table(
        ["slows its job by", "found in time", "95 % interval", "of kinds kept out of tuning", "late", "missed"], rows
    )


def _by_kind(ours: Sequence[Told], kept_out: frozenset[str]) -> str:
    rows = []
    for name in FAULT_TYPES:
        mine = [one for one in ours if one["name"] == name]
        if not mine:
            continue
        by_effect = []
        for effect in (*EFFECTS, None):
            at = [one for one in mine if one["effect"] == effect]
            by_effect.append(of(sum(one["verdict"] == "ok" for one in at), len(at)))
        delays = [one["delay_s"] for one in mine if one["verdict"] in ("ok", "late")]
        causes = [one["found"]["cause"] == DUE[name].cause_family for one in mine if one["found"]]
        wrong = sum(len(wrong_of(one)) for one in mine)
        right = of(sum(causes), len(causes)) if DUE[name].cause_family else ""
        rows.append(
            [_marked(name, kept_out), *by_effect, _minutes(_nearest(delays, 0.5)), _minutes(_nearest(delays, 1.0)),
             f"{DUE[name].limit_s / 60:.0f} min", right, str(wrong or "")]
        )  # fmt: skip
    effects = [percent(effect) for effect in EFFECTS]
    return table(["fault", *effects, "–", "median delay", "longest", "limit", "cause right", "wrong alerts"], rows)


def _noise(ours: Sequence[Told], kept_out: frozenset[str]) -> str:
    rows = []
    for name in NOISE_TYPES:
        mine = [one for one in ours if one["name"] == name]
        if mine:
            wrong = [each for one in mine for each in wrong_of(one)]
            pages = sum(each["level"] == "page" for each in wrong)
            calm = of(sum(one["verdict"] == "ok" for one in mine), len(mine))
            rows.append([_marked(name, kept_out), calm, str(pages or ""), str(len(wrong) - pages or "")])
    return table(["expected noise", "left alone", "false pages", "false tickets"], rows) if rows else ""


def _marked(name: str, kept_out: frozenset[str]) -> str:
    return f"`{name}` (kept out of tuning)" if name in kept_out else f"`{name}`"


def _to_look_at(ours: Sequence[Told]) -> str:
    """One line a drill that was missed, late, or said something wrong."""
    rows = []
    for one in ours:
        wrong = wrong_of(one)
        if (is_fault(one) and one["verdict"] in ("late", "missed") and not _small(one)) or wrong:
            said = "; ".join(f"{each['kind']} {each['level']} on {each['where']} ({each['cause']})" for each in wrong)
            effect = "" if one["effect"] is None else percent(one["effect"])
            where = one["expected"]["where"] or ""
            rows.append([f"`{one['name']}`", str(one["seed"]), effect, where, one["verdict"], said])
    if not rows:
        return "Nothing was missed, late or wrong."
    return table(["to look at, as kinds", "seed", "effect", "where", "verdict", "should not have alerted"], rows)


def rivals(told: Sequence[Told]) -> str:
    """Part (e): everybody on the same drills."""
    rows = [_row(who, of_whom(told, who)) for who in (OURS, *RIVALS)]
    head = ["", "recall", "of node faults", "of shared and job faults", "precision", "victims blamed",
            "false pages per 100 node-days (95 %)", "false tickets", "alerts a drill", "cause right", "median delay",
            "p90", f"precision at {BASE_RATE} faults per 100 node-days"]  # fmt: skip
    return "\n\n".join([table(head, rows), NOTE])


NOTE = """Recall and delay are of faults due (10 % and more, or without an effect on the step). Every alert of the
rivals pages, grouped by node; they can name nodes only, so shared and job faults are out of their reach. Temperature
> 85 °C, `up == 0` and error rates > 0.1 /s wait two minutes; XID changes, uncorrectable errors and links going down do
not. The band is mean ± 3 standard deviations (2 % of the mean at least) over the last half hour, two minutes outside.
The forest is fitted per node on its first 24 minutes, raw values, 99.5 % quantile, two minutes. A drill is dense with
events, so its false alarms per node-day are those of a very busy day, and the last column is as bad as it gets."""


def _row(who: str, told: Sequence[Told]) -> list[str]:
    faults = due(told)
    node = [one for one in faults if KINDS[one["name"]].scope == "node"]
    wide = [one for one in faults if KINDS[one["name"]].scope != "node"]
    hits = found(told)
    wrong = [each for one in told for each in wrong_of(one)]
    victims = sum(each["kind"] == "victim" for each in wrong)
    pages = sum(each["kind"] != "victim" and each["level"] == "page" for each in wrong)
    false = len(wrong) - victims
    days = sum(one["node_days"] for one in told)
    low, high = poisson_interval(pages)
    delays = [one["delay_s"] for one in faults if one["verdict"] == "ok"]
    causes = [one["found"]["cause"] == DUE[one["name"]].cause_family
              for one in told if is_fault(one) and one["found"] and DUE[one["name"]].cause_family]  # fmt: skip
    per = 100 / days
    right = BASE_RATE * found(faults) / len(faults) if faults else 0.0
    blamed = BASE_RATE * victims / len(faults) if faults else 0.0
    field = right / (right + blamed + false * per) if right else None
    return [
        who,
        f"{of(found(faults), len(faults))} {percent(found(faults) / len(faults)) if faults else ''}",
        of(found(node), len(node)),
        of(found(wide), len(wide)),
        percent(hits / (hits + len(wrong)) if hits + len(wrong) else None),
        str(victims),
        f"{pages * per:.0f} ({low * per:.0f}–{high * per:.0f})",
        str(false - pages),
        number((hits + len(wrong)) / len(told)),
        percent(sum(causes) / len(causes) if causes else None),
        _minutes(_nearest(delays, 0.5)),
        _minutes(_nearest(delays, 0.9)),
        percent(field),
    ]


def _nearest(values: Sequence[float], share: float) -> float | None:
    """Nearest rank."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None


def _minutes(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds / 60:.1f} min"
