"""`time_scale`, at one place: ticks live in nominal time, everything outside them in real time.

A cluster scraped every second under `time_scale: "1/15"` is, for detectors and rules, a cluster scraped every fifteen
seconds, so that none of their constants need scaling; samples are stretched on their way in, verdicts shrunk on their
way out. At a scale of one both are the identity.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from anomaly.clock import Ms, format_time
from anomaly.judge import Ranges
from anomaly.pipeline import Tick
from anomaly.records import Dropped, Finding, Incident, Samples

INSTANTS = ("boot_time",)
"""Signals whose values are instants (in seconds) and have to move with the time axis."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Real time = nominal time × `scale`; exact for times on the grid of the step."""

    scale: Fraction = Fraction(1)

    def nominal(self, real: Ms) -> Ms:
        return real * self.scale.denominator // self.scale.numerator

    def real(self, nominal: Ms) -> Ms:
        return nominal * self.scale.numerator // self.scale.denominator

    def samples(self, samples: Mapping[str, Samples]) -> Mapping[str, Samples]:
        """Samples as the ticks see them."""
        if self.scale == 1:
            return samples
        out = {}
        for name, found in samples.items():
            ts = found.ts * self.scale.denominator // self.scale.numerator
            values = found.values / float(self.scale) if name in INSTANTS else found.values
            out[name] = Samples(found.series_id, ts, values)
        return out

    def ranges(self, ranges: Mapping[str, Ranges]) -> Mapping[str, Ranges]:
        """Ranges of instants as the ticks see them."""
        return {name: tuple((self.nominal(a), self.nominal(b)) for a, b in found) for name, found in ranges.items()}

    def tick(self, tick: Tick) -> Tick:
        """A tick as everybody else sees it."""
        if self.scale == 1:
            return tick
        told = tick.denoised
        return replace(
            tick,
            at=self.real(tick.at),
            findings=tuple(self.finding(item) for item in tick.findings),
            denoised=replace(
                told,
                changed=tuple(self.incident(item) for item in told.changed),
                kept=tuple(self.finding(item) for item in told.kept),
                dropped=tuple(Dropped(self.finding(item.finding), item.reason, item.because) for item in told.dropped),
            ),
        )

    def finding(self, finding: Finding) -> Finding:
        if self.scale == 1:
            return finding
        return replace(
            finding,
            onset=self.real(finding.onset),
            uncertainty=self.real(finding.uncertainty),
            last=self.real(finding.last),
            confirmed=self.real(finding.confirmed),
        )

    def incident(self, incident: Incident) -> Incident:
        if self.scale == 1:
            return incident
        return replace(
            incident,
            onset=self.real(incident.onset),
            uncertainty=self.real(incident.uncertainty),
            fired_at=self.real(incident.fired_at),
            updated_at=self.real(incident.updated_at),
            resolved_at=None if incident.resolved_at is None else self.real(incident.resolved_at),
            evidence=tuple(replace(item, onset=self.real(item.onset)) for item in incident.evidence),
            summary=incident.summary.replace(format_time(incident.onset), format_time(self.real(incident.onset))),
        )
