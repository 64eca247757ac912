"""Choosing faults for a cluster: whom, when, how long, how hard."""

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from anomaly.clock import HOUR, MINUTE, SECOND, Ms
from anomaly.source.simulated.faults import COMMON, KINDS, Fault, Kind
from anomaly.source.simulated.layout import Cluster

WARM_UP: Ms = 20 * MINUTE
"""No fault earlier: whoever watches must have seen the cluster healthy."""
_SHORTEST: Ms = 12 * MINUTE
_TRIES, _CHOICE = 400, 40
EFFECTS = (0.05, 0.1, 0.2, 0.4)
"""What the other types take by default: shares of the step time."""
_EFFECTS = {
    "thermal_throttle": (0.15, 0.35),
    "nic_degradation": (0.15, 0.4),
    "storage_latency": (0.15, 0.4),
    "leaf_congestion": (0.45, 0.9),
}


def place_faults(
    cluster: Cluster,
    seed: int,
    types: Sequence[str] | int,
    start: Ms,
    end: Ms,
    min_gap_ms: Ms = 12 * MINUTE,
) -> tuple[Fault, ...]:
    """Faults in [start, end], by onset: the first 20 minutes are healthy, each fault lasts 12 to 20 minutes.

    `types` are names, one fault each, or a number of faults, which take the common types in turn; slow growth lasts
    longer. A node fault strikes a node of a running job (or one without, where the type wants it), the least troubled
    job first; no job has two faults closer than `min_gap_ms` (end to onset). Raises ValueError where so many do not
    fit, or a name is unknown.
    """
    rng = np.random.default_rng([seed, 30])
    names = names_of(types, seed)
    shortest = max((KINDS[name].lasts[0] for name in names), default=_SHORTEST)
    if names and end - start < WARM_UP + shortest:
        least = (WARM_UP + shortest) // MINUTE
        raise ValueError(f"{(end - start) // MINUTE} min are too short for a fault; give at least {least}")
    placed: list[Fault] = []
    # Those that touch several jobs first: they are the hardest to fit in.
    for name in sorted(names, key=lambda name: KINDS[name].scope != "group"):
        drawn = (_draw(cluster, name, rng, start, end) for _ in range(_TRIES))
        fitting = list(islice((fault for fault in drawn if _fits(cluster, fault, placed, min_gap_ms)), _CHOICE))
        if not fitting:
            raise ValueError(
                f"{len(names)} faults do not fit into {(end - start) // MINUTE} min of {len(cluster.jobs)} jobs; "
                "ask for fewer or for a longer time"
            )
        placed.append(min(fitting, key=lambda fault: _crowding(cluster, fault, placed)))
    return tuple(sorted(placed, key=lambda fault: (fault.onset, fault.type)))


