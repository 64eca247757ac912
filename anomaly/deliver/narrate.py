"""An incident in words: what a person reads in the alert. Plain functions of the record; no clock, no I/O."""

from collections.abc import Sequence

from anomaly.causes import family
from anomaly.clock import Ms, format_duration, format_time
from anomaly.records import Evidence, Incident, Phase

MAX_NAMES = 20
MAX_EVIDENCE = 8

_UNITS = {
    "celsius": "°C",
    "watts": "W",
    "watt": "W",
    "hertz": "Hz",
    "megahertz": "MHz",
    "mhz": "MHz",
    "percent": "%",
    "seconds": "s",
    "bytes": "B",
    "bytes_per_second": "B/s",
    "per_second": "/s",
    "ratio": "",
    "": "",
}


def number(value: float | None, unit: str = "") -> str:
    """A value for reading: three significant digits, thousands grouped, the unit's sign behind it; `none` for null."""
    if value is None:
        return "none"
    size = abs(value)
    text = f"{value:,.0f}" if size >= 100 or value == int(value) else f"{value:.3g}"
    sign = _UNITS.get(unit.lower(), unit)
    return f"{text}{'' if sign.startswith(('%', '/')) else ' '}{sign}".strip()


def names(values: Sequence[str], limit: int = MAX_NAMES) -> str:
    """`a, b, c`, and how many more there are beyond `limit`."""
    shown = ", ".join(values[:limit])
    return f"{shown} and {len(values) - limit} more" if len(values) > limit else shown


def evidence_line(evidence: Evidence) -> str:
    """`gpu_temp gpu3: 91 °C, expected 74 °C (peers)`."""
    what = " ".join(part for part in (evidence.signal, evidence.device) if part)
    expected = "" if evidence.expected is None else f", expected {number(evidence.expected, evidence.unit)}"
    return f"{what}: {number(evidence.observed, evidence.unit)}{expected} ({evidence.detector})"


def onset_line(onset: Ms, uncertainty: Ms) -> str:
    """When it began, no finer than it is known."""
    about = f" ± {format_duration(uncertainty)}" if uncertainty else ""
    return f"{format_time(onset)}{about}"


def headline(incident: Incident) -> str:
    """One line that names the entity and what is wrong: the incident's own summary where it has one."""
    return incident.summary or f"{incident.entity.name}: {family(incident.cause).title}"


def impact_line(incident: Incident) -> str:
    """What the job loses, or that nobody knows."""
    if incident.impact_ratio is None:
        return "unknown"
    of = f" of {names(incident.jobs, 3)}" if incident.jobs else ""
    return f"{incident.impact_ratio:.0%}{of}"


def ending(incident: Incident) -> str | None:
    """Why an ended incident ended, None while it lasts."""
    if incident.absorbed_by is not None:
        return f"absorbed by {incident.absorbed_by}"
    if incident.phase is Phase.LOST:
        return "lost sight: no data to say whether it is over"
    if incident.phase is Phase.CLOSED:
        return "closed by a person"
    return "resolved" if incident.phase is Phase.RESOLVED else None


def describe(incident: Incident) -> str:
    """The whole story in lines: what, since when, what speaks for it, who else, and how it ended."""
    lines = [headline(incident), f"Since {onset_line(incident.onset, incident.uncertainty)}."]
    if incident.scope == "group":
        lines.append(f"A shared cause: {len(incident.nodes)} nodes turned together ({names(incident.nodes)}).")
    elif incident.scope == "job":
        lines.append(f"The job is slow on {len(incident.nodes)} nodes and no single node is to blame.")
    lines += [f"- {evidence_line(evidence)}" for evidence in incident.evidence[:MAX_EVIDENCE]]
    if len(incident.evidence) > MAX_EVIDENCE:
        lines.append(f"- and {len(incident.evidence) - MAX_EVIDENCE} more observations")
    if incident.victims:
        lines.append(f"Only suffering: {names(incident.victims)}.")
    if (end := ending(incident)) is not None:
        lines.append(f"Ended: {end}.")
    return "\n".join(lines)
