"""The kinds of value a pipeline file holds, each with its own clear refusal."""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from anomaly.clock import DAY, HOUR, MINUTE, Ms, format_duration, format_time, parse_duration, parse_time

LONGEST: Ms = 10 * 365 * DAY


class Section(BaseModel):
    """A mapping of the file: unknown keys are refused, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


Misfit = tuple[tuple[str | int, ...], str]
"""(path within the section, what is wrong with it)"""


def refusal(what: str, *path: str | int) -> PydanticCustomError:
    """A mistake in our own words; `path` leads from the section to the entry it is about, if not the section itself."""
    return refusals([(path, what)])


def refusals(found: list[Misfit]) -> PydanticCustomError:
    """Several mistakes of one section at once."""
    return PydanticCustomError("refused", "{text}", {"text": "; ".join(what for _, what in found), "found": found})


@dataclass(frozen=True, slots=True)
class Named:
    """What a kind of value is called in the reference."""

    name: str


def _duration(value: Any) -> Ms:
    if value == 0 and not isinstance(value, bool | float):
        return 0
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise refusal("is a number without a unit; write a duration like 15s, 5m or 1h30m")
    if not isinstance(value, str):
        raise refusal("must be a duration like 15s, 5m or 1h30m")
    if len(value) > 50:
        raise refusal("is not a duration; write one like 15s, 5m or 1h30m")
    try:
        duration = parse_duration(value)
    except ValueError as error:
        raise refusal(str(error)) from error
    if duration > LONGEST:
        raise refusal(f"{value!r} is longer than ten years")
    return duration


def _positive_duration(value: Any) -> Ms:
    duration = _duration(value)
    if duration == 0:
        raise refusal("must be longer than zero")
    return duration


class Scales:
    """Marks a duration that `time_scale` shortens. Time-outs do not have it: a network is no faster in a test."""


class Masked:
    """Marks a value that is never shown."""


_DURATION_SCHEMA = WithJsonSchema(
    {"type": "string", "pattern": "^([0-9]+(ms|y|w|d|h|m|s))+$", "examples": ["15s", "1h30m"]}
)
_AS_DURATION = PlainSerializer(format_duration, return_type=str)

Duration = Annotated[
    Ms, BeforeValidator(_positive_duration), _AS_DURATION, _DURATION_SCHEMA, Named("duration"), Scales()
]
"""Longer than zero; `15s` in the file, milliseconds here."""

DurationOrZero = Annotated[
    Ms, BeforeValidator(_duration), _AS_DURATION, _DURATION_SCHEMA, Named("duration or 0"), Scales()
]

Timeout = Annotated[Ms, BeforeValidator(_positive_duration), _AS_DURATION, _DURATION_SCHEMA, Named("duration")]
"""A duration of the outside world, never scaled."""


def _time_of_day(value: Any) -> Ms:
    match = re.fullmatch(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", value) if isinstance(value, str) else None
    if not match:
        raise refusal('must be a time of day in UTC, in quotes: "03:15"')
    return int(match[1]) * HOUR + int(match[2]) * MINUTE


def format_time_of_day(since_midnight: Ms) -> str:
    return f"{since_midnight // HOUR:02d}:{since_midnight % HOUR // MINUTE:02d}"


TimeOfDay = Annotated[
    Ms,
    BeforeValidator(_time_of_day),
    PlainSerializer(format_time_of_day, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^([01]?\d|2[0-3]):[0-5]\d$", "examples": ["03:15"]}),
    Named("time of day"),
]
"""UTC; milliseconds since midnight here."""


def _instant(value: Any) -> Ms:
    try:
        instant = parse_time(value if isinstance(value, str) else "not text")
        format_time(instant)  # a zone may put the last hours of the year 9999 beyond it
    except (ValueError, OverflowError, OSError):
        raise refusal('must be a time like "2026-11-30T10:00:00Z"') from None
    return instant


Instant = Annotated[
    Ms,
    BeforeValidator(_instant),
    PlainSerializer(format_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
    Named("time"),
]


def _url(value: Any) -> str:
    if not isinstance(value, str):
        raise refusal("must be a URL like http://127.0.0.1:9090")
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise refusal("is not a URL; write one like http://127.0.0.1:9090") from None
    if parts.scheme not in ("http", "https"):
        raise refusal("must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise refusal("carries a user or password; move them to basic_auth, the password to password_file")
    if not host or re.search(r"\s", value):
        raise refusal("names no host; write one like http://127.0.0.1:9090")
    if parts.query or parts.fragment:
        raise refusal("carries a query (?…) or fragment (#…); give the address and path prefix only")
    return value.rstrip("/")


def webhook_url(value: Any) -> str:
    """A webhook may carry a query: receivers put tokens and routes there. The ValueError raised shows nothing of it."""
    if isinstance(value, str) and "?" in value and "#" not in value:
        base, _, query = value.partition("?")
        return f"{_url(base)}?{query}"
    return _url(value)


_URL_SCHEMA = WithJsonSchema({"type": "string", "format": "uri", "pattern": "^https?://"})
Url = Annotated[str, BeforeValidator(_url), _URL_SCHEMA, Named("URL")]
"""http or https, an optional path prefix, no credentials, no trailing slash."""

WebhookUrl = Annotated[str, BeforeValidator(webhook_url), _URL_SCHEMA, Named("URL")]


def _listen(value: Any) -> str:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\s]*):([0-9]{1,5})", value) if isinstance(value, str) else None
    if not match or int(match[2]) > 65_535:
        raise refusal('must be an address and a port: "127.0.0.1:9810"')
    return match.string


Listen = Annotated[
    str,
    BeforeValidator(_listen),
    WithJsonSchema({"type": "string", "examples": ["127.0.0.1:9810"]}),
    Named("address:port"),
]


def _path(value: Any) -> Path:
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value.strip():
        raise refusal("must be a path")
    return Path(value)


FilePath = Annotated[
    Path,
    BeforeValidator(_path),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
    Named("path"),
]

Text = Annotated[str, Strict(), Field(min_length=1), Named("text")]
Whole = Annotated[int, Strict(), Named("whole number")]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False), Named("number")]
LabelName = Annotated[str, Strict(), Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$"), Named("label name")]


def _cluster(value: Any) -> str:
    if isinstance(value, bool | int | float):
        raise refusal("is a number or truth value where text is expected; write it in quotes")
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value):
        raise refusal("must be 1 to 63 letters, digits, '.', '_' or '-': it becomes a label of every alert")
    return value


ClusterName = Annotated[str, BeforeValidator(_cluster), Named("text")]


def _factor(value: Any) -> Fraction:
    """Near fractions are taken for what they mean (0.0667 is 1/15), so that scaled durations keep a common grid."""
    if isinstance(value, Fraction):
        return value
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,20})?|[0-9]{1,3}/0*[1-9][0-9]{0,3}", text):
        raise refusal('must be a number or a fraction in quotes, between 0.01 and 100, like 0.1 or "1/15"')
    factor = Fraction(text).limit_denominator(100)
    if not Fraction(1, 100) <= factor <= 100:
        raise refusal("must be between 0.01 and 100")
    return factor


Factor = Annotated[
    Fraction,
    BeforeValidator(_factor),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}], "examples": [1, "1/15"]}),
    Named("number or fraction"),
]
