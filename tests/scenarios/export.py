"""The cluster's arrays as the series and samples that a store would hold of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anomaly.clock import Ms
from anomaly.records import Floats, Ints, Labels, Samples, SeriesRow
from anomaly.signals.catalogue import Catalogue
from anomaly.signals.identity import Aliases, identify
from tests.scenarios.cluster import (
    DCGM,
    GPU_COUNTERS,
    GPU_GAUGES,
    RAIL_COUNTERS,
    STEP,
    Cluster,
    Key,
)


@dataclass(frozen=True)
class Exported:
    """Per signal: series in order of their first sample, and all their samples."""

    series: Mapping[str, tuple[SeriesRow, ...]]
    born: Mapping[str, Ints]
    """When each of `series` had its first sample."""
    samples: Mapping[str, Samples]

    def between(self, start: Ms, end: Ms) -> dict[str, Samples]:
        out = {}
        for name, all_of_it in self.samples.items():
            use = (all_of_it.ts > start) & (all_of_it.ts <= end)
            out[name] = Samples(all_of_it.series_id[use], all_of_it.ts[use], all_of_it.values[use])
        return out

    def known(self, name: str, at: Ms) -> tuple[SeriesRow, ...]:
        return self.series[name][: int((self.born[name] <= at).sum())]


def export(cluster: Cluster, catalogue: Catalogue, called: Mapping[str, str]) -> Exported:
    """Series get their numbers in order of first sight over all signals, as in the store.

    `called`: what an exporter other than dcgm-exporter calls the GPUs' signals; it leaves the others out.
    """
    found: list[tuple[Ms, str, Labels, Ints, Floats]] = []
    for own, pieces in _pieces(cluster).items():
        if called and own in GPU_GAUGES + GPU_COUNTERS and own not in called:
            continue
        name = called.get(own, own)
        native = catalogue[name].native(STEP)
        on_grid = cluster.times % native == 0
        for labels, values in pieces:
            there = on_grid & ~np.isnan(values)
            if there.any():
                found.append((int(cluster.times[there][0]), name, labels, cluster.times[there], values[there]))
    found.sort(key=lambda item: (item[0], item[1], sorted(item[2].items())))
    rows: dict[str, list[SeriesRow]] = {}
    born: dict[str, list[Ms]] = {}
    columns: dict[str, list[tuple[int, Ints, Floats]]] = {}
    for series_id, (first, name, labels, ts, values) in enumerate(found, 1):
        identity = identify(catalogue[name], labels, Aliases())
        assert identity is not None, (name, labels)
        entity, device, part = identity
        rows.setdefault(name, []).append(SeriesRow(series_id, name, entity, device, part, labels))
        born.setdefault(name, []).append(first)
        columns.setdefault(name, []).append((series_id, ts, values))
    return Exported(
        {name: tuple(known) for name, known in rows.items()},
        {name: np.array(times, np.int64) for name, times in born.items()},
        {
            name: Samples(
                np.concatenate([np.full(len(ts), series_id, np.int32) for series_id, ts, _ in parts]),
                np.concatenate([ts for _, ts, _ in parts]),
                np.concatenate([values for _, _, values in parts]),
            )
            for name, parts in columns.items()
        },
    )


def _pieces(cluster: Cluster) -> dict[str, list[tuple[Labels, Floats]]]:
    out: dict[str, list[tuple[Labels, Floats]]] = {}
    for name, series in cluster.gauges.items():
        for key, values in series.items():
            out.setdefault(name, []).extend(_labelled(cluster, name, key, values))
    for name, series in cluster.rates.items():
        for key, rate in series.items():
            out.setdefault(name, []).extend(_labelled(cluster, name, key, _counted(cluster, key[0], rate)))
    for name, more in cluster.further.items():
        out.setdefault(name, []).extend(more)
    return {name: pieces for name, pieces in out.items() if pieces}


def _counted(cluster: Cluster, node: str, rate: Floats) -> Floats:
    """A rate as its counter; it starts from zero again where the node rebooted."""
    total = np.floor(np.cumsum(np.nan_to_num(rate) * STEP / 1000) + 1e-6)
    for start in cluster.restarts.get(node, ()):
        total[start:] -= total[start]
    return np.where(np.isnan(rate), np.nan, total)


def _labelled(cluster: Cluster, name: str, key: Key, values: Floats) -> list[tuple[Labels, Floats]]:
    if name in GPU_GAUGES + GPU_COUNTERS:
        return _gpu_series(cluster, key, values)
    owner, device = key
    if name == "iteration_seconds":
        return [({"job": "training", "job_name": owner, "node": device, "rank": "0"}, values)]
    if name == "up":
        port = 9400 if device == DCGM else 9100
        return [({"job": device, "instance": f"{owner}:{port}"}, values)]
    if name == "kube_cordoned":
        return [({"node": owner, "instance": "10.0.0.9:8080"}, values)]
    if name == "storage_p99":
        return [({"instance": f"{owner}:9567", "vol_name": device}, values)]
    labels = {"job": "node-exporter", "instance": f"{owner}:9100"}
    if name in RAIL_COUNTERS:
        ethtool = name in ("rdma_discards", "pfc_pause_received", "pfc_pause_transmitted")
        labels |= {"device": f"rdma{device}"} if ethtool else {"device": f"mlx5_{device}", "port": "1"}
    return [(labels, values)]


def _gpu_series(cluster: Cluster, key: Key, values: Floats) -> list[tuple[Labels, Floats]]:
    """One series per label set: it ends and another begins when the job, or any other label, changes."""
    node, gpu = key
    base = {
        "job": DCGM,
        "instance": f"{node}:9400",
        "Hostname": node,
        "gpu": gpu,
        "gpu_id": gpu,
        "id": gpu,
        "UUID": f"GPU-{node}-{gpu}",
        "device": f"nvidia{gpu}",
        "DCGM_FI_DRIVER_VERSION": "550.54.15",
    }
    epoch = np.zeros(len(cluster.times), np.int64)
    changes = cluster.extra_labels.get(node, [])
    for start, _ in changes:
        epoch[start:] += 1
    out: list[tuple[Labels, Floats]] = []
    for era in np.unique(epoch).tolist():
        for job in np.unique(cluster.job_of[node]).tolist():
            there = (epoch == era) & (cluster.job_of[node] == job)
            labels = dict(base)
            for _, more in changes[:era]:
                labels |= more
            if job >= 0:
                labels["hpc_job"] = cluster.jobs[job].name
            if there.any():
                out.append((labels, np.where(there, values, np.nan)))
    if node in cluster.twins:
        late = np.concatenate([[np.nan, np.nan], values[:-2]])
        out.append(({**base, "job": "gpu-metrics", "pod": "dcgm-exporter-x7k2p", "container": "exporter"}, late))
    return out
