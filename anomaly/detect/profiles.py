"""Which detectors judge which signal, with what patience: the catalogue of detectors, derived from the signals."""

from collections.abc import Mapping

from anomaly.clock import MINUTE, SECOND, Ms
from anomaly.detect.frozen import REPEATS
from anomaly.detect.scored import Direction, Profile
from anomaly.signals.model import Codes, Signal

LEAST_SAMPLES = 3

GPU_GONE_PERSIST: Ms = 45 * SECOND
NODE_GONE_PERSIST: Ms = 30 * SECOND
SILENT_PERSIST: Ms = 10 * MINUTE
"""How long a monitoring fault lasts before it is one: exporters restart, roll-outs take their time."""
FLAT_PERSIST: Ms = 8 * MINUTE
"""The same for readings that stand still, which takes a while to see."""

HANG_PERSIST: Ms = 3 * MINUTE
"""How long a job must spin: longer than any single collective of a healthy one, far below the library's time-out."""

DEAD_PERSIST: Ms = 3 * MINUTE

PRESENCE = ("lost", "frozen", "node_lost", "silent", "unseen", "vanished", "flat")
"""Detectors of what is there, rather than of what it measures."""


def profile(signal: Signal, detector: str, step: Ms) -> Profile:
    """The profile of `detector` (threshold, peers, shift, codes, or one of PRESENCE) on `signal`."""
    native = signal.native(step)
    persist, hard, cause, symptom = _terms(signal, detector)
    least = 1 if persist == 0 else 2 if native >= persist else LEAST_SAMPLES
    presence = detector in PRESENCE
    return Profile(
        signal=signal.name,
        detector=detector,
        direction=_direction(signal),
        unit=signal.unit,
        cause=cause,
        symptom=symptom,
        hard=hard,
        asymmetric=signal.asymmetric or presence or detector in ("hung_rank", "dead"),
        persist=persist if persist == 0 else max(persist, (least - 1) * native),
        clear=max(3 * persist // 2, (least - 1) * native) if not presence else max(MINUTE, native),
        least=min(least, 2) if presence else least,
        uncertainty=_uncertainty(signal, detector, step),
    )


def _terms(signal: Signal, detector: str) -> tuple[Ms, bool, str, str]:
    """(persistence, hard, cause family, symptom class)."""
    if detector == "lost":
        return GPU_GONE_PERSIST, True, "gpu_lost", "presence"
    if detector == "node_lost":
        return NODE_GONE_PERSIST, True, "node_lost", "presence"
    if detector in ("hang", "hung_rank"):
        return HANG_PERSIST, False, "hang", "training" if detector == "hang" else "compute"
    if detector == "frozen":
        return 0, False, "gpu_lost", "presence"
    if detector in ("silent", "unseen", "vanished"):
        return SILENT_PERSIST, False, "telemetry", "presence"
    if detector == "flat":
        return FLAT_PERSIST, False, "telemetry", "presence"
    if detector == "codes":
        return 0, True, signal.cause, signal.symptom
    if detector == "threshold" and signal.threshold:
        return signal.threshold.persist, signal.threshold.hard, signal.cause, signal.symptom
    if detector == "shift" and signal.shift:
        return signal.shift.persist, False, signal.shift.cause or signal.cause, signal.symptom
    if detector == "dead":
        return DEAD_PERSIST, False, signal.cause, signal.symptom
    return signal.peers.persist if signal.peers else 2 * MINUTE, False, signal.cause, signal.symptom


def _uncertainty(signal: Signal, detector: str, step: Ms) -> Ms:
    if detector in ("frozen", "flat"):
        return REPEATS * signal.native(step)
    return signal.native(step) if detector in PRESENCE else signal.uncertainty(step)


def _direction(signal: Signal) -> Direction:
    return "low" if signal.bad == "low" else "high"


def detectors_of(signal: Signal) -> tuple[str, ...]:
    """Names of the detectors that judge `signal`, in order."""
    out = [
        name
        for name, part in (
            ("threshold", signal.threshold),
            ("peers", signal.peers),
            ("shift", signal.shift),
            ("codes", signal.codes),
        )
        if part is not None
    ]
    if signal.dead:
        out.append("dead")
    if signal.presence:
        out.append("lost")
    if signal.presence and signal.restless:
        out.append("unseen")
    if signal.restless:
        out += ["frozen", "flat"]
    if signal.name == "up":
        out += ["node_lost", "silent", "vanished"]
    return tuple(out)


def loads_of(signals: Mapping[str, Signal]) -> frozenset[str]:
    """The signals of load of which hangs are told."""
    return frozenset(signal.load for signal in signals.values() if signal.falls)


def profiles(signals: Mapping[str, Signal], step: Ms) -> dict[str, Profile]:
    """Every detector's profile by its name `signal:detector`."""
    found = [profile(signal, detector, step) for signal in signals.values() for detector in detectors_of(signal)]
    hanging = [signal for name, signal in signals.items() if name in loads_of(signals)]
    found += [profile(signal, detector, step) for signal in hanging for detector in ("hang", "hung_rank")]
    return {item.name: item for item in found}


_HINTS: Mapping[str, str] = {
    "lost": "GPU {device} no longer reports ({signal}) while its neighbours do",
    "node_lost": "all its scrape targets are down",
    "silent": "target {device} is down while the node answers",
    "frozen": "GPU {device} works and its readings stand still",
    "flat": "no reading of any of its GPUs changes",
    "unseen": "none of its GPUs is reported while the node answers",
    "vanished": "none of its targets is scraped any more",
    "dead": "port {device} carries nothing while the node's others work: down",
    "hang": "its GPUs spin at a fraction of their usual power",
    "hung_rank": "GPU {device} idles while all others of its job wait",
}
"""What a detector's verdict means, where the numbers do not say it."""


def cause_and_hint(codes: Codes | None, found: Profile, observed: float | None, device: str) -> tuple[str, str]:
    """(cause family, words) of a finding: event codes and vanished things know more than their numbers."""
    if found.detector == "codes" and codes is not None and observed is not None:
        for code, cause, words in codes.hard:
            if code == int(observed):
                return cause, f"XID {code}: {words}"
    return found.cause, _HINTS.get(found.detector, "").format(device=device, signal=found.signal)
