"""Cause families: what each one means, how loud it is by itself, and what to do about it. One table, plain functions.

Severities are where the tier rule begins: `soft` for a statistical verdict or a degradation, `hard` for a
fact (an XID, an uncorrectable error, a link that stays down). The first steps are always the ones that cost least:
service, then driver, then node. A reboot comes last, because it destroys the evidence.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from anomaly.records import Severity

Check = Literal["hardware", "fabric", "storage", "software", "monitoring"]
"""Who looks next when the first steps do not help."""

_CHECKS: dict[Check, str] = {
    "hardware": "If it comes back after that, have the hardware checked and returned.",
    "fabric": "If it persists, have the fabric checked (cable, optic, switch port) before the node.",
    "storage": "If it persists, have the storage system checked; the nodes only suffer.",
    "software": "No hardware return is advised.",
    "monitoring": "This says nothing about the hardware; no hardware return is advised.",
}


@dataclass(frozen=True, slots=True)
class Family:
    """One cause family. `commands` may hold `{gpu}` (an index), `{nic}` (an RDMA device) and `{iface}`."""

    name: str
    title: str
    """What is wrong, to follow the node's name: `gpu-17: overheating`."""
    symptom: str
    """The symptom class it belongs to."""
    soft: Severity
    hard: Severity
    steps: tuple[str, ...]
    commands: tuple[str, ...]
    check: Check
    shared: str = "Its members turned together: look at what they share before any single node, and drain none yet."
    """The first step when a group, not a node, is at fault."""
    where: str = "on"


_W, _C = Severity.WARNING, Severity.CRITICAL

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            "thermal", "GPU overheating, clocks held down", "thermal", _W, _W,
            ("Compare with its neighbours' inlet temperature: a warm row is not this node.",
             "Drain it at the next job end, then look at fans, cold plate and air path."),
            ("nvidia-smi -i {gpu} -q -d TEMPERATURE,CLOCK,PERFORMANCE", "ipmitool sdr type Fan"), "hardware",
            shared="Its members warmed together: check inlet temperature, coolant and airflow of the row.",
        ),
        Family(
            "power", "power limited, clocks held down", "compute", _W, _W,
            ("Compare the enforced power limit with a healthy peer's and set it right.",
             "Look for a failed power supply, a rack limit or a power-brake signal before touching the node."),
            ("nvidia-smi -i {gpu} -q -d POWER,CLOCK,PERFORMANCE", "ipmitool sdr type 'Power Supply'"), "hardware",
            shared="Its members were limited together: check the feed, the shelf and any power cap set for the group.",
        ),
        Family(
            "pcie", "PCIe link degraded", "compute", _W, _W,
            ("Compare link width and generation under load with a healthy peer's; idle links run slower by design.",
             "Drain the node, reseat the card or riser, and only then replace it."),
            ("nvidia-smi -i {gpu} -q -d PERFORMANCE,CLOCK",
             "nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.width.current --format=csv",
             "dcgmi diag -r 2"), "hardware",
        ),
        Family(
            "network", "network port degraded", "network", _W, _C,
            ("Compare the port with the host's other rails.",
             "Clean or swap the cable or optic of this port first, then the switch port, then the card."),
            ("ibstat {nic}", "ethtool -S {iface} | grep -E 'discard|pause|symbol'", "mlxlink -d {nic} -m -e"), "fabric",
            shared="Look at the switch itself: its congestion, pause and drop counters, its uplinks, and which job "
            "sends most. Drain no member: they only suffer.",
        ),
        Family(
            "memory_ecc", "GPU memory errors", "memory", _W, _C,
            ("Let the job end or checkpoint, drain the node, and reset the GPU so that pending row remaps take effect.",
             "Return the GPU when a remap fails or errors go on growing after the reset."),
            ("nvidia-smi -i {gpu} -q -d ECC,ROW_REMAPPER", "dcgmi diag -r 2"), "hardware",
        ),
        Family(
            "gpu_lost", "GPU lost", "presence", _C, _C,
            ("Drain the node: its job cannot go on.",
             "Restart the GPU services, then reload the driver; keep the kernel log before anything else.",
             "Power-cycle the node only when the GPU stays away."),
            ("nvidia-smi -L", "dmesg -T | grep -iE 'xid|nvrm'", "dcgmi diag -r 2"), "hardware",
        ),
        Family(
            "node_lost", "node lost", "presence", _C, _C,
            ("Look at it through its management controller: power, console, sensors.",
             "Check its leaf port before power-cycling it; keep the console log."),
            ("ipmitool sel elist", "ipmitool chassis status"), "hardware",
            shared="Its members went together: check power feed, leaf switch and any rollout before any single node.",
            where="against the management controller of",
        ),
        Family(
            "nvlink", "NVLink degraded", "nvlink", _W, _W,
            ("Compare link states and error counts with the host's other GPUs.",
             "Restart the fabric manager while the node is drained, then reset the GPUs."),
            ("nvidia-smi nvlink -s -i {gpu}", "nvidia-smi nvlink -e -i {gpu}", "dcgmi diag -r 2"), "hardware",
        ),
        Family(
            "storage", "storage slow", "storage", _W, _W,
            ("Look at the storage system's own load, queue and errors, and at who is writing checkpoints.",
             "On one node alone, remount or restart the storage client."),
            ("juicefs stats <mountpoint>", "mount | grep -E 'juicefs|nfs|lustre'"), "storage",
            shared="Look at the storage system's own load, queue and errors, and at who is writing checkpoints. "
            "Drain no node.",
        ),
        Family(
            "cpu", "host CPU contention", "host", _W, _W,
            ("Find what else runs on the host and move it away.",
             "Check the CPU governor, pinning and the job's core count."),
            ("top -b -n 1 | head -20", "cpupower frequency-info"), "software",
        ),
        Family(
            "software", "slowed by software", "training", _W, _W,
            ("No node is to blame: look at the job (data loading, garbage collection, imbalance, its last change).",),
            ("py-spy dump --pid <rank pid>",), "software",
            shared="No node is to blame: look at the job (data loading, garbage collection, imbalance, last change).",
        ),
        Family(
            "hang", "training hangs", "training", _C, _C,
            ("Dump the ranks' stacks before anything is killed; the silent rank is the one to look at.",
             "Restart the job without the named node; leave the node as it is for inspection."),
            ("py-spy dump --pid <rank pid>", "nvidia-smi -q -d UTILIZATION,POWER", "dmesg -T | tail -50"), "software",
        ),
        Family(
            "config", "configured unlike its peers", "host", _W, _W,
            ("Compare with a healthy peer (power cap, clock lock, MIG mode, memory) and set it right.",),
            ("nvidia-smi -i {gpu} -q -d CLOCK,POWER", "nvidia-smi -i {gpu} --query-gpu=mig.mode.current --format=csv"),
            "software",
        ),
        Family(
            "driver", "driver or firmware fault", "host", _W, _W,
            ("Compare driver and firmware versions with healthy peers; if a rollout is under way, hold it.",
             "Reload the driver while the node is drained."),
            ("nvidia-smi -q | grep -iE 'driver|vbios'", "dmesg -T | grep -iE 'xid|nvrm'"), "software",
        ),
        Family(
            "telemetry", "metrics missing or wrong", "presence", _W, _W,
            ("Restart the exporter, then the GPU host engine; the metrics are at fault, not the node.",),
            ("systemctl status dcgm-exporter nvidia-dcgm node_exporter", "dcgmi discovery -l"), "monitoring",
            shared="Check the monitoring itself and any exporter rollout: scrape targets, network path, versions.",
        ),
    )
}  # fmt: skip

