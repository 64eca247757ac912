"""From labels to identity: which entity, which device, which part a series is about."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anomaly.records import Entity, Labels
from anomaly.signals.model import Signal

_PORT = re.compile(r":\d+$")

JOB_LABELS: tuple[str, ...] = (
    "hpc_job",
    "job_name",
    "slurm_job_id",
    "slurm_jobid",
    "jobid",
    "job_id",
    "training_job",
    "exported_job",
    "exported_pod",
    "pod",
)
"""Labels that can name a training job, best first. Prometheus' own `job` names a scrape, never a training job."""

SLICE = "/"
"""Between a GPU's index and its MIG slice in the name of a device (`3/7`)."""

_REPLICA = re.compile(r"[-_](?:worker|master|launcher|rank|node|ps|chief|pod)?[-_]?\d+$")


_NOBODY = frozenset({"not_set", "unknown", "none", "null", "n/a", "-"})
"""What exporters write when no job holds the device (xpu_timer, the NCCL inspector)."""


@dataclass(frozen=True, slots=True)
class Aliases:
    """Different names of one node. Keys are names as labels give them (ports stripped), values the node's name."""

    names: Mapping[str, str] = field(default_factory=dict)

    def canonical(self, raw: str) -> str:
        host = host_part(raw)
        return self.names.get(host, self.names.get(raw, host))


def host_part(raw: str) -> str:
    """`gpu-17:9400` → `gpu-17`; `[fe80::1]:9400` → `fe80::1`; anything else as it is."""
    if raw.startswith("["):
        return raw[1:].split("]", 1)[0]
    if raw.count(":") > 1:
        return raw
    return _PORT.sub("", raw)


def aliases_from(uname: Iterable[Labels], configured: Mapping[str, str] | None = None) -> Aliases:
    """Aliases from `node_uname_info{instance, nodename}` series and from the pipeline file, which wins.

    A fully qualified name and its short form are one node when `node_uname_info` says so; an address is only ever
    translated, never guessed at.
    """
    names: dict[str, str] = {}
    for labels in uname:
        nodename, instance = labels.get("nodename", ""), host_part(labels.get("instance", ""))
        if not nodename or not instance or nodename == instance:
            continue
        if is_address(instance) or instance.split(".")[0] == nodename.split(".")[0]:
            names[instance] = nodename
    names.update(configured or {})
    return Aliases(names)


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def identify(signal: Signal, labels: Labels, aliases: Aliases) -> tuple[Entity, str, str] | None:
    """(entity, device, part) of a series, or None when no label names an entity."""
    raw = next((labels[label] for label in signal.entity_labels if labels.get(label)), None)
    if raw is None:
        return None
    name = raw
    if signal.entity_kind == "node":
        name = aliases.canonical(raw)
    elif signal.entity_kind == "job":
        name = job_of(labels, signal.entity_labels) or raw
    device = next((labels[label] for label in signal.device_labels if labels.get(label)), "")
    if labels.get("GPU_I_ID"):
        device = f"{device}{SLICE}{labels['GPU_I_ID']}"
    parts = [labels.get(label, "") for label in signal.part_labels]
    if signal.kind == "counter" and len(signal.metrics) > 1:
        parts.append(labels.get("__name__", ""))
    return Entity(signal.entity_kind, name), device, "/".join(part for part in parts if part)


def job_of(labels: Labels, candidates: tuple[str, ...] = JOB_LABELS) -> str | None:
    """The training job a series' labels name, if any. Pods of one job differ by their replica suffix only.

    The exporter's own pod (`pod` beside no container of a workload, as Helm's `honorLabels: false` gives it) names
    no job: `pod` counts only when `container` is there and is not the exporter's.
    """
    for label in candidates:
        value = labels.get(label)
        if not value or value.lower() in _NOBODY:
            continue
        if label == "pod" and ("exporter" in value or "exporter" in labels.get("container", "exporter")):
            continue
        if label in ("pod", "exported_pod"):
            return _REPLICA.sub("", value)
        return value
    return None
