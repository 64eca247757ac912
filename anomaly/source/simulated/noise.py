"""Expected noise: what looks like a fault and is none. Each type is one function that changes circumstances."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from anomaly.clock import MINUTE, SECOND, Ms
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.setting import Setting
from anomaly.source.simulated.strikes.presence import NEW_DRIVER


@dataclass(frozen=True, slots=True)
class Noise:
    """Something harmless: its type, whom it touches, from when until when. It becomes a decoy in the truth."""

    type: str
    nodes: tuple[str, ...]
    start: Ms
    end: Ms
    seed: int = 0

    def __post_init__(self) -> None:
        if self.type not in NOISE:
            raise ValueError(f"no noise is called {self.type!r}; there are {', '.join(NOISE)}")
        if not self.nodes or self.end <= self.start:
            raise ValueError(f"{self.type}: noise needs nodes and an end after its start")

    def drawn(self, setting: Setting) -> np.random.Generator:
        """The same draws for every block of time."""
        return np.random.default_rng([self.seed, 40, self.start % 2**32, len(self.type)])


def _nothing(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """The layout or the schedule of the jobs is all there is to it."""


def _diurnal_heat(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """The hottest hour: every inlet warms by four degrees and cools again."""
    share = np.clip((setting.ts - noise.start) / (noise.end - noise.start), 0.0, 1.0)
    setting.ambient += 4.0 * np.sin(np.pi * share)


def _lost_packet(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """On every node one packet is lost, dropped or damaged, at its own time."""
    rng = noise.drawn(setting)
    for name in noise.nodes:
        counter = str(rng.choice(["drops", "discards", "receive_errors", "symbol"]))
        at = int(rng.integers(noise.start, noise.end))
        setting.port_events.append((at, cluster.index[name], int(rng.integers(cluster.rails)), counter, 1))


def _corrected_bit(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """On every node one bit of one GPU is corrected, at its own time; here and there a replay."""
    rng = noise.drawn(setting)
    for name in noise.nodes:
        counter = str(rng.choice(["ecc_sbe", "ecc_sbe", "pcie_replay", "nvlink_crc_flit"]))
        at = int(rng.integers(noise.start, noise.end))
        setting.gpu_events.append((at, cluster.index[name], int(rng.integers(cluster.gpus)), counter, 1))


def _exporter_restart(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """GPU exporters are rolled, node after node: each misses two or three scrapes."""
    rng = noise.drawn(setting)
    for name in noise.nodes:
        at, lasts = int(rng.integers(noise.start, noise.end - MINUTE)), int(rng.integers(2, 4)) * 15 * SECOND
        setting.dcgm_up[cluster.index[name]] &= ~((setting.ts >= at) & (setting.ts < at + lasts))


def _maintenance(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """Drained nodes go down together and boot together."""
    for name in noise.nodes:
        n = cluster.index[name]
        setting.up[n] &= ~((setting.ts >= noise.start) & (setting.ts < noise.end))
        setting.boots.append((noise.end, n, noise.end - 2 * MINUTE))


def _driver_rollout(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """Between two jobs all their nodes get another driver: counters start anew, every series is relabelled."""
    rng = noise.drawn(setting)
    for name in noise.nodes:
        n, at = cluster.index[name], int(rng.integers(noise.start, noise.end - 2 * MINUTE))
        setting.dcgm_up[n] &= ~((setting.ts >= at) & (setting.ts < at + 45 * SECOND))
        setting.dress[n] = np.where(setting.ts >= at, NEW_DRIVER, setting.dress[n])
        setting.reloads.append((at, n))


def _slow_gpu(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """One GPU's silicon is slower by 8 to 12 % at the same power, since it was made."""
    rng = noise.drawn(setting)
    for name in noise.nodes:
        setting.silicon[cluster.index[name], int(rng.integers(cluster.gpus))] = rng.uniform(0.88, 0.92)


def _pipeline_stage(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """These nodes hold a pipeline stage with a fifth less work: they wait more, draw less and stay cooler."""
    for name in noise.nodes:
        setting.workload[cluster.index[name]] = 0.8


def _prometheus_away(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """Prometheus restarts: nobody is scraped for two minutes."""
    setting.away |= (setting.ts >= noise.start) & (setting.ts < noise.end)


def _sentinels(setting: Setting, noise: Noise, cluster: Cluster) -> None:
    """Here and there DCGM has no memory temperature and says so with a very large number."""
    rng = noise.drawn(setting)
    for name in noise.nodes:
        for at in rng.integers(noise.start, noise.end, 3).tolist():
            setting.sentinels.append((int(at), cluster.index[name], int(rng.integers(cluster.gpus))))


NOISE: Mapping[str, Callable[[Setting, Noise, Cluster], None]] = {
    "quiet": _nothing,
    "job_start_and_end": _nothing,
    "checkpoint": _nothing,
    "evaluation": _nothing,
    "diurnal_heat": _diurnal_heat,
    "lost_packet": _lost_packet,
    "corrected_bit": _corrected_bit,
    "exporter_restart": _exporter_restart,
    "maintenance": _maintenance,
    "driver_rollout": _driver_rollout,
    "mixed_skus": _nothing,
    "slow_gpu": _slow_gpu,
    "two_node_job": _nothing,
    "pipeline_stage": _pipeline_stage,
    "prometheus_away": _prometheus_away,
    "sentinels": _sentinels,
}
"""Every type of noise. To add one: its function, its line here, and where it happens in `anomaly.drill.stage`."""

ABOUT: Mapping[str, str] = {
    "quiet": "A cluster that is well, with its everyday trifles",
    "job_start_and_end": "A job ends; ten minutes later another starts on its nodes",
    "checkpoint": "Every job saves its state every eight minutes",
    "evaluation": "Every job evaluates every quarter of an hour",
    "mixed_skus": "Jobs run over boards of two kinds, whose clocks differ by 8 %",
    "two_node_job": "A job of two nodes beside the large ones",
}
"""What happens where layout or schedule is all there is to it."""
