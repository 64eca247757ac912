"""YAML read strictly: plain data, the line of every key, and a word about everything YAML would silently misread.

PyYAML's safe loader accepts duplicate keys, reads unquoted `3:15` as 195 and `no` as false (YAML 1.1). Here a scalar
means what YAML 1.2 and a reader both think it means, or it is a problem. Values never stand in a message: they may be
secrets.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from anomaly.errors import ConfigError, Problem

KeyPath = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_NODES = 50_000
"""After aliases are followed: a small file of nested aliases can stand for billions of values."""

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_DIGITS = re.compile(r"[-+]?[0-9]+")
_INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_TAG = "tag:yaml.org,2002:"

_MISREAD = {
    "bool": "unquoted, YAML takes this word for true or false; write true or false, or put it in quotes",
    "int": "unquoted, YAML can take this for another number (3:15 is 195, 010 is 8); put text in quotes, "
    "write numbers in plain decimals",
}
_MISREAD["float"] = _MISREAD["int"]


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document as plain data (dict, list, str, int, float, bool, None), with where each part stands.

    `lines` maps the path of every key and list item to its line, counted from 1. `problems` are mistakes that left
    data to go on with (duplicate keys, misread scalars), so that a caller can report its own beside them; `suspect`
    holds their paths.
    """

    file: str
    data: Any
    lines: Mapping[KeyPath, int]
    problems: tuple[Problem, ...]
    suspect: frozenset[KeyPath]

    def line_of(self, path: KeyPath) -> int:
        """The line of `path`, or of the nearest part around it that has one."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return 1

    def problem(self, path: KeyPath, what: str) -> Problem:
        """A mistake at `path`, said with file, line and key."""
        return Problem(self.file, self.line_of(path), format_path(path), what)


def format_path(path: KeyPath) -> str:
    """("alertmanagers", 0, "url") → `alertmanagers[0].url`."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


def load(path: Path) -> Any:
    """The data of a file without any problem. Raises ConfigError with all of them."""
    document = read(path)
    if document.problems:
        raise failure(document.file, document.problems)
    return document.data


def read(path: Path) -> Document:
    """A file's document. Raises ConfigError when it cannot be read at all; see `Document.problems` for the rest."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no such path"
        raise ConfigError(f"{path}: cannot be read: {reason}", "give the path of a readable YAML file") from error
    return parse(raw, str(path))


def parse(raw: bytes, file: str) -> Document:
    """The one document in `raw`; `file` is its name in messages. Raises ConfigError when there is none."""
    if len(raw) > MAX_BYTES:
        raise _broken(file, 0, f"is larger than {MAX_BYTES // 1024} KiB; this is not a configuration file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _broken(file, line, "is not UTF-8 text; save the file as UTF-8") from error
    try:
        node = _compose(text)
    except yaml.YAMLError as error:
        line, what = _explain(error, text)
        raise _broken(file, line, what) from error
    except (ValueError, OverflowError) as error:  # an escape beyond Unicode, from inside PyYAML's scanner
        raise _broken(file, 0, "has a character escape that stands for no character; correct it") from error
    if node is None:
        raise _broken(file, 0, "is empty")
    builder = _Builder(file)
    data = builder.build(node, (), ())
    return Document(file, data, builder.lines, tuple(builder.problems), frozenset(builder.suspect))


def failure(file: str, problems: tuple[Problem, ...]) -> ConfigError:
    """One error for all problems of a file, in the order of its lines."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    ordered = tuple(sorted(problems, key=lambda problem: problem.line))
    return ConfigError(f"{file}: {count}", "correct the file and try again", ordered)


def _broken(file: str, line: int, what: str) -> ConfigError:
    return failure(file, (Problem(file, line, "", what),))


class _Refused(yaml.MarkedYAMLError):
    """Something that is YAML but more than a configuration file needs; `problem` is already in our words."""

    def __init__(self, what: str, node: Any) -> None:
        super().__init__(None, None, what, node.start_mark)


class _Loader(yaml.SafeLoader):
    """Composes nodes only, and refuses to go deep or on for ever."""

    depth = 0
    nodes = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        self.depth += 1
        self.nodes += 1
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if self.depth > MAX_DEPTH:
            raise _Refused(f"is nested more than {MAX_DEPTH} levels deep; flatten it", event)
        if self.nodes > MAX_NODES:
            raise _Refused(f"has more than {MAX_NODES} values; this is not a configuration file", event)
        if getattr(event, "tag", None) is not None:
            raise _Refused("has a YAML tag (!…) here; write plain values, and text that begins with ! in quotes", event)
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _compose(text: str) -> Node | None:
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


