"""What only shows when parts of a pipeline are seen together: misfits are refused, oddities are said."""

from typing import TYPE_CHECKING

from anomaly.clock import DAY, HOUR, SECOND, format_duration
from anomaly.config.types import Misfit
from anomaly.errors import Problem
from anomaly.strict_yaml import Document, KeyPath

if TYPE_CHECKING:
    from anomaly.config.pipeline import Pipeline

SOURCES = ("prometheus", "simulate", "stored")

NO_SOURCE = "has no source of samples; give exactly one of prometheus: {url: …}, simulate: {seed: …} or stored: PATH"


def source_misfit(given: set[str]) -> list[Misfit]:
    """What is wrong unless exactly one source is among the keys `given`."""
    sources = [name for name in SOURCES if name in given]
    if not sources:
        return [((), NO_SOURCE)]
    return [((name,), f"is a second source of samples beside {sources[0]}; keep one") for name in sources[1:]]


def misfits(spec: "Pipeline") -> list[Misfit]:
    """Every pair of settings that cannot both be meant."""
    found = source_misfit({name for name in SOURCES if getattr(spec, name) is not None})
    source = "prometheus" if spec.prometheus else "simulate"
    if spec.step < SECOND and spec.time_scale == 1:
        found.append(((source, "step"), "must be at least 1s; only tests with a time_scale go lower"))
    if spec.step > HOUR:
        found.append(((source, "step"), "must be at most 1h: incidents need several steps to be seen"))
    if spec.context < 4 * spec.tick:
        least = format_duration(4 * spec.tick)
        found.append((("context",), f"must be at least four ticks, here {least}; a tick is schedule.score or step"))
    kept = format_duration(spec.store.keep.samples)
    for key in ("context", "catch_up"):
        if getattr(spec, key) > spec.store.keep.samples:
            found.append(((key,), f"must be at most store.keep.samples, here {kept}"))
    urls = [manager.url for manager in spec.alertmanagers]
    for index, manager in enumerate(spec.alertmanagers):
        if spec.schedule.deliver > manager.resend:
            resend = format_duration(manager.resend)
            found.append((("schedule", "deliver"), f"must be at most alertmanagers[{index}].resend, here {resend}"))
        if manager.url in urls[:index]:
            found.append((("alertmanagers", index, "url"), "is listed twice; every Alertmanager needs each alert once"))
    return found


def oddities(spec: "Pipeline", document: Document) -> tuple[Problem, ...]:
    """What is allowed but probably not meant, for people to read."""
    found: list[tuple[KeyPath, str]] = []
    keep = spec.store.keep
    if keep.samples < DAY:
        found.append((("store", "keep", "samples"), "is under 24h: an incident of last night can't be looked at again"))
    if keep.rollups < 35 * DAY:
        found.append((("store", "keep", "rollups"), "is under 35d: baselines can't learn four weeks and a margin"))
    if spec.schedule.score < spec.step:
        found.append((("schedule", "score"), f"is shorter than the step; ticks run every {format_duration(spec.step)}"))
    if spec.schedule.collect > spec.tick:
        found.append((("schedule", "collect"), "is longer than a tick; some ticks will see nothing new"))
    if not (spec.alertmanagers or spec.webhooks or spec.jsonl):
        found.append(((), "names no alertmanagers, webhooks or jsonl: incidents are only kept in the store"))
    if spec.prometheus and spec.topology is None:
        found.append(((), "names no topology: a fault of a rack, switch or power unit shows as many of nodes"))
    return tuple(document.problem(path, what) for path, what in found)
