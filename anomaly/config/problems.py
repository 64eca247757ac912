"""From pydantic's findings to words about a file: where, what, and what would be right. Values are never quoted."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from anomaly.errors import Problem
from anomaly.strict_yaml import Document, KeyPath

Place = tuple[str, ...]
"""Where a section stands in the models: names of keys, `[]` for any item of a list, `*` for any key."""

_EXPECTED = {
    "string_type": "text",
    "string_sub_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "path_type": "a path",
}

_LIMITS = {
    "greater_than": ("must be more than", "gt"),
    "greater_than_equal": ("must be at least", "ge"),
    "less_than": ("must be less than", "lt"),
    "less_than_equal": ("must be at most", "le"),
}


def explain(
    error: ValidationError, document: Document, root: type[BaseModel], told: frozenset[KeyPath] = frozenset()
) -> list[tuple[KeyPath, Problem]]:
    """One problem for each finding, at its path in the file; a value at a path in `told` is not complained of again."""
    found: list[tuple[KeyPath, str]] = []
    for detail in error.errors(include_url=False):
        path = tuple(part for part in detail["loc"] if part != "[key]")
        if detail["type"] == "refused":
            found += [((*path, *inner), what) for inner, what in detail["ctx"]["found"] if (*path, *inner) not in told]
        elif path not in told or detail["type"] == "extra_forbidden":
            found.append((path, _words(detail, path, root)))
    return [(path, document.problem(path, what)) for path, what in found]


def nearest(word: str, valid: tuple[str, ...]) -> str:
    """`; did you mean X?` or nothing, for a word that should have been one of `valid`."""
    close = get_close_matches(word.lower(), valid, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def sections(model: type[BaseModel], place: Place = ()) -> Iterator[tuple[Place, type[BaseModel]]]:
    """Every section of a model with its place, the model itself first."""
    yield place, model
    for name, field in model.model_fields.items():
        for nested, inside in _models(field.annotation, ()):
            yield from sections(nested, (*place, name, *inside))


def _models(annotation: Any, inside: Place) -> Iterator[tuple[type[BaseModel], Place]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, inside
        return
    holder = get_origin(annotation)
    within = (*inside, "[]") if holder is tuple else (*inside, "*") if holder in (dict, Mapping) else inside
    for inner in get_args(annotation):
        yield from _models(inner, within)


def section_at(root: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """The section whose entries stand at `path`, if that is a section."""
    for place, model in sections(root):
        if len(place) == len(path) and all(map(_fits, place, path)):
            return model
    return None


def _fits(spot: str, part: str | int) -> bool:
    return spot == "*" or (spot == "[]" if isinstance(part, int) else spot == part)


def _words(detail: ErrorDetails, path: KeyPath, root: type[BaseModel]) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        return _unknown(path, root)
    if kind == "missing":
        return f"is missing{_about(path, root)}"
    if kind in _EXPECTED:
        quotes = "; write it in quotes" if _EXPECTED[kind] == "text" and _is_plain(detail["input"]) else ""
        return f"is {_kind(detail['input'])} where {_EXPECTED[kind]} is expected{quotes}"
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        limit = context[key]
        return f"{words} {int(limit) if limit == int(limit) else limit:,}"
    if kind == "literal_error":
        valid = tuple(re.findall(r"'([^']*)'", str(context["expected"])))
        given = detail["input"]
        return f"must be {' or '.join(valid)}{nearest(given, valid) if isinstance(given, str) else ''}"
    if kind == "finite_number":
        return "must be a finite number"
    if kind in ("string_too_short", "too_short"):
        return "is empty; give it at least one value"
    if kind == "string_pattern_mismatch":
        return _mismatch(str(context["pattern"]))
    return str(detail["msg"]).lower()


def _mismatch(pattern: str) -> str:
    if pattern.startswith("^[a-z]["):
        return "is not a signal name; use lower-case letters, digits and _"
    return "is not a Prometheus label name; use letters, digits and _, no digit first"


def _unknown(path: KeyPath, root: type[BaseModel]) -> str:
    """An unknown key: where it belongs, what it probably should be, or what may stand there."""
    key, here = str(path[-1]), path[:-1]
    homes = [place for place, model in sections(root) if key in model.model_fields]
    inside = [place for place in homes if len(place) > len(here) and all(map(_fits, place, here))]
    if homes:
        named = sorted({_named(place) for place in inside or homes})
        return f"unknown key here; it belongs {' or '.join(named[:4])}"
    section = section_at(root, here)
    valid = tuple(section.model_fields) if section else ()
    hint = nearest(key, valid)
    return f"unknown key{hint}" if hint else f"unknown key; valid here: {', '.join(valid)}"


def _named(place: Place) -> str:
    names = [part for part in place if part not in ("[]", "*")]
    return f"under {'.'.join(names)}" if names else "at the top level"


def _about(path: KeyPath, root: type[BaseModel]) -> str:
    section = section_at(root, path[:-1])
    field = section.model_fields.get(str(path[-1])) if section else None
    about = field.description if field else None
    return f": {about[0].lower()}{about[1:]}" if about else ""


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    for kind, name in ((int, "a number"), (float, "a number"), (str, "text"), (list, "a list"), (dict, "a mapping")):
        if isinstance(value, kind):
            return name
    return "something else"