_UNKNOWN = Family(
    "unknown", "deviates from its peers", "host", _W, _W,
    ("Compare the signals below with a healthy peer's before doing anything to the node.",),
    ("nvidia-smi -q -d CLOCK,PERFORMANCE", "dcgmi diag -r 2"), "hardware",
)  # fmt: skip


def family(cause: str) -> Family:
    """The family called `cause`; a family of its own, without a verdict, for a name that the table does not have."""
    return FAMILIES.get(cause, _UNKNOWN)


def default_severity(cause: str, *, hard: bool = False) -> Severity:
    """How loud the cause is by itself, before impact and before repeat offences."""
    found = family(cause)
    return found.hard if hard else found.soft


def symptom_of(cause: str) -> str:
    """The symptom class of the family."""
    return family(cause).symptom


def commands(cause: str, devices: Iterable[str] = ()) -> tuple[str, ...]:
    """The commands to run on the node, with the first GPU and NIC of `devices` filled in.

    Without a device an option that needs one is left out, so that every command can be pasted as it stands.
    """
    names = list(devices)
    gpu = next((found for name in names if (found := _gpu_index(name)) is not None), None)
    nic = next((name for name in names if name.startswith(("mlx", "bnxt", "rocep", "ibp"))), None)
    iface = next((name for name in names if name.startswith(("rdma", "eth", "en", "ib")) and name != nic), None)
    out = []
    for command in family(cause).commands:
        text = command.replace(" -i {gpu}", f" -i {gpu}" if gpu is not None else "")
        text = text.replace(" -d {nic}", f" -d {nic}" if nic else " -d <device>")
        out.append(text.replace(" {nic}", f" {nic}" if nic else "").replace("{iface}", iface or "<interface>"))
    return tuple(out)


def advice(cause: str, devices: Iterable[str] = (), node: str | None = None) -> str:
    """What to do next, in order, with the commands to run and whose check comes after them.

    `devices` are the devices of the evidence, worst first; `node` is the node to run the commands on. None stands
    for a shared cause, whose first step is to look at what the members share.
    """
    found = family(cause)
    steps = " ".join(found.steps) if node else found.shared
    target = node or "one of the members"
    run = "; ".join(f"`{command}`" for command in commands(cause, devices))
    return f"{steps} Run {found.where} {target}: {run}. {_CHECKS[found.check]}"


def _gpu_index(device: str) -> int | None:
    match = re.fullmatch(r"(?:gpu|nvidia|GPU)?[-_ ]?(\d{1,3})(?:/.*)?", device)
    return int(match.group(1)) if match else None
