"""The second opinion within a tick: the node cube of a block, what the model says of it, and what follows from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anomaly.clock import Ms, align_down
from anomaly.detect import forest_fusion
from anomaly.detect.forest import NodeModel, Opinions, judge
from anomaly.detect.forest_fusion import FOREST, SUFFIX
from anomaly.detect.habit import Habit, no_habit, usual
from anomaly.detect.runs import Run
from anomaly.detect.runs import advance as advance_runs
from anomaly.detect.scored import Profile, Scored
from anomaly.features.cube import FEATURES, NodeCube, Trace, build_cube, signals_of
from anomaly.features.index import Names
from anomaly.judge import Scene, residual_panel
from anomaly.panels import Rows
from anomaly.records import Bools, Entity, Finding
from anomaly.signals.catalogue import Catalogue

Runs = dict[str, dict[str, Run]]


def node_cube(
    catalogue: Catalogue,
    scene: Scene,
    entities: Names,
    habits: Mapping[str, Habit],
    features: Sequence[str],
    times: Sequence[Ms],
    window: Ms,
    traces: Mapping[str, Trace] | None = None,
) -> NodeCube:
    """The cube at `times` (within one habit bucket), each value from the samples in (time - window, time].

    `traces` are what `traces_of` gives for a range around them, where several buckets share it.

    Devices are held against their peers as their own detector does it, less what is usual for them; where that is not
    known yet, they are unknown.
    """
    at = np.array(times, np.int64)
    since, until = int(at[0]) - window, int(at[-1])
    if traces is None:
        traces = traces_of(catalogue, scene, features, since, until)
    # All times of one bucket see the habit of its first step.
    begin = align_down(until - 1, scene.bucket) + 1
    traces = {
        name: _changes(catalogue, habits, name, _cut(trace, since, until), begin, scene.bucket)
        for name, trace in traces.items()
    }
    rows = _node_rows(traces, entities)
    codes = rows.entity_code
    job = scene.members.of(codes, at)
    kind = np.append(scene.kind, 0)[np.minimum(codes, len(scene.kind))]
    return build_cube(features, traces, scene.panels.get("gpu_util"), job, kind, rows, at, window)


def traces_of(catalogue: Catalogue, scene: Scene, features: Sequence[str], since: Ms, until: Ms) -> dict[str, Trace]:
    """The signals of the features in (since, until], with residuals against peers; habits are still in them, and what
    was read incompletely is not."""
    out = {}
    for name in signals_of(features):
        panel = scene.panels.get(name)
        if panel is None or not len(panel.rows):
            continue
        signal = catalogue[name]
        first, last = np.searchsorted(panel.times, [since, until], side="right").tolist()
        cut = replace(panel, times=panel.times[:last], values=panel.values[:, :last])
        residual = None
        if signal.peers is not None:
            residual, _ = residual_panel(signal, signal.peers, cut, scene, first)
        trace = Trace(panel.rows, cut.times[first:], cut.values[:, first:], residual)
        doubtful = scene.doubtful(signal, trace.times)
        out[name] = trace if doubtful is None else _unknown(trace, doubtful)
    return out


def _unknown(trace: Trace, where: Bools) -> Trace:
    """The trace with nothing known at the steps `where`: an incomplete answer makes nobody unlike his peers."""
    residual = None if trace.residual is None else np.where(where, np.nan, trace.residual)
    return replace(trace, values=np.where(where, np.nan, trace.values), residual=residual)


def _cut(trace: Trace, since: Ms, until: Ms) -> Trace:
    first, last = np.searchsorted(trace.times, [since, until], side="right").tolist()
    residual = None if trace.residual is None else trace.residual[:, first:last]
    return Trace(trace.rows, trace.times[first:last], trace.values[:, first:last], residual)


def _changes(
    catalogue: Catalogue, habits: Mapping[str, Habit], name: str, trace: Trace, begin: Ms, bucket: Ms
) -> Trace:
    peers = catalogue[name].peers
    if trace.residual is None or peers is None or not peers.offset:
        return trace
    known, _ = usual(habits.get(f"{name}:peers", no_habit()), trace.rows.keys, begin, bucket)
    return replace(trace, residual=trace.residual - known[:, None])


def _node_rows(traces: Mapping[str, Trace], entities: Names) -> Rows:
    codes = sorted({code for trace in traces.values() for code in np.unique(trace.rows.entity_code).tolist()})
    nodes = [(code, entities.names[code].split("/", 1)) for code in codes]
    found = sorted((name, code) for code, (kind, name) in nodes if kind == "node")
    names = tuple(Entity("node", name) for name, _ in found)
    return Rows(
        names,
        ("",) * len(names),
        tuple(f"{node}|" for node in names),
        np.array([code for _, code in found], np.int32),
        np.zeros(len(names), np.int32),
    )


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """The model's opinions at the ticks of one block."""

    opinions: Opinions
    window: Ms
    symptoms: tuple[str, ...]

    def hear(self, scored: Sequence[Scored], runs: Runs, before: Ms, tick: Ms) -> None:
        """Advance, in `runs`, the forest's own runs to `tick`, and those of the statistics that it completes."""
        pointed: dict[str, frozenset[str]] = {}
        for symptom in self.symptoms:
            verdict = forest_fusion.forest_scored(self.opinions, symptom, self.window)
            first, last = np.searchsorted(verdict.times, [before, tick], side="right").tolist()
            own = advance_runs(runs.get(verdict.profile.name, {}), verdict, first, last)
            runs[verdict.profile.name] = own
            pointed[symptom] = forest_fusion.pointed_nodes(own, tick, self.window)
        for verdict in scored:
            name = verdict.profile.name + SUFFIX
            nodes = pointed.get(verdict.profile.symptom, frozenset())
            first, last = np.searchsorted(verdict.times, [before, tick], side="right").tolist()
            completed = forest_fusion.complete(verdict, first, last, nodes, runs.get(name, {}))
            if completed is not None:
                runs[name] = advance_runs(runs.get(name, {}), completed, 0, last - first)

    def words(self, findings: tuple[Finding, ...], tick: Ms) -> tuple[Finding, ...]:
        """The findings, each thing said once, those of the forest with what they rest on."""
        place = {node: n for n, node in enumerate(self.opinions.nodes)}
        t = int(np.searchsorted(self.opinions.times, tick))
        out = []
        for finding in forest_fusion.fuse(findings):
            if not is_forest(finding.detector):
                out.append(finding)
                continue
            opinion = self.opinions.why.get((place.get(finding.entity, -1), t))
            what = ", ".join(FEATURES[name].about for name, _ in opinion.features[:3]) if opinion else ""
            told = f"pattern of a node unlike its peers{f' ({what})' if what else ''}"
            if finding.detector != FOREST:
                told = f"just under its own boundary, completed by a {told}"
            out.append(replace(finding, hint=told))
        return tuple(out)

    def scores(self, tick: Ms) -> list[tuple[str, str, float, str]]:
        """(node, symptom class, score, `forest` or `forest/FEATURE` for what the score owes to a feature), for nodes
        near or past the boundary."""
        t = int(np.searchsorted(self.opinions.times, tick))
        out = []
        for (n, at), opinion in sorted(self.opinions.why.items()):
            if at != t:
                continue
            node = self.opinions.nodes[n].name
            out += [(node, symptom, round(opinion.score, 4), FOREST) for symptom in sorted(opinion.pointed)]
            out += [(node, FEATURES[name].symptom, fall, f"{FOREST}/{name}") for name, fall in opinion.features]
        return out


