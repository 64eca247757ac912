"""Published conclusions, and finding in them what a person means."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anomaly.clock import Ms, format_time
from anomaly.errors import UsageError

if TYPE_CHECKING:
    from anomaly.records import Incident

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """What a service has published about incidents: those that ever fired, by onset, and up to when it has judged."""

    state: Path
    directory: Path
    incidents: tuple["Incident", ...]
    through: Ms | None

    def rows(self, table: str, start: Ms | None = None, end: Ms | None = None) -> list[dict[str, Any]]:
        """Rows of a published table; of one in parts, those of the parts that overlap [start, end]."""
        from anomaly.store.published import read_table

        found = read_table(self.directory, table, start, end)
        return [] if found is None else list(found.to_pylist())

    def events(self, incident: str) -> list[tuple[Ms, dict[str, Any]]]:
        """The lines told about one incident: (tick, line), in order."""
        import json

        first = next((each.onset for each in self.incidents if each.id == incident), None)
        rows = [row for row in self.rows("incident_events", first) if row["incident_id"] == incident]
        return [(row["tick_at"], json.loads(row["body"])) for row in sorted(rows, key=lambda row: row["seq"])]

    def marks(self, incident: str | None = None) -> list[dict[str, Any]]:
        """What people said (of one incident), oldest first."""
        return [row for row in self.rows("incident_marks") if incident in (None, row["incident_id"])]

    def labels(self) -> dict[str, str]:
        """Incident → its newest label."""
        return {row["incident_id"]: row["label"] for row in self.marks() if row["kind"] == "label"}

    def nodes(self) -> set[str]:
        """Every node that series or coverage know."""
        known = {row["name"] for row in self.rows("series") if row["kind"] == "node"}
        return known or {node for incident in self.incidents for node in incident.nodes}


def told(state: Path) -> Told:
    """What is published under `state`. Raises StoreError when nothing is."""
    from anomaly.jobs.parts import PUBLISHED
    from anomaly.records import Phase
    from anomaly.store.published import manifest, read_incidents

    directory = state / PUBLISHED
    through = manifest(directory)["scored_through"]
    found = tuple(each for each in read_incidents(directory) if each.phase is not Phase.PENDING)
    return Told(state, directory, found, through)


def by_id(known: Told, text: str) -> "Incident":
    """The incident whose id begins with `text`. Raises UsageError with the nearest or the newest ones."""
    found = [each for each in known.incidents if text and each.id.startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{text!r} is the beginning of {len(found)} ids", f"give more of one: {_list(found)}")
    if not known.incidents:
        raise UsageError(f"there is no incident {text!r}, and none at all yet", _judged(known))
    near = get_close_matches(text, [each.id for each in known.incidents], 3, 0.7)
    hint = [each for each in known.incidents if each.id in near]
    which = f"did you mean {_list(hint)}" if hint else f"the newest are {_list(known.incidents[-3:][::-1])}"
    raise UsageError(f"there is no incident {text!r}", f"{which}; `anomaly incidents` lists them")


def by_id_or_name(known: Told, text: str) -> "Incident":
    """The incident with this id, or the newest one (an open one first) about the node, group or job of this name.

    A node that has none of its own stands for the incident that it is a member or a victim of.
    """
    from anomaly.records import Phase

    if any(text and each.id.startswith(text.lower()) for each in known.incidents):
        return by_id(known, text)
    own = [each for each in known.incidents if each.entity.name == text]
    member = [each for each in known.incidents if text in each.nodes or text in each.victims]
    for found in (own, member):
        if found:
            return max(found, key=lambda each: (each.phase is Phase.FIRING, each.onset))
    names = {each.entity.name for each in known.incidents} | known.nodes()
    if text in names:
        raise UsageError(f"{text} has had no incident", f"`anomaly why {text} --state {known.state}` says more")
    near = get_close_matches(text, sorted(names), 3, 0.7)
    if near and not _like_an_id(text):
        raise UsageError(f"there is no incident and no node {text!r}", f"did you mean {' or '.join(near)}")
    return by_id(known, text)


def node_called(known: Told, text: str) -> str:
    """The node of this name. Raises UsageError with near names."""
    names = known.nodes()
    if text in names:
        return text
    near = get_close_matches(text, sorted(names), 3, 0.6) or sorted(names)[:3]
    raise UsageError(
        f"nothing is known of a node {text!r}", f"did you mean {' or '.join(near)}" if near else _judged(known)
    )


def _like_an_id(text: str) -> bool:
    return len(text) > 3 and all(char in "0123456789abcdef" for char in text.lower())


def _list(incidents: Sequence["Incident"]) -> str:
    return ", ".join(f"{each.id} ({each.entity.name}, {format_time(each.onset)})" for each in incidents[:3])


def _judged(known: Told) -> str:
    return f"scored up to {format_time(known.through)}" if known.through else "nothing has been scored yet"


def waiting(known: Told, incident: str) -> list[str]:
    """What lies in the inbox about an incident and has not been taken in: `close`, `mark`."""
    import json

    from anomaly.jobs.parts import INBOX

    out = []
    for path in sorted((known.state / INBOX).glob("*.json")):
        try:
            item = json.loads(path.read_text(encoding="utf-8"))
            if item["payload"]["incident"] == incident:
                out.append(str(item["kind"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # taken in meanwhile, or not ours
    return out


def paragraphs(parts: Iterable[str]) -> str:
    """Texts that are not empty, a blank line between them."""
    return "\n\n".join(part for part in parts if part)


def wrapped(text: str, *, width: int = 100, indent: str = "", first: str | None = None) -> str:
    """Text broken into lines of at most `width`, the later ones indented; words are never cut."""
    from textwrap import fill

    return fill(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