class _Builder:
    """Turns nodes into plain data and notes the line of every path."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self.suspect: set[KeyPath] = set()
        self.noted: set[tuple[int, str]] = set()
        self.built = 0

    def build(self, node: Node, path: KeyPath, open_nodes: tuple[int, ...]) -> Any:
        self.built += 1
        if self.built > MAX_NODES:
            raise _broken(self.file, _line(node), f"stands for more than {MAX_NODES} values through its aliases")
        if id(node) in open_nodes or len(open_nodes) > MAX_DEPTH:
            raise _broken(self.file, _line(node), "has an anchor that contains itself, or aliases nested too deep")
        self.lines.setdefault(path, _line(node))
        inside = (*open_nodes, id(node))
        if isinstance(node, MappingNode):
            return self.mapping(node, path, inside)
        if isinstance(node, SequenceNode):
            return [self.build(item, (*path, index), inside) for index, item in enumerate(node.value)]
        return self.scalar(node, path)

    def mapping(self, node: MappingNode, path: KeyPath, inside: tuple[int, ...]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        self.fill(out, node, path, inside, merging=False)
        return out

    def fill(
        self, out: dict[str, Any], node: MappingNode, path: KeyPath, inside: tuple[int, ...], *, merging: bool
    ) -> None:
        """Adds a mapping's entries; its own keys first, then what `<<` brings, the first source of a key winning."""
        sources: list[Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge" and not _quoted(key_node):
                sources += value_node.value if isinstance(value_node, SequenceNode) else [value_node]
                continue
            key = self.key(key_node, path)
            if key is None:
                continue
            here = (*path, key)
            if key in out:
                if not merging:
                    self.note(here, key_node, f"stands here a second time (first on line {self.lines[here]}); keep one")
                continue
            self.lines[here] = _line(key_node)
            out[key] = self.build(value_node, here, inside)
        for source in sources:
            if not isinstance(source, MappingNode):
                self.note(path, source, "merges (<<) something that is not a mapping")
            elif id(source) in inside:
                raise _broken(self.file, _line(source), "has an anchor that contains itself")
            else:
                self.fill(out, source, path, (*inside, id(source)), merging=True)

    def key(self, node: Node, path: KeyPath) -> str | None:
        """A mapping's key, which must be text."""
        if isinstance(node, ScalarNode):
            misread = _misread(node)
            value = node.value if misread or _quoted(node) else _plain(node.value)
            if isinstance(value, str) and value and _sound(value):
                if misread:
                    self.note((*path, value), node, misread)
                return value
        self.note(path, node, "has a key that is not text; write keys as words, or in quotes")
        return None

    def scalar(self, node: Node, path: KeyPath) -> Any:
        text: str = node.value
        if not _sound(text):
            self.note(path, node, "has a character that is half of another (a surrogate) or NUL; correct the escape")
            return ""
        if _quoted(node):
            return text
        misread = _misread(node)
        if misread:
            self.note(path, node, misread)
            return text
        return _plain(text)

    def note(self, path: KeyPath, node: Node, what: str) -> None:
        """One problem per place in the text, however many aliases lead there."""
        self.suspect.add(path)
        if (id(node), what) not in self.noted:
            self.noted.add((id(node), what))
            self.problems.append(Problem(self.file, _line(node), format_path(path), what))


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _sound(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _plain(text: str) -> str | int | float | bool | None:
    """An unquoted scalar by YAML 1.2's core rules, decimal numbers only; dates stay text."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text)
    if (_FLOAT.fullmatch(text) and not _DIGITS.fullmatch(text)) or _INFINITE.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _quoted(node: Node) -> bool:
    return getattr(node, "style", None) is not None


def _misread(node: Node) -> str | None:
    """Why this unquoted scalar would be something else to a YAML 1.1 reader, if it would."""
    if _quoted(node) or not isinstance(_plain(node.value), str):
        return None
    return _MISREAD.get(node.tag.removeprefix(_TAG))


_WORDS = (
    ("cannot start any token", "has a character here that must be quoted at the start of a value"),
    ("expected a single document", "holds several documents (---); keep one per file"),
    ("undefined alias", "has an unquoted * here, an alias to an anchor that does not exist; put text with * in quotes"),
    ("duplicate anchor", "defines the same anchor twice; rename one"),
    ("could not find expected ':'", "has a key without ':' (or with no space after it) here"),
    ("mapping values are not allowed", "has a ':' where none can be; mind the indentation, quote text with ': '"),
    ("unexpected end of stream", "ends inside a quoted text; close the quote"),
    ("expected ',' or", "has a list or mapping in brackets that is not closed, or lacks a comma, here"),
    ("expected '<document start>'", "is indented wrongly here; align it with its neighbours"),
    ("expected <block end>", "is indented wrongly here, or a quote above is not closed; align it with its neighbours"),
    ("sequence entries are not allowed", "has a list item where none can be; start it on a line of its own"),
    ("escape", "has an unknown escape in a quoted text; use single quotes for text with a backslash"),
)


def _explain(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """(line, what is wrong) for anything PyYAML finds. Its own text may quote values, so ours is said instead."""
    if isinstance(error, yaml.reader.ReaderError):
        position = error.position if isinstance(error.position, int) else 0
        return text.count("\n", 0, position) + 1, "has a control character that no text file should have; remove it"
    context, problem = str(getattr(error, "context", "") or ""), str(getattr(error, "problem", "") or "")
    mark = getattr(error, "problem_mark", None)
    if "quoted scalar" in context or "flow" in context:  # what is left open is found far below where it was opened
        mark = getattr(error, "context_mark", None) or mark
    line = mark.line + 1 if mark else 0
    if isinstance(error, _Refused):
        return line, problem
    if "'\\t'" in problem or (mark and "\t" in _indent(text, mark.line)):
        return line, "has a tab; YAML takes spaces only, in indentation and after values"
    found = f"{context} {problem}"
    words = next((words for sign, words in _WORDS if sign in found), "is not YAML here; compare with a working file")
    return line, words


def _indent(text: str, line: int) -> str:
    lines = text.splitlines()
    return lines[line][: -len(lines[line].lstrip()) or None] if line < len(lines) else ""
