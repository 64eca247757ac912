"""Who stands where in a simulated cluster: nodes, racks, leaf switches, power domains, storage systems, jobs."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from anomaly.clock import HOUR, MINUTE, Ms

LEAST_NODES_PER_JOB = 6
_RACK, _LEAF = 4, 8
"""Nodes in a rack, and nodes under one leaf switch, where the cluster is large enough for several."""


@dataclass(frozen=True, slots=True)
class Sku:
    """A kind of GPU board. Clocks differ between SKUs by about 8 %, the natural spread of a fleet (SC'22)."""

    name: str
    model: str
    clock_mhz: float
    idle_watts: float
    peak_watts: float
    memory_mib: float


SKUS: tuple[Sku, ...] = (
    Sku("h100-700w", "NVIDIA H100 80GB HBM3", 1980.0, 72.0, 640.0, 81559.0),
    Sku("h200-700w", "NVIDIA H200", 1830.0, 78.0, 620.0, 143771.0),
)
STORAGE: tuple[str, ...] = ("train-data", "scratch-data")


@dataclass(frozen=True, slots=True)
class Node:
    """One host. Its attributes never change; which job it works for does."""

    name: str
    rack: str
    leaf: str
    pdu: str
    sku: Sku
    storage: str
    uuids: tuple[str, ...]
    """One per GPU, by index."""


@dataclass(frozen=True, slots=True)
class Job:
    """A synchronous training job: all its nodes step together. Times count from the start of the simulation."""

    name: str
    nodes: tuple[str, ...]
    starts_after: Ms
    """Negative: it runs already when the simulation starts."""
    ends_after: Ms | None
    step_seconds: float
    checkpoint_every: Ms
    checkpoint_phase: Ms
    evaluate_every: Ms = 0
    """0: never."""
    evaluate_phase: Ms = 0


@dataclass(frozen=True)
class Cluster:
    """The whole layout. Two clusters made from the same arguments are equal."""

    seed: int
    nodes: tuple[Node, ...]
    gpus: int
    """GPUs a node."""
    rails: int
    """NIC ports a node; rail r of every node meets at the same switches."""
    cores: int
    """CPU cores a node: fewer than a real host has, so that the CPU series stay few."""
    jobs: tuple[Job, ...]

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Node name → position in `nodes`."""
        return {node.name: i for i, node in enumerate(self.nodes)}

    def members(self, kind: str, name: str) -> tuple[str, ...]:
        """The nodes whose `kind` (rack, leaf, pdu, storage) is `name`, in order."""
        return tuple(node.name for node in self.nodes if getattr(node, kind) == name)

    def jobs_of(self, nodes: tuple[str, ...]) -> tuple[Job, ...]:
        """The jobs that use any of `nodes` at some time, in order."""
        wanted = set(nodes)
        return tuple(job for job in self.jobs if wanted & set(job.nodes))


def make_cluster(
    seed: int,
    nodes: int = 32,
    gpus: int = 8,
    jobs: int = 4,
    *,
    rails: int = 8,
    idle: int | None = None,
    churn_after: Ms | None = None,
) -> Cluster:
    """A cluster whose jobs are spread over racks and leaves, so that a leaf's trouble crosses jobs.

    `jobs` is lowered until each has at least six nodes; `idle` nodes (default one in sixteen, where they can be
    spared) hold none. With `churn_after`, the first job ends that long after the start of the simulation and another
    takes its nodes ten minutes later. Raises ValueError for fewer than six nodes or no GPU.
    """
    if nodes < LEAST_NODES_PER_JOB or gpus < 1 or rails < 1 or jobs < 1:
        raise ValueError(
            f"a simulated cluster needs {LEAST_NODES_PER_JOB} nodes, a GPU, a NIC and a job or more; "
            f"asked for {nodes} nodes, {gpus} GPUs, {rails} NICs, {jobs} jobs"
        )
    rng = np.random.default_rng([seed, 1])
    spare = nodes // 16 if idle is None else min(idle, nodes - LEAST_NODES_PER_JOB)
    jobs = min(jobs, max((nodes - spare) // LEAST_NODES_PER_JOB, 1))
    busy = _deal(nodes, rng)[: nodes - spare]
    teams = [sorted(int(n) for n in team) for team in np.array_split(np.array(busy), jobs)]
    job_of = {n: j for j, team in enumerate(teams) for n in team}
    racks, leaves = min(_RACK, -(-nodes // 2)), _leaf_size(nodes)
    width = max(2, len(str(nodes)))
    made = tuple(
        Node(
            name=f"gpu-{n + 1:0{width}d}",
            rack=f"rack-{_letters(n // racks)}",
            leaf=f"leaf-{n // leaves + 1}",
            # Power domains straddle leaves, so that "same leaf" and "same feed" can be told apart.
            pdu=f"pdu-{(n + leaves // 2) // leaves + 1}",
            sku=SKUS[job_of.get(n, n) // 2 % len(SKUS)],
            storage=STORAGE[job_of.get(n, n) % len(STORAGE)],
            uuids=tuple(f"GPU-{uuid.UUID(bytes=rng.bytes(16), version=4)}" for _ in range(gpus)),
        )
        for n in range(nodes)
    )
    number = int(rng.integers(4100, 8800))
    tests = np.random.default_rng([seed, 12])
    placed = []
    for j, team in enumerate(teams):
        every = int(rng.integers(20, 31)) * MINUTE
        evaluates = int(tests.integers(50, 81)) * MINUTE
        placed.append(
            Job(
                name=f"train-{number + 7 * j}",
                nodes=tuple(made[n].name for n in team),
                starts_after=-int(rng.integers(6, 60)) * HOUR - int(rng.integers(0, HOUR)),
                ends_after=None,
                step_seconds=float(rng.uniform(3.5, 6.5)),
                checkpoint_every=every,
                checkpoint_phase=int(rng.integers(0, every)),
                evaluate_every=evaluates,
                evaluate_phase=int(tests.integers(0, evaluates)),
            )
        )
    if churn_after is not None:
        first = placed[0]
        placed[0] = replace(first, ends_after=churn_after)
        successor = replace(first, name=f"train-{number + 7 * jobs}", starts_after=churn_after + 10 * MINUTE)
        placed.append(successor)
    return Cluster(seed, made, gpus, rails, 8, tuple(placed))


def topology_csv(cluster: Cluster) -> str:
    """The cluster as a topology file. Jobs are not in it: the series' labels say who runs where."""
    rows = [",".join((n.name, n.rack, n.leaf, n.pdu, n.sku.name, n.storage)) for n in cluster.nodes]
    return "\n".join(("node,rack,leaf,pdu,sku,storage", *rows)) + "\n"


def _leaf_size(nodes: int) -> int:
    return min(_LEAF, -(-nodes // 2))


def _deal(nodes: int, rng: np.random.Generator) -> list[int]:
    """All node positions, leaf by leaf in turn, so that any run of them is spread over the leaves."""
    size = _leaf_size(nodes)
    piles = [list(rng.permutation(np.arange(first, min(first + size, nodes)))) for first in range(0, nodes, size)]
    dealt: list[int] = []
    while any(piles):
        dealt.extend(int(pile.pop()) for pile in piles if pile)
    return dealt


def _letters(n: int) -> str:
    """0 → a, 25 → z, 26 → aa."""
    text = ""
    n += 1
    while n:
        n, rest = divmod(n - 1, 26)
        text = chr(97 + rest) + text
    return text
