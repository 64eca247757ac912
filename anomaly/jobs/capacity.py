"""Storage bandwidth against GPU memory bandwidth: can what is read keep up with what reads?"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from anomaly.clock import DAY, MINUTE, Ms, align_down
from anomaly.errors import SourceError
from anomaly.jobs.check import Seen
from anomaly.records import Query
from anomaly.source import Explorable, Source

GB = 1e9

SHARE = (0.01, 0.02)
"""Storage should read 1-2 % of what the GPUs' memories do: a rule of thumb for training, without a published source."""

BANDWIDTH_SIGNAL = "storage_bandwidth"
"""A signal of one's own of this name (bytes/s) says what storage can do; its series are added up."""

MEMORY_BANDWIDTH: tuple[tuple[str, float], ...] = (
    *(("GB200", 8000.0), ("B300", 8000.0), ("B200", 8000.0), ("GH200", 4000.0), ("H200", 4800.0), ("H100 NVL", 3900.0)),
    *(("H100 PCIe", 2000.0), ("H100", 3350.0), ("H800", 3350.0), ("H20", 4000.0), ("A100-SXM4-80GB", 2039.0)),
    *(("A100 80GB PCIe", 1935.0), ("A100-SXM-80GB", 2039.0), ("A100", 1555.0), ("A800", 2039.0), ("L40S", 864.0)),
    *(("V100", 900.0), ("MI325X", 6000.0), ("MI300X", 5300.0), ("MI250", 3277.0)),
)
"""Model names hold these → GB/s of one GPU, from the vendors' data sheets. The first that fits counts."""

READ_COUNTERS: tuple[tuple[str, str], ...] = (
    ("juicefs_object_request_data_bytes", '{method="GET"}'),
    ("node_mountstats_nfs_total_read_bytes_total", ""),
    ("minio_s3_traffic_sent_bytes", ""),
)
"""What storage is known to have delivered over the network: counter and its matchers."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """All figures in bytes a second. `storage` is None where nothing says what is read."""

    gpus: int
    memory: float
    storage: float | None
    metric: str = ""
    stated: bool = False
    """Whether the figure is what storage can do, as configured, rather than the most it was seen to do."""

    @property
    def ratio(self) -> float | None:
        return None if self.storage is None else self.storage / self.memory


def capacity(source: Source, seen: Sequence[Seen], names: Iterable[str], now: Ms) -> Capacity | None:
    """What is known of storage and GPU memory; None where no GPU says a model that is known.

    What storage can do is taken from `BANDWIDTH_SIGNAL`; else it is the most that was read within a day, which is only
    a lower bound.
    """
    models = Counter(_models(seen).values())
    speeds = {model: speed for model in models if (speed := memory_bandwidth(model)) is not None}
    memory = sum(speeds[model] * GB * count for model, count in models.items() if model in speeds)
    gpus = sum(count for model, count in models.items() if model in speeds)
    if not gpus:
        return None
    stated = next((each for each in seen if each.signal == BANDWIDTH_SIGNAL and each.there), None)
    if stated is not None and isinstance(source, Explorable):
        told = source.instant(stated.asked, now)
        return Capacity(gpus, memory, float(np.nansum(told.values)), stated.metric, stated=True)
    known = set(names)
    for name, matchers in READ_COUNTERS:
        if name in known:
            most = _most_read(source, f"{name}{matchers}", now)
            if most is not None:
                return Capacity(gpus, memory, most, name)
    return Capacity(gpus, memory, None)


def memory_bandwidth(model: str) -> float | None:
    """GB/s of one GPU of this model name; None for one that is not known."""
    return next((speed for name, speed in MEMORY_BANDWIDTH if name.lower() in model.lower()), None)


def _models(seen: Sequence[Seen]) -> dict[str, str]:
    """GPU (by its UUID, or by host and index) → model name, from whatever signal says most."""
    out: dict[str, str] = {}
    for each in seen:
        for labels in each.labels:
            model = labels.get("modelName") or labels.get("model_name") or labels.get("card_model")
            host = next((labels[name] for name in ("Hostname", "hostname", "instance") if labels.get(name)), "")
            gpu = labels.get("UUID") or labels.get("gpu_uuid") or f"{host}/{labels.get('gpu', labels.get('gpu_id'))}"
            if model and {"gpu", "UUID", "gpu_id"} & labels.keys():
                out[gpu] = model
    return out


def _most_read(source: Source, selector: str, now: Ms, step: Ms = 5 * MINUTE) -> float | None:
    end = align_down(now, step)
    query = Query("read", f"sum(rate({selector}[{step // MINUTE}m]))", end - DAY, end, step)
    try:
        pulled = source.pull(query)
    except SourceError:
        return None  # too much to ask for; the check goes on without
    real = pulled.values[~np.isnan(pulled.values)]
    return float(real.max()) if len(real) else None
