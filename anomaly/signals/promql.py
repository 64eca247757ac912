"""As much of PromQL as is needed to say which metrics a query reads."""

import re

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`')
_BRACES = re.compile(r"\{[^{}]*\}")
_RANGES = re.compile(r"\[[^\[\]]*\]")
_LABEL_LISTS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")
_NAME = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?![\w:])(?!\s*\()")
_KEYWORDS = frozenset(
    {"by", "without", "on", "ignoring", "group_left", "group_right", "bool", "and", "or", "unless", "offset", "atan2"}
    | {"inf", "nan", "start", "end"}
)


def metrics_in(query: str) -> tuple[str, ...]:
    """The metric names that a PromQL text reads, in order, each once. One that stands only in a matcher on `__name__`
    is not found."""
    text = _RANGES.sub(" ", _BRACES.sub(" ", _STRINGS.sub(" ", query)))
    text = _LABEL_LISTS.sub(" ", text)
    return tuple(dict.fromkeys(name for name in _NAME.findall(text) if name.lower() not in _KEYWORDS))
