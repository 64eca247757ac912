"""A signal and the parameters of the detectors that judge it."""

from dataclasses import dataclass, field
from typing import Literal

from anomaly.clock import MINUTE, Ms, format_duration
from anomaly.records import Bad, Severity, SignalKind

PeerScheme = Literal["gpu", "nic", "node", "none"]
Scale = Literal["linear", "log"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A fixed boundary: the value (for counters, the rate per second over the window) at or beyond `above`/`below`."""

    above: float | None = None
    below: float | None = None
    persist: Ms = 2 * MINUTE
    hard: bool = False


@dataclass(frozen=True, slots=True)
class Peers:
    """Deviation from the median of the peers, against the series' own usual deviation where that is known.

    `effect` is the smallest deviation worth a verdict, in the signal's unit (natural-log units when `scale` is log);
    `cold` is the larger one asked of a series whose own usual deviation is not known yet. `sigmas` is the same
    boundary in robust standard deviations of the group, `floor` the smallest standard deviation believed.
    """

    effect: float
    cold: float
    floor: float
    sigmas: float = 5.0
    scale: Scale = "linear"
    pseudo: float = 0.0
    """Added before the logarithm, so that zeros of a rate are ordinary values."""
    least: float = 0.0
    """Peers whose median is below this do not speak (no traffic, no comparison)."""
    persist: Ms = 3 * MINUTE
    offset: bool = True
    """Whether a lasting difference is a habit (clocks, temperatures) or itself the fault (error rates)."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Deviation from the series' own recent past (a median of five-minute medians over two hours)."""

    effect: float
    floor: float
    sigmas: float = 5.0
    scale: Scale = "linear"
    pseudo: float = 0.0
    least: float = 0.0
    """Below this value (in the bad direction) a change is of no consequence."""
    persist: Ms = 3 * MINUTE
    when: tuple[tuple[str, float], ...] = ()
    """Other signals of the same device that must be at or above a value for a verdict."""
    per_job: bool = False
    """Whether the past of another job does not count."""
    without_peers: bool = False
    """Whether it only speaks where the series has no peers to be compared with."""
    cause: str = ""
    """Cause family of its findings, where it knows better than the signal."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Event codes (XID): a change of value to a code is an event; `hard` codes name a cause, others only inform."""

    hard: tuple[tuple[int, str, str], ...]
    """(code, cause family, words)"""
    hold: Ms = 30 * MINUTE
    lasting: tuple[int, ...] = ()
    """Codes that stay true for as long as the gauge shows them (79: the GPU is gone until the driver reloads)."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A named quantity: how to ask for it, whose it is, what is bad, and how it is judged."""

    name: str
    about: str
    unit: str
    kind: SignalKind
    metrics: tuple[str, ...]
    query: str | None
    interval: Ms
    """Native interval: pulled no finer than this."""
    entity_kind: str
    entity_labels: tuple[str, ...]
    device_labels: tuple[str, ...]
    part_labels: tuple[str, ...]
    parts: Literal["sum", "max"]
    duplicates: Literal["max", "min"]
    bad: Bad
    valid: tuple[float, float] | None
    zero_means_unsupported: bool
    peers_scheme: PeerScheme
    layer: str
    symptom: str
    cause: str
    asymmetric: bool
    gate: Literal["load", "none"]
    equal: tuple[tuple[str, float], ...]
    """Covariates taken out before comparing with peers: (signal, slope in own unit per its unit)."""
    threshold: Threshold | None
    peers: Peers | None
    shift: Shift | None
    codes: Codes | None
    alone: Severity
    """How loud an incident may be that rests on this signal alone."""
    shared_kind: str
    """The kind of shared entity behind this signal (`storage`), whose name is the device; empty for none."""
    source: str
    presence: bool
    """Whether a device of this signal that vanishes is a device that vanished."""
    restless: bool = False
    """Whether its readings differ from one to the next while the device works: where all of those repeat, the device
    has frozen."""
    load: str = "gpu_util"
    """The signal (a share of time, in percent or as a ratio) that says whether a device works: for `gate` and
    `restless`."""
    dead: bool = False
    """Whether a device that carries next to nothing, while its node's others do what those of its peers do, is down."""
    effect_of: str = ""
    """The signal that, on one node, brings this one about on others: they are its victims."""
    falls: bool = False
    """Whether it falls to a fraction of its usual value on a device that only waits in a collective, at full load."""
    drains: bool = False
    """Whether 1 says that people have taken the node out of service."""
    verified: str = field(default="", repr=False)
    """What its names and labels were seen in ("exporter source"); empty: in nothing yet.

    No part of `repr`, by which a model knows the signals it was trained on: it changes no value.
    """
    enable: str = field(default="", repr=False)
    """What to switch on where this signal is not there: an exporter, its collector, its setting."""

    def native(self, step: Ms) -> Ms:
        """The grid on which this signal is pulled and judged, given the floor of every interval."""
        return -(-max(self.interval, step) // step) * step

    def window(self, step: Ms) -> Ms:
        """`$window`: long enough for a rate over the native interval (four samples), at least two minutes."""
        return max(4 * self.native(step), 2 * MINUTE)

    def promql(self, step: Ms, window: Ms | None = None) -> str:
        """The range query's text with every placeholder filled in; `window` overrides what `$window` becomes."""
        if self.query is not None:
            return self.query.replace("$window", format_duration(window or self.window(step)))
        if len(self.metrics) == 1:
            return self.metrics[0]
        return '{__name__=~"' + "|".join(self.metrics) + '"}'

    def uncertainty(self, step: Ms) -> Ms:
        """How finely an onset can be known: the interval, or the window a query or a rate looks back over."""
        windowed = self.kind == "counter" or (self.query is not None and "$window" in self.query)
        return max(self.native(step), self.window(step) if windowed else 0)
