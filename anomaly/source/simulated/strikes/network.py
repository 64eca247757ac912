"""Ports, switches, storage: what happens between hosts."""

import numpy as np

from anomaly.clock import MINUTE, SECOND
from anomaly.source.simulated.fault import Fault, active, choose, choose_log, jobs_on, port_of, ramp, slow, starve
from anomaly.source.simulated.layout import Cluster
from anomaly.source.simulated.setting import Setting


def nic_degradation(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """One port's link goes bad: symbol errors, lost packets, less carried; the host cannot drain and pauses others."""
    share = ramp(setting, fault, int(choose(fault, 1 * MINUTE, 3 * MINUTE)))
    port = port_of(fault, cluster)
    for name in fault.nodes:
        n = cluster.index[name]
        setting.symbol_rate[n, port] += share * choose(fault, 5, 40, 3)
        setting.receive_error_rate[n, port] += share * choose(fault, 1, 6, 4)
        setting.discard_rate[n, port] += share * choose(fault, 20, 80, 5)
        setting.drop_rate[n, port] += share * choose(fault, 10, 40, 6)
        setting.pause_sent[n] *= 1.0 + share * choose(fault, 4, 8, 7)
        setting.pause_sent[n, port] *= 1.0 + share * choose(fault, 4, 8, 8)
        # Adaptive routing and the library move part of this rail's traffic to the others.
        setting.rail_share[n, port] *= 1.0 - share * min(0.7, 0.25 + fault.effect)
    slow(setting, fault, cluster, share)


def link_down(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A port goes down and stays down: the other rails carry its share, more slowly."""
    port, lasting = port_of(fault, cluster), active(setting, fault)
    for name in fault.nodes:
        n = cluster.index[name]
        setting.rail_share[n, port] = np.where(lasting, 0.0, setting.rail_share[n, port])
        setting.port_events.append((fault.onset, n, port, "link_downed", 1))
    slow(setting, fault, cluster, lasting.astype(np.float64))


def link_flap(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A port goes down for seconds, again and again; mostly between two scrapes, so that only the counter tells."""
    port = port_of(fault, cluster)
    flaps = 3 + int(choose(fault, 0, 4, 3))
    times = [fault.onset, *(int(choose(fault, fault.onset, fault.end, 20 + k)) for k in range(flaps - 1))]
    for name in fault.nodes:
        n = cluster.index[name]
        for k, at in enumerate(sorted(times)):
            lasts = choose(fault, 2, 10, 40 + k)
            step = (setting.ts >= at) & (setting.ts < at + 15 * SECOND)
            setting.rail_share[n, port] *= 1.0 - step * lasts / 15
            setting.port_events.append((at, n, port, "link_downed", 1))
            setting.port_events.append((at, n, port, "receive_errors", int(choose(fault, 1, 30, 60 + k))))
            for j in jobs_on(fault, cluster):
                setting.drag[j] += step * fault.effect


def pfc_storm(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """One host's port sends pause frames without end: all hosts of its leaf are held back, whatever their job."""
    share = ramp(setting, fault, 15 * SECOND)
    port = port_of(fault, cluster)
    for name in fault.nodes:
        n = cluster.index[name]
        setting.pause_sent[n, port] *= 1.0 + share * choose_log(fault, 300, 3000, 3)
        held = cluster.members("leaf", cluster.nodes[n].leaf)
        for other in (cluster.index[member] for member in held if member != name):
            setting.pause_received[other] *= 1.0 + share * choose(fault, 8, 25, 4)
        for j, job in enumerate(cluster.jobs):
            if set(job.nodes) & set(held):
                setting.drag[j] += share * fault.effect


def wrong_pfc_threshold(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A pause threshold set too high on a host's ports: buffers overflow, drops and discards grow for ten minutes."""
    share = ramp(setting, fault, int(choose(fault, 8 * MINUTE, 12 * MINUTE)))
    for name in fault.nodes:
        n = cluster.index[name]
        setting.drop_rate[n] += share * choose_log(fault, 1, 20, 3)
        setting.discard_rate[n] += share * choose_log(fault, 1, 20, 4)
    slow(setting, fault, cluster, share)


def storage_latency(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """One storage system answers 3 to 10 times slower; the jobs on it wait for data now and then."""
    share = ramp(setting, fault, int(choose(fault, 30 * SECOND, 2 * MINUTE)))
    factor = float(np.clip(1.0 + 20.0 * fault.effect, 3.0, 10.0))
    for name in fault.nodes:
        setting.latency[cluster.index[name]] *= factor**share
    slow(setting, fault, cluster, share * 0.6)
    starve(setting, fault, cluster, share)


def leaf_congestion(setting: Setting, fault: Fault, cluster: Cluster) -> None:
    """A leaf switch is congested: it pauses all its hosts and marks their packets; every job that crosses it slows."""
    share = ramp(setting, fault, int(choose(fault, 20 * SECOND, 1 * MINUTE)))
    pause, marks = choose(fault, 15, 40, 12), choose(fault, 8, 20, 13)
    for name in fault.nodes:
        n = cluster.index[name]
        setting.pause_received[n] *= 1.0 + share * pause
        setting.marks[n] *= 1.0 + share * marks
    slow(setting, fault, cluster, share)