def rounds(cluster: Cluster, seed: int, types: Sequence[str] | int, origin: Ms) -> Callable[[Ms], tuple[Fault, ...]]:
    """The faults of a cluster that never ends: the same types in every round, placed anew.

    The function returned gives all faults with an onset before an instant; later instants only add to it.
    """
    names = names_of(types, seed)
    shared = sum(KINDS[name].scope == "group" for name in names)
    turns = shared + -(-(len(names) - shared) // len(cluster.jobs))
    longest = max((KINDS[name].lasts[1] for name in names), default=0)
    length = HOUR + turns * max(45 * MINUTE, longest + 25 * MINUTE)
    made: list[tuple[Fault, ...]] = []

    def until(instant: Ms) -> tuple[Fault, ...]:
        while names and origin + len(made) * length < instant:
            begin = origin + len(made) * length
            made.append(place_faults(cluster, seed + 7919 * len(made), names, begin, begin + length - 15 * MINUTE))
        return tuple(fault for each in made for fault in each if fault.onset < instant)

    return until


def names_of(types: Sequence[str] | int, seed: int) -> list[str]:
    """Fault types by name; a number stands for so many common ones in turn. Raises ValueError for an unknown name."""
    if isinstance(types, int):
        order = np.random.default_rng([seed, 31]).permutation(list(COMMON)).tolist()
        return [str(order[i % len(order)]) for i in range(types)]
    unknown = sorted(set(types) - set(KINDS))
    if unknown:
        raise ValueError(f"no fault is called {', '.join(unknown)}; there are {', '.join(KINDS)}")
    return list(types)


def _draw(cluster: Cluster, name: str, rng: np.random.Generator, start: Ms, end: Ms) -> Fault:
    kind = KINDS[name]
    length = int(rng.integers(kind.lasts[0] // SECOND, kind.lasts[1] // SECOND + 1)) * SECOND
    length = min(length, end - start - WARM_UP)
    onset = int(rng.integers((start + WARM_UP) // SECOND, (end - length) // SECOND + 1)) * SECOND
    effect = _effect(name, kind, rng)
    nodes, group = struck(cluster, kind, rng)
    return Fault(name, nodes, onset, onset + length, effect, device_of(cluster, kind, rng), group)


def _effect(name: str, kind: Kind, rng: np.random.Generator) -> float:
    if name in COMMON or not kind.slows:
        low, high = _EFFECTS.get(name, (0.25, 0.25))
        return round(float(rng.uniform(low, high)), 3) if high > low else low
    return float(rng.choice(EFFECTS))


def struck(cluster: Cluster, kind: Kind, rng: np.random.Generator) -> tuple[tuple[str, ...], str | None]:
    """The nodes struck, and the name of what they share."""
    if kind.group_kind is not None:
        groups = sorted({str(getattr(node, kind.group_kind)) for node in cluster.nodes})
        group = groups[int(rng.integers(len(groups)))]
        return cluster.members(kind.group_kind, group), group
    busy = {name for job in cluster.jobs for name in job.nodes}
    spare = [node.name for node in cluster.nodes if node.name not in busy]
    if kind.idle and spare:
        return (spare[int(rng.integers(len(spare)))],), None
    # A job that comes or goes is there to be judged healthy.
    steady = [job for job in cluster.jobs if job.starts_after <= 0 and job.ends_after is None] or cluster.jobs
    job = steady[int(rng.integers(len(steady)))]
    if kind.scope == "job":
        return job.nodes, job.name
    return (job.nodes[int(rng.integers(len(job.nodes)))],), None


def device_of(cluster: Cluster, kind: Kind, rng: np.random.Generator) -> str | None:
    """Which GPU or NIC of the node a fault of this kind strikes; None: no one in particular."""
    if kind.device == "nic":
        return f"mlx5_{rng.integers(cluster.rails)}"
    if kind.device == "gpu" or (kind.device == "gpu or all" and rng.random() < 0.75):
        return str(rng.integers(cluster.gpus))
    return None


def _fits(cluster: Cluster, fault: Fault, placed: Sequence[Fault], gap: Ms) -> bool:
    """Whether somebody notices it, a shared fault is shared by three or more, and no job has another fault nearby."""
    mine = {job.name for job in cluster.jobs_of(fault.nodes)}
    kind = KINDS[fault.type]
    if (not mine and not kind.idle) or (kind.scope == "group" and len(fault.nodes) < 3):
        return False
    return not any(
        mine & {job.name for job in cluster.jobs_of(other.nodes)}
        and fault.onset < other.end + gap
        and other.onset < fault.end + gap
        for other in placed
    )


def _crowding(cluster: Cluster, fault: Fault, placed: Sequence[Fault]) -> tuple[int, Ms]:
    """Prefer the job with the fewest faults, then the time farthest from all the others."""
    mine = {job.name for job in cluster.jobs_of(fault.nodes)}
    shared = sum(bool(mine & {job.name for job in cluster.jobs_of(other.nodes)}) for other in placed)
    nearest = min((abs(fault.onset - other.onset) for other in placed), default=0)
    return shared, -nearest