def is_forest(name: str) -> bool:
    """Whether a detector's name (or a profile's) is the forest's or of what it completes."""
    return name.endswith(FOREST)


def second_opinion(
    catalogue: Catalogue,
    scene: Scene,
    entities: Names,
    habits: Mapping[str, Habit],
    model: NodeModel,
    times: Sequence[Ms],
) -> SecondOpinion:
    """What the model says of every node at `times`."""
    cube = node_cube(catalogue, scene, entities, habits, model.features, times, model.window)
    classes = [FEATURES[name].symptom for name in cube.features]
    opinions = judge(model, cube.nodes, cube.times, cube.values, cube.seen, classes)
    return SecondOpinion(opinions, model.window, tuple(sorted(set(classes))))


def profiles_with(known: Mapping[str, Profile], model: NodeModel | None) -> dict[str, Profile]:
    """The profiles of the statistics, and with a model its own and those of what it completes."""
    out = dict(known)
    if model is not None:
        more = [forest_fusion.completed_profile(item) for item in known.values()]
        symptoms = sorted({FEATURES[name].symptom for name in model.features})
        more += [forest_fusion.forest_profile(symptom, model.window) for symptom in symptoms]
        out |= {item.name: item for item in more if item is not None}
    return out


def held(
    flagged: Mapping[str, frozenset[str]], runs: Mapping[str, Mapping[str, Run]], scene: Scene
) -> dict[str, frozenset[str]]:
    """Per habit (`signal:detector`), the rows that keep theirs: the flagged, and all of doubted nodes."""
    out = dict(flagged)
    doubted = {
        run.entity
        for name, rows in runs.items()
        if is_forest(name)
        for run in rows.values()
        if run.confirmed is not None
    }
    if doubted:
        for name, panel in scene.panels.items():
            rows = panel.rows
            keys = frozenset(key for key, entity in zip(rows.keys, rows.entities, strict=True) if entity in doubted)
            if keys:
                out[f"{name}:peers"] = out.get(f"{name}:peers", frozenset()) | keys
    return out
