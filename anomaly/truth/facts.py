"""The truth about a stretch of time: its faults and its decoys, read strictly from the JSON that drills write."""

import json
import math
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, cast

from anomaly.clock import Ms, parse_time
from anomaly.errors import ConfigError, Problem

Expect = Literal["node_alert", "shared_alert", "job_alert", "ticket", "none"]
SCOPES = ("node", "group", "job")
EXPECTS = ("node_alert", "shared_alert", "job_alert", "ticket", "none")


@dataclass(frozen=True, slots=True)
class Fault:
    """One true fault. `nodes` are all who feel it, `culprits` those at fault (none for a shared one)."""

    id: str
    type: str
    scope: str
    nodes: tuple[str, ...]
    culprits: tuple[str, ...]
    group: str | None
    onset: Ms
    end: Ms
    expect: Expect
    limit: Ms
    cause_family: str | None = None
    effect: float | None = None

    @property
    def deadline(self) -> Ms:
        """The last moment at which finding it counts."""
        return min(self.end, self.onset + self.limit)

    @property
    def where(self) -> str:
        return self.group or ", ".join(self.culprits or self.nodes)

    def active(self, at: Ms) -> bool:
        return self.onset <= at <= self.end


@dataclass(frozen=True, slots=True)
class Decoy:
    """Something that looks like a fault and is none."""

    type: str
    nodes: tuple[str, ...]
    start: Ms
    end: Ms


@dataclass(frozen=True, slots=True)
class Truth:
    """What really happened."""

    faults: tuple[Fault, ...] = ()
    decoys: tuple[Decoy, ...] = ()


def read_truth(text: str, file: str) -> Truth:
    """The truth in a JSON text; `file` is its name in messages.

    Raises ConfigError with everything that is wrong. Keys that are not known are left alone, unless they look like
    a known one that is missing.
    """
    try:
        raw: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        said = getattr(error, "msg", "nested too deep")
        raise _refused(file, [Problem(file, line, "", f"is not JSON: {said.lower()}")]) from None
    reader = _Reader(file)
    body = reader.mapping(raw, "")
    faults = tuple(reader.fault(item, f"faults[{i}]") for i, item in enumerate(reader.items(body, "faults", "")))
    decoys = tuple(
        reader.decoy(item, f"decoys[{i}]") for i, item in enumerate(reader.items(body, "decoys", "", optional=True))
    )
    seen: set[str] = set()
    for i, fault in enumerate(faults):
        if fault.id in seen and fault.id:
            reader.wrong(f"faults[{i}].id", f"{fault.id!r} stands here twice; every fault needs its own")
        seen.add(fault.id)
    if reader.problems:
        raise _refused(file, reader.problems)
    return Truth(faults, decoys)


def _refused(file: str, problems: list[Problem]) -> ConfigError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return ConfigError(f"{file}: {count}", "correct the truth file and try again", tuple(problems))


_KNOWN = frozenset({
    "id", "type", "scope", "nodes", "culprit_nodes", "group", "onset", "end", "expect", "max_delay_s", "cause_family",
    "effect", "start", "faults", "decoys",
})  # fmt: skip


class _Reader:
    """Takes values out of JSON and notes everything that is not as it should be; stand-ins let it go on."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def wrong(self, key: str, what: str) -> None:
        self.problems.append(Problem(self.file, 0, key, what))

    def fault(self, raw: Any, at: str) -> Fault:
        item = self.mapping(raw, at)
        scope = self.choice(item, "scope", at, SCOPES)
        onset = self.instant(item, "onset", at)
        end = self.instant(item, "end", at)
        if end < onset:
            self.wrong(f"{at}.end", "is before the onset")
        fault = Fault(
            id=self.text(item, "id", at) or "",
            type=self.text(item, "type", at) or "",
            scope=scope,
            nodes=self.names(item, "nodes", at),
            culprits=self.names(item, "culprit_nodes", at),
            group=self.text(item, "group", at, optional=True),
            onset=onset,
            end=end,
            expect=cast(Expect, self.choice(item, "expect", at, EXPECTS)),
            limit=round(1000 * (self.number(item, "max_delay_s", at) or 0.0)),
            cause_family=self.text(item, "cause_family", at, optional=True),
            effect=self.number(item, "effect", at, optional=True),
        )
        if item and scope == "node" and not fault.culprits and fault.expect != "none":
            self.wrong(f"{at}.culprit_nodes", "is empty; a fault of scope node has a culprit")
        if scope in ("group", "job") and fault.group is None and not fault.nodes:
            self.wrong(f"{at}.group", f"a fault of scope {scope} names its group or its nodes")
        return fault

    def decoy(self, raw: Any, at: str) -> Decoy:
        item = self.mapping(raw, at)
        start, end = self.instant(item, "start", at), self.instant(item, "end", at)
        return Decoy(self.text(item, "type", at) or "", self.names(item, "nodes", at), start, end)

    def mapping(self, raw: Any, at: str) -> dict[str, Any]:
        if isinstance(raw, dict):
            return raw
        self.wrong(at, 'must be a JSON object; the shortest truth is {"faults": []}' if not at else "must be an object")
        return {}

    def take(self, item: dict[str, Any], key: str, at: str, optional: bool = False) -> Any:
        if key in item:
            return item[key]
        near = get_close_matches(key, [name for name in item if name not in _KNOWN], 1, cutoff=0.75)
        if near:
            self.wrong(_join(at, near[0]), f"unknown key; did you mean {key!r}?")
        elif not optional and item:
            self.wrong(_join(at, key), "is missing")
        return None

    def items(self, item: dict[str, Any], key: str, at: str, optional: bool = False) -> list[Any]:
        value = self.take(item, key, at, optional)
        if value is not None and not isinstance(value, list):
            self.wrong(_join(at, key), "must be a list")
        return value if isinstance(value, list) else []

    def names(self, item: dict[str, Any], key: str, at: str) -> tuple[str, ...]:
        value = self.items(item, key, at)
        if not all(isinstance(name, str) and name for name in value):
            self.wrong(_join(at, key), "must hold names only")
            return ()
        return tuple(value)

    def text(self, item: dict[str, Any], key: str, at: str, *, optional: bool = False) -> str | None:
        value = self.take(item, key, at, optional)
        if value is None and (optional or key not in item):
            return None
        if not isinstance(value, str) or not value:
            self.wrong(_join(at, key), "must be text")
            return None
        return value

    def choice(self, item: dict[str, Any], key: str, at: str, among: tuple[str, ...]) -> str:
        value = self.text(item, key, at)
        if value is not None and value not in among:
            self.wrong(_join(at, key), f"{value!r} is none of {', '.join(among)}")
        return value if value in among else among[0]

    def number(self, item: dict[str, Any], key: str, at: str, *, optional: bool = False) -> float | None:
        value = self.take(item, key, at, optional)
        if value is None and (optional or key not in item):
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            self.wrong(_join(at, key), "must be a number, not negative")
            return None
        return float(value)

    def instant(self, item: dict[str, Any], key: str, at: str) -> Ms:
        value = self.text(item, key, at)
        if value is None:
            return 0
        try:
            return parse_time(value)
        except (ValueError, OverflowError):
            self.wrong(_join(at, key), f"{value!r} is not a time; write one like 2026-11-30T10:00:00Z")
            return 0


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key
