"""A small cluster in which what a public thread tells happens again, through the production ticks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anomaly.pipeline import Spec, Tick
from anomaly.records import Floats, Labels, Severity, Topology
from anomaly.signals.catalogue import load_catalogue
from tests.scenarios.cluster import STEP, Cluster, JobPlan, minute
from tests.scenarios.export import export
from tests.scenarios.happenings import HAPPENINGS
from tests.scenarios.play import PACKS, Scenario, Service, Story, broken_laws, build, stories

NODES = tuple(f"node-{i}" for i in range(1, 7))
GPUS, RAILS = 2, 2
AT, UNTIL = 15, 30
"""Minutes: long enough after the beginning for load gates, and between which most things happen."""

Change = Callable[[Cluster], None]


@dataclass(frozen=True)
class Told:
    """What was said, from the first tick to the last."""

    ticks: Sequence[Tick]
    stories: Sequence[Story]

    @property
    def loud(self) -> list[str]:
        """Pages and tickets: `node/node-2 gpu_lost critical`."""
        return sorted(_line(story) for story in self.stories if story.severity is not Severity.INFO)

    @property
    def notes(self) -> list[str]:
        return sorted(_line(story) for story in self.stories if story.severity is Severity.INFO)

    def story(self, who: str) -> Story:
        [found] = [story for story in self.stories if str(story.incident.entity) == who]
        return found

    @property
    def dropped(self) -> set[tuple[str, str, str]]:
        """(entity, signal, reason) of all that was set aside."""
        return {
            (str(drop.finding.entity), drop.finding.signal, drop.reason)
            for tick in self.ticks
            for drop in tick.denoised.dropped
        }


def _line(story: Story) -> str:
    return f"{story.incident.entity} {story.incident.cause} {story.severity}"


def happens(what: str, at: float = AT, until: float | None = UNTIL, **more: Any) -> Change:
    """A word of the scenarios' timelines."""

    def change(cluster: Cluster) -> None:
        HAPPENINGS[what](cluster, {"at": at, "until": until, **more})

    return change


def play(
    *changes: Change,
    minutes: int = 45,
    nodes: int = len(NODES),
    jobs: Iterable[JobPlan] = (JobPlan("train-a", NODES),),
    packs: Sequence[str] = (),
    signals: Mapping[str, Any] | None = None,
    groups: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
) -> Told:
    """The cluster with `changes`, collected with the default packs and `packs`, and with `signals` of one's own."""
    found = service(*changes, minutes=minutes, nodes=nodes, jobs=jobs, packs=packs, signals=signals, groups=groups)
    found.run(minute(minutes))
    assert not broken_laws(found.ticks)
    return Told(found.ticks, stories(found.ticks))


def service(
    *changes: Change,
    minutes: int = 45,
    nodes: int = len(NODES),
    jobs: Iterable[JobPlan] = (JobPlan("train-a", NODES),),
    packs: Sequence[str] = (),
    signals: Mapping[str, Any] | None = None,
    groups: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
) -> Service:
    cluster = build(Scenario("", minutes, nodes, GPUS, RAILS, jobs=tuple(jobs), groups=groups or {}))
    for change in changes:
        change(cluster)
    catalogue = load_catalogue(("dcgm", *PACKS, *packs), signals)
    return Service(Spec("test", STEP, catalogue, Topology(cluster.groups)), export(cluster, catalogue, {}))


def series(signal: str, labels: Labels, values: Callable[[Cluster], Floats]) -> Change:
    """A further series of any signal."""

    def change(cluster: Cluster) -> None:
        cluster.further.setdefault(signal, []).append((labels, values(cluster)))

    return change


def on_every_gpu(signal: str, values: Callable[[Cluster, str, str], Floats], metric: str = "", **labels: str) -> Change:
    """A further series of each GPU: `values(cluster, node, gpu)`."""

    def change(cluster: Cluster) -> None:
        for node, gpu in cluster.gpu_keys(cluster.nodes):
            name = {"__name__": metric} if metric else {}
            found = {**name, "instance": f"{node}:9400", "Hostname": node, "gpu": gpu, **labels}
            cluster.further.setdefault(signal, []).append((found, values(cluster, node, gpu)))

    return change


def counted(cluster: Cluster, per_second: Floats | float, start: float = 0.0) -> Floats:
    """A rate as its counter."""
    rate = np.broadcast_to(np.asarray(per_second, float), cluster.times.shape)
    total: Floats = start + np.floor(np.cumsum(rate * STEP / 1000) + 1e-6)
    return total


def while_it_lasts(
    cluster: Cluster, value: float, at: float = AT, until: float | None = UNTIL, rest: float = 0.0
) -> Floats:
    """`value` from minute `at` until minute `until`, `rest` otherwise."""
    out: Floats = np.where(cluster.during(at, until), value, rest)
    return out
