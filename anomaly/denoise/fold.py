"""Rules 3 and 4: several metrics of one node are one case; a slow job is the effect of the node that explains it."""

from collections import defaultdict
from dataclasses import replace

from anomaly.clock import Ms
from anomaly.denoise.effects import Reach
from anomaly.denoise.world import AFTERMATH, HANG_PATIENCE, JOB_PATIENCE, JOB_SILENCE, TOGETHER, Case, Memory, World
from anomaly.records import Dropped, Entity, Finding


def fold(findings: tuple[Finding, ...]) -> tuple[tuple[Case, ...], tuple[Finding, ...], tuple[Dropped, ...]]:
    """(one case per node that a finding names, slow jobs, findings set aside).

    Asymmetric and hard findings name their node; symmetric ones (power, utilisation, traffic) join a case that exists
    and never make one: waiting for somebody else looks the same.
    """
    by_node: dict[Entity, list[Finding]] = defaultdict(list)
    jobs, symptoms, dropped = [], [], []
    for finding in findings:
        if finding.entity.kind == "job":
            jobs.append(finding)
        elif finding.asymmetric or finding.hard:
            by_node[finding.entity].append(finding)
        else:
            symptoms.append(finding)
    for finding in symptoms:
        if finding.entity in by_node:
            by_node[finding.entity].append(finding)
        else:
            dropped.append(Dropped(finding, "symptom_only", "nothing asymmetric on this node"))
    cases = tuple(
        Case("node", entity, tuple(found), (entity.name,)) for entity, found in sorted(by_node.items(), key=str)
    )
    return cases, tuple(jobs), tuple(dropped)


def blame(
    world: World, memory: Memory, cases: tuple[Case, ...], slow: tuple[Finding, ...], reach: Reach
) -> tuple[tuple[Case, ...], tuple[Dropped, ...], Memory]:
    """Cases with the slow jobs they explain; a case of its own for a slow job that nobody explains; what is explained.

    A case explains a job when it touches one of its nodes, or makes one suffer (`reach`), and began before the job
    slowed or soon after (heat shows late); where nobody says which nodes those are, when it began shortly before.
    Missing metrics explain nothing. Among several, a hard fault, then the one whose onset lies nearest, takes the
    effect. A job without explanation waits for its patience to end; one that fires later gives its job incident up
    again. A slowdown once explained outlives its explanation by AFTERMATH without a word.
    """
    out = list(cases)
    dropped = []
    explained = {(job, onset): at for job, onset, at in memory.explained if world.now - at <= AFTERMATH}
    for finding in slow:
        job = finding.entity.name
        nodes = world.jobs.get(job, frozenset())
        suspects = [
            i
            for i, case in enumerate(out)
            if (_touches(world, memory, case, nodes, finding) or nodes & reach.get(case.entity, frozenset()))
            and case.scope != "job"
            and case.onset <= finding.onset + 2 * TOGETHER + max(finding.uncertainty, case.uncertainty)
            and any(found.cause != "telemetry" for found in case.findings)
        ]
        if suspects:
            best = min(suspects, key=lambda i: (not out[i].hard, abs(out[i].onset - finding.onset)))
            out[best] = replace(out[best], effects=(*out[best].effects, finding))
            dropped.append(Dropped(finding, "effect_of", str(out[best].entity)))
            if out[best].hard or memory.fires(out[best].entity):
                explained[job, finding.onset] = world.now
            continue
        if world.now - finding.last > JOB_SILENCE and memory.of(finding.entity) is None:
            dropped.append(Dropped(finding, "job_silent"))
            continue
        if (job, finding.onset) in explained and not memory.fires(finding.entity):
            dropped.append(Dropped(finding, "aftermath"))
            continue
        fabric = next((i for i, case in enumerate(out) if case.entity == finding.entity), None)
        if fabric is not None:
            out[fabric] = replace(out[fabric], effects=(*out[fabric].effects, finding))
            dropped.append(Dropped(finding, "effect_of", str(out[fabric].entity)))
        elif world.now - finding.confirmed >= _patience(finding) or memory.of(finding.entity) is not None:
            out.append(Case("job", finding.entity, (finding,), tuple(sorted(nodes)), effects=(finding,)))
        else:
            dropped.append(Dropped(finding, "waiting_for_culprit"))
    told = tuple(sorted((job, onset, at) for (job, onset), at in explained.items()))
    return tuple(out), tuple(dropped), replace(memory, explained=told)


def _patience(finding: Finding) -> Ms:
    return HANG_PATIENCE if finding.cause == "hang" else JOB_PATIENCE


def _touches(world: World, memory: Memory, case: Case, nodes: frozenset[str], slow: Finding) -> bool:
    known = memory.of(case.entity)
    if known is not None and case.scope == "node" and slow.entity.name in known.jobs:
        return True  # it worked for the job when it began; a lost node soon works for nobody
    if nodes or world.jobs:
        return bool(nodes & (world.members(case.entity) | set(case.nodes)))
    return slow.onset - case.onset <= 2 * TOGETHER
