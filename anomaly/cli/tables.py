"""Plain text tables, at most 100 columns wide, and incidents as such a table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from anomaly.clock import DAY, HOUR, MINUTE, SECOND, Ms, format_time, parse_time

WIDTH = 100

Line = Mapping[str, Any]
"""An incident in the contract's JSON form."""

LEVELS = {"critical": "page", "warning": "ticket", "info": "note"}
_COLOURS = {"page": "red", "ticket": "yellow"}


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = WIDTH, give: int = -1) -> str:
    """Left-aligned columns; where they do not fit, column `give` first and then the widest is cut with an `…`."""
    cells = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    least = [len(header) for header in headers]
    spare = sum(widths) + 2 * (len(widths) - 1) - width
    if spare > 0:
        cut = min(spare, max(0, widths[give] - max(least[give], 12)))
        widths[give] -= cut
        spare -= cut
    while spare > 0:
        widest = max(range(len(widths)), key=lambda i: widths[i] - least[i])
        if widths[widest] <= least[widest]:
            break
        widths[widest] -= 1
        spare -= 1
    lines = [_row(headers, widths), *(_row(row, widths) for row in cells)]
    return "\n".join([click.style(lines[0], bold=True), *(_coloured(line) for line in lines[1:])])


def latest(lines: Iterable[Line]) -> list[Line]:
    """The newest line of every incident, by onset."""
    newest: dict[str, Line] = {}
    for line in lines:
        newest[line["id"]] = line
    return sorted(newest.values(), key=lambda line: (parse_time(line["onset"]), line["id"]))


def incident_table(incidents: Sequence[Line], *, ids: bool = False) -> str:
    """One row an incident: since when, how fast found, how loud, where, why, who suffers; evidence or its id last."""
    headers = ["SINCE (UTC)", "FOUND", "LASTED", "LEVEL", "WHERE", "CAUSE", "IMPACT", "VICTIMS"]
    rows = [[*_facts(line), line["id"] if ids else _evidence(line)] for line in incidents]
    return table([*headers, "ID" if ids else "EVIDENCE"], rows, give=4 if ids else -1)


def _facts(line: Line) -> list[str]:
    onset = parse_time(line["onset"])
    where = line["node"] or line["group"] or ""
    if line["scope"] != "node" and len(line["nodes"]) > 1:
        where = f"{where} ×{len(line['nodes'])}"
    impact = line["impact_ratio"]
    return [
        minute(onset)[5:],
        f"+{span(parse_time(line['fired_at']) - onset)}" if line["fired_at"] else "",
        _lasted(line, onset),
        LEVELS[line["severity"]],
        where,
        line["cause"],
        "?" if impact is None else f"{impact:.0%}",
        str(len(line["victims"]) or "-"),
    ]


def _lasted(line: Line, onset: Ms) -> str:
    if line["resolved_at"] is None:
        return "lost" if line.get("phase") == "lost_sight" else "open"
    return span(parse_time(line["resolved_at"]) - onset)


def _evidence(line: Line) -> str:
    signals = [item["signal"] for item in line["evidence"]] + list(line["signals"])
    names = list(dict.fromkeys(signals))
    return names[0] + (f" +{len(names) - 1}" if len(names) > 1 else "") if names else ""


def minute(instant: Ms) -> str:
    """`2026-11-30 10:00`, UTC."""
    return format_time(instant)[:16].replace("T", " ")


def span(duration: Ms) -> str:
    """A duration to two units: `5m15s`, `1h20m`, `3d4h`."""
    rest = max(0, round(duration / SECOND)) * SECOND
    for unit, smaller, a, b in ((DAY, HOUR, "d", "h"), (HOUR, MINUTE, "h", "m"), (MINUTE, SECOND, "m", "s")):
        if rest >= unit:
            whole, part = rest // unit, rest % unit // smaller
            return f"{whole}{a}{part}{b}" if part else f"{whole}{a}"
    return f"{rest // SECOND}s"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    cut = [cell if len(cell) <= size else cell[: size - 1] + "…" for cell, size in zip(cells, widths, strict=True)]
    return "  ".join(f"{cell:<{size}}" for cell, size in zip(cut, widths, strict=True)).rstrip()


def _coloured(row: str) -> str:
    for level, colour in _COLOURS.items():
        if f"  {level} " in row:
            return row.replace(f"  {level} ", f"  {click.style(level, fg=colour)} ", 1)
    return row


def _printable(cell: str) -> str:
    """Names come from labels, which may hold anything: no control character reaches a terminal."""
    return "".join(char if char.isprintable() else "?" for char in cell)
