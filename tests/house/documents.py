"""What documents promise, taken out of their Markdown: commands, options, make targets, paths."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/bin/)?(anomaly|make) +(.*)$")
_PATH = re.compile(r"^(?:anomaly|notebooks|models|pipelines|tests|\.ci)/[\w./-]*$")


@dataclass(frozen=True, slots=True)
class Command:
    """One command line as written: `anomaly` or `make`, and the words after it."""

    program: str
    words: tuple[str, ...]

    @property
    def verb(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(word.partition("=")[0] for word in self.words[1:] if word.startswith("-") and len(word) > 1)


def code(markdown: str) -> Iterator[str]:
    """Every line of a fenced block, continued lines joined, and every code span."""
    for block in _FENCE.findall(markdown):
        yield from block.replace("\\\n", " ").splitlines()
    yield from _SPAN.findall(_FENCE.sub("", markdown))


def commands(markdown: str) -> list[Command]:
    """The command lines for `anomaly` and `make` in a document's code, comments cut off."""
    found = (_COMMAND.match(line.strip()) for line in code(markdown))
    lines = ((match[1], re.split(r"\s#\s", match[2])[0]) for match in found if match)
    return [Command(program, tuple(re.sub(r"[][]", " ", rest).split())) for program, rest in lines]


def paths(markdown: str) -> list[str]:
    """The project's own files and folders named in code spans; those with a placeholder or wildcard are left out."""
    return [span for span in _SPAN.findall(_FENCE.sub("", markdown)) if _PATH.match(span)]


def make_targets(makefile: Path) -> set[str]:
    """The targets a person may call."""
    [phony] = re.findall(r"^\.PHONY: (.*)$", makefile.read_text(), re.MULTILINE)
    return set(phony.split())
