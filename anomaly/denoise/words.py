"""One line for a person: who, what, since when, and who suffers."""

from anomaly.causes import family
from anomaly.clock import format_time
from anomaly.records import Finding, Incident


def summary(incident: Incident, ranked: list[Finding]) -> str:
    """`gpu-17: GPU 5 overheating since 10:00 UTC; train-a 18 % slower, 7 nodes wait`."""
    title = family(incident.cause).title
    # An event code says more than the silence that follows it.
    hints = sorted((finding for finding in ranked if finding.hint), key=lambda finding: finding.detector != "codes")
    hint = hints[0].hint if hints else ""
    devices = sorted({finding.device for finding in ranked if finding.device and finding.symptom != "storage"})
    where = (
        f" ({', '.join(devices[:3])}{' …' if len(devices) > 3 else ''})" if incident.scope == "node" and devices else ""
    )
    text = f"{incident.entity.name}: {title}{where}"
    if incident.scope == "group":
        text = f"{incident.entity.kind} {incident.entity.name}: {title} on {len(incident.nodes)} nodes at once"
    elif incident.scope == "job":
        state = "hangs" if incident.cause == "hang" else "is slow"
        text = f"job {incident.entity.name} {state}, no node to blame"
    if hint:
        text += f"; {hint}"
    text += f"; since {format_time(incident.onset)}"
    if incident.impact_ratio is not None and incident.jobs:
        text += f"; {', '.join(incident.jobs[:3])} {incident.impact_ratio:.0%} slower"
        if incident.victims:
            text += f", {len(incident.victims)} more nodes wait"
    return text
