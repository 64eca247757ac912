"""Time: integer milliseconds UTC inside, Prometheus-style durations and RFC 3339 at the edges."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

Ms = int
"""Milliseconds: since 1970-01-01 UTC for instants, plain for durations."""

Clock = Callable[[], Ms]
"""Anything that says what time it is; passed in, so that tests and replays own time."""

SECOND: Ms = 1_000
MINUTE: Ms = 60 * SECOND
HOUR: Ms = 60 * MINUTE
DAY: Ms = 24 * HOUR

YEAR_10000: Ms = 253_402_300_800_000
"""No time is written beyond."""

_UNITS: dict[str, Ms] = {"ms": 1, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY, "y": 365 * DAY}
_DURATION = re.compile(r"(?:\d+(?:ms|y|w|d|h|m|s))+")
_PART = re.compile(r"(\d+)(ms|y|w|d|h|m|s)")
_ORDER = ["y", "w", "d", "h", "m", "s", "ms"]


def system_clock() -> Ms:
    """The wall clock, as Prometheus sees it."""
    return time.time_ns() // 1_000_000


def parse_duration(text: str) -> Ms:
    """`1h30m` → 5,400,000. Units as in Prometheus: y w d h m s ms, largest first, each at most once.

    Raises ValueError with the reason in words.
    """
    if text == "0":
        return 0
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write one like 15s, 5m or 1h30m")
    parts = _PART.findall(text)
    ranks = [_ORDER.index(unit) for _, unit in parts]
    if ranks != sorted(set(ranks)):
        raise ValueError(f"{text!r} is not a duration; units go from large to small, each once")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def format_duration(duration: Ms) -> str:
    """The shortest exact Prometheus form: 5,400,000 → `1h30m`."""
    if duration == 0:
        return "0s"
    out, rest = "", duration
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            out += f"{count}{unit}"
    return out


def parse_time(text: str) -> Ms:
    """RFC 3339 with a zone, `YYYY-MM-DDTHH:MM[:SS]` or a date (both UTC), or Unix seconds.

    Raises ValueError with the reason in words.
    """
    if re.fullmatch(r"\d+(\.\d+)?", text):
        if float(text) >= YEAR_10000 / 1000:
            raise ValueError(f"{text!r} is no time in Unix seconds; milliseconds have three digits too many")
        return round(float(text) * 1000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; write one like 2026-11-30T10:00:00Z") from None
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def to_ms(moment: datetime) -> Ms:
    """An aware datetime as milliseconds, exactly."""
    delta = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000


def to_datetime(instant: Ms) -> datetime:
    """Milliseconds as an aware datetime in UTC, exactly."""
    return datetime.fromtimestamp(instant // 1000, UTC).replace(microsecond=(instant % 1000) * 1000)


def format_time(instant: Ms) -> str:
    """RFC 3339 in UTC with `Z`; milliseconds only where there are any."""
    text = to_datetime(instant).isoformat(timespec="milliseconds" if instant % 1000 else "seconds")
    return text.replace("+00:00", "Z")


def align_down(instant: Ms, step: Ms) -> Ms:
    """The last grid point at or before `instant`."""
    return instant - instant % step


def align_up(instant: Ms, step: Ms) -> Ms:
    """The first grid point at or after `instant`."""
    return instant + -instant % step
