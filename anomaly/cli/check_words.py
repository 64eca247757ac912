"""What `anomaly check --against` says: at most 50 lines of 110 columns for the pipeline that everybody copies."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from anomaly.cli.lookup import wrapped
from anomaly.cli.tables import span, table
from anomaly.clock import Ms, format_duration, format_time

if TYPE_CHECKING:
    from anomaly.jobs.capacity import Capacity
    from anomaly.jobs.check import Seen
    from anomaly.jobs.parts import Parts

WIDTH = 110


def listing(seen: Sequence["Seen"], now: Ms) -> str:
    """A row for each signal that is there, and how many those are by layer."""
    rows = [_row(each, now) for each in seen if each.there]
    layers = dict.fromkeys(each.layer for each in seen)
    count = Counter(each.layer for each in seen)
    there = Counter(each.layer for each in seen if each.there)
    shares = ", ".join(f"{layer} {there[layer]}/{count[layer]}" for layer in layers)
    last = f"{len(rows)} of {len(seen)} signals are there: {shares}"
    headers = ["SIGNAL", "METRIC", "SERIES", "ENTITIES", "EVERY", "AGE", "SEEN"]
    return table(headers, rows, width=WIDTH, give=1) + f"\n{last}"


def listing_json(seen: Sequence["Seen"], paragraphs: Sequence[str]) -> str:
    """The same for programs; `advice` in words."""
    signals = [
        {
            "signal": each.signal,
            "layer": each.layer,
            "metric": each.metric or None,
            "series": each.series,
            "entities": each.entities,
            "unidentified": each.unidentified,
            "every_seconds": None if each.every is None else each.every / 1000,
            "newest": None if each.newest is None else format_time(each.newest),
            "share": each.share,
            "without": list(each.without),
            "asked": each.asked,
            "error": each.error or None,
        }
        for each in seen
    ]
    body = {"signals": signals, "advice": [" ".join(text.split()) for text in paragraphs]}
    return json.dumps(body, indent=2, ensure_ascii=False)


def _row(each: "Seen", now: Ms) -> list[str]:
    newest = each.newest if each.newest is not None else now
    strange = f"; {each.unidentified} series name nobody" if each.unidentified else ""
    share = "" if each.share is None else _percent(each.share)
    every = "" if each.every is None else format_duration(each.every)
    return [
        each.signal,
        each.metric or each.asked,
        str(each.series),
        str(each.entities),
        every,
        span(now - newest),
        share + strange,
    ]


def _percent(share: float) -> str:
    """Never 100 % while anything is missing."""
    return f"{min(share, 0.99):.0%}" if share < 1 else "100%"


def advice(parts: "Parts", seen: Sequence["Seen"], now: Ms) -> Iterator[str]:
    """What to change, one paragraph each: what cannot be seen, what comes too seldom, training, storage."""
    from anomaly.errors import SourceError
    from anomaly.jobs.capacity import capacity
    from anomaly.jobs.proposals import propose
    from anomaly.source import Explorable

    yield from _errors(seen)
    yield from _blind(seen)
    yield from _partly(seen)
    yield from _slow(parts, seen)
    source = parts.source
    names: tuple[str, ...] = ()
    if isinstance(source, Explorable):
        missing = [parts.catalogue[each.signal] for each in seen if not each.there and not each.error]
        try:
            names = source.label_values("__name__")
            proposals = propose(source, missing, names, parts.job_labels, now)
        except SourceError:
            proposals = []  # a backend without that question; the rest stands
        if proposals:
            yield "These may be what you call them (look before you paste):\nsignals:"
        for found in proposals:
            yield "\n".join([f"  {found.signal}:", "    query: >-", *(f"      {line}" for line in found.query)])
    found_capacity = capacity(source, seen, names, now)
    if found_capacity is not None:
        yield wrapped(_storage(found_capacity), width=WIDTH, indent="  ", first="")


def _errors(seen: Sequence["Seen"]) -> Iterator[str]:
    for each in seen:
        if each.error:
            yield wrapped(f"{each.signal} could not be asked for: {each.error}", width=WIDTH, indent="  ", first="")


def _blind(seen: Sequence["Seen"]) -> Iterator[str]:
    """Signals that are missing for the same reason stand together."""
    groups: dict[str, list[str]] = {}
    for each in seen:
        if not each.there and not each.error:
            remedy = each.enable or f"nothing answers to {each.asked}"
            doubt = "" if each.verified else " (unverified)"  # the name it is asked for by may be wrong
            groups.setdefault(remedy, []).append(each.signal + doubt)
    if groups:
        yield "Blind spots, which nobody judges, and what opens them:"
    for remedy, signals in groups.items():
        yield wrapped(f"{', '.join(signals)}: {remedy}", width=WIDTH, indent="    ", first="  ")


def _partly(seen: Sequence["Seen"]) -> Iterator[str]:
    """Who lacks what others have, or has a target that does not answer."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for each in seen:
        if each.without:
            groups.setdefault(each.without, []).append("a target" if each.signal == "up" else each.signal)
    for names, signals in groups.items():
        text = f"missing on {_few(names)}: {_few(signals)}"
        yield wrapped(text, width=WIDTH, indent="    ", first="  ")


def _few(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _slow(parts: "Parts", seen: Sequence["Seen"]) -> Iterator[str]:
    """Pulling finer than samples come only repeats them, and two samples are no window."""
    step = parts.pipeline.step
    slow: dict[Ms, list[str]] = {}
    for each in seen:
        if each.every is not None and each.every > parts.catalogue[each.signal].native(step):
            slow.setdefault(each.every, []).append(each.signal)
    for every, signals in sorted(slow.items()):
        few = f"{', '.join(signals[:3])}{f' and {len(signals) - 3} more' if len(signals) > 3 else ''}"
        text = (
            f"{few}: a new value every {format_duration(every)} only; set `prometheus.step` or their `interval` to that"
        )
        yield wrapped(text, width=WIDTH, indent="  ", first="")


def _storage(found: "Capacity") -> str:
    from anomaly.jobs.capacity import BANDWIDTH_SIGNAL, SHARE

    low, high = (_bytes(share * found.memory) for share in SHARE)
    rule = f"{SHARE[0]:.0%} to {SHARE[1]:.0%} of the memory bandwidth of {found.gpus} GPUs, {low} to {high}"
    if found.ratio is None or found.storage is None:
        return (
            f"storage should read {rule} (a rule of thumb): no metric says what it does; give "
            f"`signals: {BANDWIDTH_SIGNAL}` (bytes/s) to compare"
        )
    enough = found.ratio >= SHARE[0]
    if found.stated:
        verdict = "enough" if enough else "too little: expect the GPUs to wait for data and checkpoints"
        return f"storage reads {_bytes(found.storage)}; it should read {rule} (a rule of thumb): {verdict}"
    verdict = "it is enough" if enough else f"say what it can do under `signals: {BANDWIDTH_SIGNAL}` (bytes/s)"
    return (
        f"storage read at most {_bytes(found.storage)} within a day ({found.metric}); it should be able to read {rule} "
        f"(a rule of thumb): {verdict}"
    )


def _bytes(rate: float) -> str:
    for unit, size in (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6)):
        if rate >= size:
            return f"{rate / size:.3g} {unit}"
    return f"{rate:.3g} B/s"
