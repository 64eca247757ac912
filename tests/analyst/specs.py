"""Reading a chart's Vega-Lite spec: its data, its layers, its words."""

from collections.abc import Iterator
from typing import Any

Spec = dict[str, Any]


def views(spec: Spec) -> Iterator[Spec]:
    """Every view that draws something."""
    parts = [part for key in ("layer", "vconcat", "hconcat", "concat") for part in spec.get(key, [])]
    for part in parts:
        yield from views(part)
    if "mark" in spec:
        yield spec


def data_of(top: Spec) -> list[list[Spec]]:
    """The rows of every data set that the chart draws."""
    if "values" in top.get("data", {}):
        return [top["data"]["values"]]
    return list(top.get("datasets", {}).values())


def rows_with(top: Spec, *fields: str) -> list[Spec]:
    """All rows that have these fields."""
    return [row for rows in data_of(top) for row in rows if set(fields) <= set(row)]


def words(spec: Any) -> str:
    """All titles and texts."""
    if isinstance(spec, dict):
        return " ".join(words(value) for key, value in spec.items() if key not in ("datasets", "data"))
    if isinstance(spec, list):
        return " ".join(map(words, spec))
    return str(spec)
