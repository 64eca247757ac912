"""What people run today, on the raw readings of a drill: alert rules, a rolling band, a forest per node.

Each gives, per node and scrape, whether it would be firing. Alerts of one node are grouped into one, as Alertmanager
does with `group_by: [instance]`, and every one pages. None of them knows jobs, peers, groups or what is expected.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import MINUTE, SECOND, Ms, format_time
from anomaly.drill import Stage
from anomaly.records import Bools, Floats, Ints

FOR: Ms = 2 * MINUTE
"""`for:` of every rule that is no event."""
GROUPED: Ms = 5 * MINUTE
"""An alert that comes back within so much time is the same one (Alertmanager's `resolve_timeout`)."""
SETTLED: Ms = 24 * MINUTE
"""What the forest is fitted on: every fault of a drill begins later."""

Causes = tuple[tuple[str, Bools], ...]
"""Cause family and nodes × scrapes where a rule of it fires, the most telling first."""


@dataclass(frozen=True)
class Readings:
    """A drill's scrapes as the exporters give them: nodes × devices × scrapes, NaN where there is none."""

    nodes: tuple[str, ...]
    times: Ints
    gpu: Mapping[str, Floats]
    nic: Mapping[str, Floats]
    up: Mapping[str, Floats]
    """nodes × scrapes, by scrape job."""
    step_seconds: Floats

    @property
    def step(self) -> Ms:
        return int(self.times[1] - self.times[0])


def readings_of(made: Stage) -> Readings:
    """Everything that is scraped during a drill."""
    scenario = made.scenario
    simulation = scenario.simulation
    records = [simulation.block(k) for k in range(simulation.block_at(scenario.end) + 1)]
    times = np.concatenate([record.ts for record in records])
    keep = (times > scenario.start) & (times <= scenario.end)

    def joined(parts: list[Floats]) -> Floats:
        return np.concatenate(parts, axis=-1)[..., keep]

    return Readings(
        nodes=tuple(node.name for node in scenario.cluster.nodes),
        times=times[keep],
        gpu={name: joined([record.gpu[name] for record in records]) for name in records[0].gpu},
        nic={name: joined([record.nic[name] for record in records]) for name in records[0].nic},
        up={name: joined([record.up[name] for record in records]) for name in records[0].up},
        step_seconds=joined([record.step_seconds for record in records]),
    )


def _any_device(fires: NDArray[np.bool_]) -> Bools:
    return np.asarray(fires.any(axis=1))


def _increase(counter: Floats, steps: int) -> Floats:
    """Growth over so many scrapes, resets aside; NaN without both ends."""
    grown = np.full(counter.shape, np.nan)
    grown[..., steps:] = counter[..., steps:] - counter[..., :-steps]
    return np.where(grown < 0, np.nan, grown)


def _lasting(fires: Bools, steps: int) -> Bools:
    """`for:`: true at this scrape and the `steps - 1` before it."""
    out = fires.copy()
    for back in range(1, steps):
        out[:, back:] &= fires[:, :-back]
        out[:, :back] = False
    return out


ERROR_RATE = 0.1
"""A second, over five minutes: what rule collections use for errors that should not be there at all."""
HOT = 85.0
_GPU_ERRORS = {"ecc_sbe": "memory_ecc", "pcie_replay": "pcie", "nvlink_crc_flit": "nvlink", "nvlink_replay": "nvlink"}
_NIC_ERRORS = ("symbol", "discards", "drops", "receive_errors")
_NIC_EVENTS = ("link_downed", "recovery")
_GPU_EVENTS = ("ecc_dbe", "row_remap_failure", "remapped_rows")


def alert_rules(seen: Readings) -> Causes:
    """Temperature > 85 °C, an XID that changes, `up == 0`, uncorrectable errors, link down, error rates > 0.1 /s."""
    hold, five = int(FOR // seen.step), int(5 * MINUTE // seen.step)
    xid = seen.gpu["xid"]
    changed = np.zeros(xid.shape, bool)
    changed[..., 1:] = (xid[..., 1:] != xid[..., :-1]) & (xid[..., 1:] > 0)
    # `changes(xid[5m]) > 0`: fires for five minutes after the change.
    held = np.zeros(xid.shape, bool)
    for back in range(five):
        held[..., back:] |= changed[..., : xid.shape[-1] - back]

    def events(family: Mapping[str, Floats], names: tuple[str, ...]) -> Bools:
        return np.asarray(np.any([_any_device(_increase(family[name], five) > 0) for name in names], axis=0))

    def rates(family: Mapping[str, Floats], name: str) -> Bools:
        return _lasting(_any_device(_increase(family[name], five) > ERROR_RATE * 5 * MINUTE / SECOND), hold)

    rules: list[tuple[str, Bools]] = [
        ("gpu_lost", _any_device(held)),
        ("node_lost", _lasting(seen.up["node-exporter"] == 0, hold)),
        ("telemetry", _lasting(seen.up["dcgm-exporter"] == 0, hold)),
        ("memory_ecc", events(seen.gpu, _GPU_EVENTS)),
        ("network", events(seen.nic, _NIC_EVENTS)),
        ("thermal", _lasting(_any_device(seen.gpu["gpu_temp"] > HOT), hold)),
    ]
    rules += [("network", rates(seen.nic, name)) for name in _NIC_ERRORS]
    rules += [(cause, rates(seen.gpu, name)) for name, cause in _GPU_ERRORS.items()]
    return tuple(rules)


BAND_WINDOW: Ms = 30 * MINUTE
BAND_LEAST: Ms = 10 * MINUTE
BAND_SIGMAS, BAND_FLOOR = 3.0, 0.02
"""Half the band's width, and the least of it as a share of the mean (a constant has no deviation)."""
_BANDED = {
    "gpu_temp": "thermal", "power": "power", "sm_clock": "power", "gpu_util": "software", "tensor": "software",
    "fb_used": "software",
}  # fmt: skip
_BANDED_RATES = ("received", "pause_sent", "pause_received")


def rolling_band(seen: Readings) -> Causes:
    """Mean ± 3 standard deviations over the half hour up to now, on each series by itself, for two minutes."""
    hold = int(FOR // seen.step)
    two = int(2 * MINUTE // seen.step)
    panels = [(cause, seen.gpu[name]) for name, cause in _BANDED.items()]
    panels += [("network", _increase(seen.nic[name], two)) for name in _BANDED_RATES]
    panels.append(("software", seen.step_seconds))
    return tuple((cause, _lasting(_any_device(_outside(values, seen.step)), hold)) for cause, values in panels)


def _outside(values: Floats, step: Ms) -> Bools:
    window, least = int(BAND_WINDOW // step), int(BAND_LEAST // step)
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)

    def over(array: Floats) -> Floats:
        total = np.cumsum(array, axis=-1)
        total[..., window:] -= total[..., :-window].copy()
        return total

    count = over(known.astype(np.float64))
    mean = over(filled) / np.maximum(count, 1)
    variance = np.maximum(over(filled**2) / np.maximum(count, 1) - mean**2, 0.0)
    width = np.maximum(BAND_SIGMAS * np.sqrt(variance), BAND_FLOOR * np.abs(mean))
    return np.asarray(known & (count >= least) & (np.abs(values - mean) > width))


FOREST_TREES, FOREST_QUANTILE = 50, 0.995


def node_forest(seen: Readings, seed: int) -> Causes:
    """A forest per node on its raw values, fitted on its first 24 minutes; past the 99.5 % of those for two minutes."""
    from sklearn.ensemble import IsolationForest

    hold, two = int(FOR // seen.step), int(2 * MINUTE // seen.step)
    settled = seen.times <= seen.times[0] + SETTLED
    fires = np.zeros((len(seen.nodes), len(seen.times)), bool)
    columns = [*(seen.gpu[name] for name in _BANDED), *(_increase(seen.nic[name], two) for name in _BANDED_RATES)]
    columns.append(seen.step_seconds)
    for n in range(len(seen.nodes)):
        rows = np.concatenate([np.nan_to_num(column[n]) for column in columns]).T
        forest = IsolationForest(n_estimators=FOREST_TREES, random_state=seed % 2**32).fit(rows[settled])
        score = -forest.score_samples(rows)
        fires[n] = score > np.quantile(score[settled], FOREST_QUANTILE)
    return (("software", _lasting(fires, hold)),)


RIVALS: Mapping[str, Callable[[Readings, int], Causes]] = {
    "alert rules": lambda seen, _seed: alert_rules(seen),
    "rolling band": lambda seen, _seed: rolling_band(seen),
    "forest per node, raw": node_forest,
}


def lines_of(seen: Readings, causes: Causes) -> tuple[dict[str, object], ...]:
    """The alerts as the contract's JSON lines, one for each time a node begins to fire."""
    fires = np.any([where for _, where in causes], axis=0)
    lines = []
    for n, node in enumerate(seen.nodes):
        last = -GROUPED - 1
        for i in np.flatnonzero(fires[n]).tolist():
            at = int(seen.times[i])
            if at - last > GROUPED:
                cause = next(cause for cause, where in causes if where[n, i])
                lines.append(_line(node, cause, at))
            last = at
    return tuple(lines)


def _line(node: str, cause: str, at: Ms) -> dict[str, object]:
    said = format_time(at)
    return {
        "id": f"{node}@{said}",
        "scope": "node",
        "node": node,
        "group": None,
        "nodes": [node],
        "cause": cause,
        "severity": "critical",
        "previous_severity": None,
        "onset": said,
        "fired_at": said,
        "updated_at": said,
    }
