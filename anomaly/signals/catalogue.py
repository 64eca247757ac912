"""Packs and overrides → the catalogue of signals, every mistake reported with its key."""

import difflib
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from anomaly.errors import ConfigError, Problem
from anomaly.signals.model import Codes, Peers, Shift, Signal, Threshold
from anomaly.signals.written import SignalYaml

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
"""A name that can stand in a selector as it is; anything else could leave it."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The signals of one pipeline, by name, in pack order."""

    signals: Mapping[str, Signal]

    def __getitem__(self, name: str) -> Signal:
        return self.signals[name]

    def get(self, name: str) -> Signal | None:
        return self.signals.get(name)


def pack_names() -> list[str]:
    """The packs that exist."""
    return sorted(path.name.removesuffix(".yaml") for path in _packs().iterdir() if path.name.endswith(".yaml"))


def pack_about(pack: str) -> str:
    """What the pack is about and what to know before using it, one line."""
    return str(_document(pack)["about"])


def load_catalogue(
    packs: Sequence[str], overrides: Mapping[str, Mapping[str, Any]] | None = None, where: str = "signals"
) -> Catalogue:
    """The signals of `packs` with `overrides` laid over them, key by key.

    Raises ConfigError with every problem: an unknown pack, an unknown key (with the nearest one), a wrong type, a
    signal with neither `metrics` nor `query`, a covariate that is no signal.
    """
    problems: list[Problem] = []
    raw: dict[str, dict[str, Any]] = {}
    for pack in packs:
        if pack not in pack_names():
            near = difflib.get_close_matches(pack, pack_names(), 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(pack_names())}"
            problems.append(Problem(where, 0, "packs", f"unknown pack {pack!r}{hint}"))
            continue
        raw.update(_read_pack(pack))
    for name, override in (overrides or {}).items():
        base = raw.get(name, {})
        if "query" in override:
            base = {key: value for key, value in base.items() if key != "metrics"}
        raw[name] = {**base, **override}
    signals: dict[str, Signal] = {}
    for name, entry in raw.items():
        try:
            signals[name] = _build(name, SignalYaml.model_validate(entry))
        except ValidationError as error:
            problems += [
                Problem(where, 0, ".".join([name, *map(str, detail["loc"])]), _words(detail, entry))
                for detail in error.errors()
            ]
        except ValueError as error:
            problems.append(Problem(where, 0, name, str(error)))
    for name, signal in signals.items():
        needed = [("equal", other) for other, _ in signal.equal]
        needed += [("effect_of", signal.effect_of)] if signal.effect_of else []
        needed += [("shift.when", other) for other, _ in (signal.shift.when if signal.shift else ())]
        problems += [
            Problem(where, 0, f"{name}.{key}", f"{other!r} is not a signal of this pipeline")
            for key, other in needed
            if other not in raw
        ]
    if problems:
        raise ConfigError("the signals are not usable:", "correct them and run `anomaly check`", tuple(problems))
    return Catalogue(signals)


def _words(detail: Any, entry: Mapping[str, Any]) -> str:
    if detail["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(detail["loc"][-1]), list(SignalYaml.model_fields), 1)
        return "unknown key" + (f"; did you mean {near[0]!r}?" if near else "")
    return str(detail["msg"]).removeprefix("Value error, ")


def _build(name: str, spec: SignalYaml) -> Signal:
    if not spec.metrics and not spec.query:
        raise ValueError("needs `metrics` (names to select) or `query` (PromQL)")
    if spec.metrics and spec.query:
        raise ValueError("has both `metrics` and `query`; keep one")
    for metric in spec.metrics:
        if not _METRIC.fullmatch(metric):
            raise ValueError(f"{metric!r} is no metric name; a selector goes into `query`")
    return Signal(
        name=name,
        about=spec.about or name.replace("_", " "),
        unit=spec.unit,
        kind=spec.kind,
        metrics=spec.metrics,
        query=spec.query,
        interval=spec.interval,
        entity_kind=spec.entity.kind,
        entity_labels=spec.entity.labels,
        device_labels=spec.device,
        part_labels=spec.part,
        parts=spec.parts,
        duplicates=spec.duplicates,
        bad=spec.bad,
        valid=spec.valid,
        zero_means_unsupported=spec.zero_means_unsupported,
        peers_scheme=spec.peers_scheme,
        layer=spec.layer,
        symptom=spec.symptom,
        cause=spec.cause,
        asymmetric=spec.asymmetric,
        gate=spec.gate,
        equal=tuple(spec.equal.items()),
        threshold=Threshold(**spec.threshold.model_dump()) if spec.threshold else None,
        peers=Peers(**spec.peers.model_dump()) if spec.peers else None,
        shift=Shift(**{**spec.shift.model_dump(), "when": tuple(spec.shift.when.items())}) if spec.shift else None,
        codes=Codes(**spec.codes.model_dump()) if spec.codes else None,
        alone=spec.alone,
        shared_kind=spec.shared_kind,
        source=spec.source,
        presence=spec.presence,
        restless=spec.restless,
        load=spec.load,
        dead=spec.dead,
        effect_of=spec.effect_of,
        falls=spec.falls,
        drains=spec.drains,
        verified=spec.verified,
        enable=spec.enable,
    )


def _packs() -> Any:
    return resources.files("anomaly.signals") / "packs"


@functools.cache
def _document(pack: str) -> dict[str, Any]:
    text = (_packs() / f"{pack}.yaml").read_text(encoding="utf-8")
    # Packs ship with the program; a mistake in one is a bug, so the plain loader is enough.
    return TypeAdapter(dict[str, Any]).validate_python(yaml.safe_load(text))


@functools.cache
def _read_pack(pack: str) -> dict[str, dict[str, Any]]:
    document = _document(pack)
    defaults = document.get("defaults", {})
    return {name: {**defaults, **entry} for name, entry in document["signals"].items()}
