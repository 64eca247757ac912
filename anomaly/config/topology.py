"""The topology file: which rack, leaf, power domain, SKU … each node belongs to."""

import csv
from pathlib import Path

from anomaly.errors import ConfigError, Problem
from anomaly.records import Topology

_NODE = ("node", "host", "hostname", "name")


def read_topology(path: Path) -> Topology:
    """A CSV with a header: a `node` column, and any others, each a kind of group. Empty cells mean "no such group".

    Raises ConfigError with every problem: no header, no node column, a node twice, a row with another number of cells.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the topology file {path} cannot be read: {error}", "correct `topology.file`, or remove it"
        ) from error
    rows = list(csv.reader(text.splitlines()))
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    key = next((header.index(name) for name in _NODE if name in header), None)
    if key is None:
        what = f"the first line must name a `node` column and one column per kind of group, not {header or 'nothing'}"
        raise _wrong((Problem(str(path), 1, "", what),))
    problems: list[Problem] = []
    seen: set[str] = set()
    groups: dict[str, dict[str, str]] = {kind: {} for i, kind in enumerate(header) if i != key and kind}
    for line, row in enumerate(rows[1:], start=2):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if len(cells) != len(header):
            problems.append(Problem(str(path), line, "", f"has {len(cells)} cells, the header has {len(header)}"))
            continue
        node = cells[key]
        if not node or node in seen:
            problems.append(Problem(str(path), line, node, "is there twice" if node else "names no node"))
            continue
        seen.add(node)
        for kind, cell in zip(header, cells, strict=True):
            if cell and kind in groups:
                groups[kind][node] = cell
    if problems:
        raise _wrong(tuple(problems))
    return Topology(groups)


def _wrong(problems: tuple[Problem, ...]) -> ConfigError:
    return ConfigError("the topology file is not usable:", "correct these lines", problems)
