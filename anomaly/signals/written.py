"""A signal as a pack or a pipeline writes it in YAML: every key, its default and its meaning."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from anomaly.clock import MINUTE, SECOND, Ms, parse_duration
from anomaly.records import Bad, Severity, SignalKind
from anomaly.signals.model import PeerScheme, Scale


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


Duration = Annotated[Ms, BeforeValidator(_duration)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ThresholdYaml(_Strict):
    above: float | None = Field(
        default=None, description="Score 1 at or above this value (for counters: rate per second)"
    )
    below: float | None = Field(default=None, description="Score 1 at or below this value")
    persist: Duration = Field(default=2 * MINUTE, description="How long it must last; 0s for facts")
    hard: bool = Field(default=False, description="A fact: it fires at once and wins over statistics")


class PeersYaml(_Strict):
    effect: float = Field(description="Smallest deviation worth a verdict, in the signal's unit (natural log if `log`)")
    cold: float = Field(description="The larger one asked while the series' own usual deviation is not known yet")
    floor: float = Field(description="Smallest standard deviation believed")
    sigmas: float = Field(default=5.0, description="The boundary in robust standard deviations of the peers")
    scale: Scale = Field(default="linear", description="`log` for what is compared by ratio")
    pseudo: float = Field(
        default=0.0, description="Added before the logarithm, so that zeros of a rate are ordinary values"
    )
    least: float = Field(
        default=0.0, description="Peers whose median is below this do not speak (no traffic, no comparison)"
    )
    persist: Duration = Field(default=3 * MINUTE, description="How long it must last")
    offset: bool = Field(
        default=True, description="Whether a lasting difference is a habit, or itself the fault (error rates)"
    )


class ShiftYaml(_Strict):
    effect: float = Field(description="Smallest deviation from the series' own past worth a verdict")
    floor: float = Field(description="Smallest standard deviation believed")
    sigmas: float = Field(default=5.0, description="The boundary in robust standard deviations of its own past")
    scale: Scale = Field(default="linear", description="`log` for what is compared by ratio")
    pseudo: float = Field(default=0.0, description="Added before the logarithm")
    least: float = Field(
        default=0.0, description="Below this value (in the bad direction) a change is of no consequence"
    )
    persist: Duration = Field(default=3 * MINUTE, description="How long it must last")
    when: Mapping[str, float] = Field(
        default={}, description="Signals of the same device that must be at or above a value"
    )
    per_job: bool = Field(default=False, description="Whether the past of another job does not count")
    without_peers: bool = Field(
        default=False, description="Whether it speaks only where there are no peers to compare with"
    )
    cause: str = Field(default="", description="Cause family of its findings, where it knows better than the signal")


class CodesYaml(_Strict):
    hard: tuple[tuple[int, str, str], ...] = Field(description="[code, cause family, words] of codes that are facts")
    lasting: tuple[int, ...] = Field(default=(), description="Codes that stay true for as long as the gauge shows them")
    hold: Duration = Field(default=30 * MINUTE, description="How long any other code counts after it appeared")


class EntityYaml(_Strict):
    kind: str = Field(default="node", description="Whose it is: `node`, `job`, `switch`, `storage`")
    labels: tuple[str, ...] = Field(description="Labels that name it, the first one present counts")


class SignalYaml(_Strict):
    """One signal as a pack or a pipeline's `signals` writes it."""

    about: str = Field(default="", description="What it is, in words")
    metrics: tuple[str, ...] = Field(
        default=(), description="Metric names, old and new; the series of all are selected"
    )
    query: str | None = Field(default=None, description="PromQL instead of `metrics`; `$window` is filled in")
    unit: str = Field(default="", description="Unit of its values")
    kind: SignalKind = Field(default="gauge", description="What its values are; counters are judged by their rate")
    interval: Duration = Field(default=15 * SECOND, description="Native interval: never pulled more finely than this")
    entity: EntityYaml = Field(
        default=EntityYaml(labels=("node", "nodename", "Hostname", "hostname", "instance")), description="Whose it is"
    )
    device: tuple[str, ...] = Field(
        default=(), description="Labels that name the device (GPU, port), the first present counts"
    )
    part: tuple[str, ...] = Field(
        default=(), description="Labels that name a part of a device (link, priority); parts are merged"
    )
    parts: Literal["sum", "max"] = Field(default="sum", description="How parts are merged")
    duplicates: Literal["max", "min"] = Field(
        default="max", description="Which of several readings of one thing counts"
    )
    bad: Bad = Field(default="both", description="Which direction is bad; with `none` it is evidence and never judged")
    valid: tuple[float, float] | None = Field(default=None, description="[lowest, highest] value believed")
    zero_means_unsupported: bool = Field(
        default=False, description="Whether a constant zero means that there is no sensor"
    )
    peers_scheme: PeerScheme = Field(
        default="node", description="Who its peers are: GPUs, ports of rails, nodes, or nobody"
    )
    layer: str = Field(default="system", description="Layer: hardware, system, network, storage or training")
    symptom: str = Field(default="host", description="Symptom class, in which signals of one node count once")
    cause: str = Field(default="software", description="Cause family of its findings")
    asymmetric: bool = Field(
        default=True, description="Whether it names its node (waiting for others does not change it)"
    )
    gate: Literal["load", "none"] = Field(default="none", description="`load`: judged only while the device works")
    equal: Mapping[str, float] = Field(default={}, description="Signals taken out before comparing, with their slope")
    threshold: ThresholdYaml | None = Field(default=None, description="Judged by a fixed boundary")
    peers: PeersYaml | None = Field(default=None, description="Judged by comparison with peers")
    shift: ShiftYaml | None = Field(default=None, description="Judged by comparison with its own recent past")
    codes: CodesYaml | None = Field(default=None, description="Judged by changes to event codes (XID)")
    alone: Severity = Field(default=Severity.WARNING, description="How loud an incident may be that rests on it alone")
    shared_kind: str = Field(
        default="", description="Kind of shared entity behind it (`storage`), whose name is the device"
    )
    source: str = Field(default="", description="Where its thresholds come from")
    presence: bool = Field(default=False, description="Whether a device of it that vanishes is a device that vanished")
    restless: bool = Field(
        default=False, description="Whether its readings change at work; where all such repeat, it has frozen"
    )
    load: str = Field(
        default="gpu_util", description="The signal that says whether a device works (percent, or a ratio)"
    )
    dead: bool = Field(default=False, description="Whether a device with next to nothing beside working ones is down")
    effect_of: str = Field(default="", description="The signal that, on one node, brings this one about on others")
    falls: bool = Field(default=False, description="Whether it falls to a fraction on a device that only waits")
    drains: bool = Field(default=False, description="Whether 1 says that people have taken the node out of service")
    verified: str = Field(default="", description="What its names and labels were seen in; empty: in nothing yet")
    enable: str = Field(default="", description="What to switch on where it is missing: `check --against` says it")
