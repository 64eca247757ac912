"""What to write under `signals` for a training job's own metrics, guessed from the names that Prometheus knows."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anomaly.clock import Ms
from anomaly.errors import SourceError
from anomaly.records import Labels
from anomaly.signals.model import Signal
from anomaly.source import Explorable

NODE_LABELS: tuple[str, ...] = ("node", "nodename", "Hostname", "hostname", "instance")

_NOT_TRAINING = re.compile(
    r"(node|prometheus|promhttp|go|process|python|kube|kubelet|container|cadvisor|machine|apiserver|etcd|coredns"
    r"|alertmanager|juicefs|minio|ceph|weka|lustre|scrape|nccl|ray|net|http|grpc|rest_client|workqueue|ALERTS"
    r"|nvidia_smi|DCGM|dcgm|XPU_TIMER|anomaly|slurm|ipmi|grafana|loki|csi|rdma|npu|gpu)_"
)
_STEP = re.compile(r"(?:^|_)(?:steps?|iter|iters|iteration|iterations|batch)(?=_|$)")
_TRAINING = re.compile(r"(?:^|_)(?:train|training|trainer|llm|megatron|torch|deepspeed|nemo|finetune|model)(?=_|$)")
_TIME = re.compile(r"(?:^|_)(?:seconds|secs|ms|millis|milliseconds|time|duration|latency|elapsed|s)(?=_|$)")
_MILLISECONDS = re.compile(r"_(?:ms|millis|milliseconds)(?=_|$)")
_COUNTS = re.compile(r"(?:^|_)(?:global_)?(?:step|steps|iteration|iterations)(?:_total|_count)?$")
_PARTS = re.compile(r"_(?:bucket|created|count|total|info|timestamp|age)(?:_seconds)?$")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A signal's query, in lines that can be pasted under `query: >-`."""

    signal: str
    metric: str
    query: tuple[str, ...]


def propose(
    source: Explorable, missing: Iterable[Signal], names: Sequence[str], job_labels: Sequence[str], at: Ms
) -> list[Proposal]:
    """A query for the signals `iteration_seconds` and `training_step` where they are among `missing`, of the metric
    names that there are. They are guesses: whoever pastes one should look at it."""
    wanted = {signal.name for signal in missing}
    out: list[Proposal] = []
    if "iteration_seconds" in wanted:
        out += _first(source, "iteration_seconds", step_times(names), names, job_labels, at)
    if "training_step" in wanted:
        out += _first(source, "training_step", step_counts(names), names, job_labels, at)
    return out


def step_times(names: Sequence[str]) -> list[str]:
    """Names that may be the time of a training step, the likeliest first; of a histogram or summary, its `_sum`."""
    ranked = []
    for name in names:
        if _NOT_TRAINING.match(name) or _PARTS.search(name) or not _TIME.search(name):
            continue
        points = 2 * bool(_STEP.search(name)) + bool(_TRAINING.search(name))
        if points >= 2:
            ranked.append((-points, len(name), name))
    return [name for _, _, name in sorted(ranked)]


def step_counts(names: Sequence[str]) -> list[str]:
    """Names that may count the steps done, the likeliest first."""
    found = [
        name for name in names if _COUNTS.search(name) and not _NOT_TRAINING.match(name) and not _TIME.search(name)
    ]
    return sorted(found, key=lambda name: (not _TRAINING.search(name), len(name), name))


def _first(
    source: Explorable, signal: str, ranked: Sequence[str], names: Sequence[str], job_labels: Sequence[str], at: Ms
) -> list[Proposal]:
    for name in ranked[:5]:
        try:
            labels = source.instant(name, at).labels
        except SourceError:
            continue
        if labels:
            return [Proposal(signal, name, _written(signal, name, labels[0], set(names), job_labels))]
    return []


def _written(signal: str, name: str, labels: Labels, names: set[str], job_labels: Sequence[str]) -> tuple[str, ...]:
    job = next((label for label in job_labels if labels.get(label)), "")
    node = next((label for label in NODE_LABELS if labels.get(label)), "")
    by = ", ".join(label for label in (job, node) if label)
    unit = " / 1000" if signal == "iteration_seconds" and _MILLISECONDS.search(name) else ""
    counted = name.removesuffix("_sum") + "_count"
    if name.endswith("_sum") and counted in names:
        return (f"sum by ({by}) (rate({name}[$window]))", f"/ sum by ({by}) (rate({counted}[$window])){unit}")
    return (f"max by ({by}) ({name}){unit}",)
