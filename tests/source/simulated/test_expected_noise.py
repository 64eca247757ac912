"""The noise library: what happens in each kind, and that it stands in the truth as a decoy and never as a fault."""

import numpy as np
import pytest

from anomaly.clock import MINUTE, SECOND
from anomaly.records import Query
from anomaly.source.simulated import NOISE_TYPES, Noise, Scenario, SimulatedSource, truth
from anomaly.source.simulated.noise import ABOUT, NOISE
from tests.source.simulated.readings import END, ONSET, OVER, SCRAPE, START, small_cluster

CLUSTER = small_cluster()
ALL = tuple(node.name for node in CLUSTER.nodes)
JOB = CLUSTER.jobs[0]


def noisy(type_: str, nodes: tuple[str, ...] = ALL) -> Scenario:
    return Scenario(CLUSTER, (), START, END, seed=3, noise=(Noise(type_, nodes, ONSET, OVER, 3),))


def rows(scenario: Scenario, metric: str) -> list[tuple[dict[str, str], np.ndarray]]:
    pulled = SimulatedSource(scenario).pull(Query(metric, metric, START, END, SCRAPE))
    found, at = [], 0
    for labels, length in zip(pulled.labels, pulled.lengths, strict=True):
        values = np.full((END - START) // SCRAPE + 1, np.nan)
        values[(pulled.ts[at : at + length] - START) // SCRAPE] = pulled.values[at : at + length]
        found.append((dict(labels), values))
        at += int(length)
    return found


@pytest.mark.parametrize("name", NOISE_TYPES)
def test_every_kind_is_a_decoy_and_has_words(name: str) -> None:
    told = truth(noisy(name))
    assert told["faults"] == []
    assert name in {decoy["type"] for decoy in told["decoys"]}
    assert ABOUT.get(name) or NOISE[name].__doc__


def test_one_packet_a_node_is_lost_and_one_bit_corrected() -> None:
    lost = noisy("lost_packet")
    counted = 0.0
    for metric in (
        "node_infiniband_out_of_buffer_drops_total",
        "node_ethtool_received_discards_phy",
        "node_infiniband_port_errors_received_total",
        "node_infiniband_symbol_error_total",
    ):
        counted += sum(np.diff(values).clip(0).sum() for _, values in rows(lost, metric))
    assert len(ALL) <= counted <= len(ALL) + 3
    bits = sum(np.diff(v).clip(0).sum() for _, v in rows(noisy("corrected_bit"), "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"))
    assert 3 <= bits <= len(ALL)


def test_maintenance_takes_all_targets_of_its_nodes_away_together() -> None:
    found = rows(noisy("maintenance", JOB.nodes[:3]), "up")
    span = slice((ONSET - START) // SCRAPE, (OVER - START) // SCRAPE)
    for labels, values in found:
        if labels["instance"].split(":")[0] in JOB.nodes[:3]:
            assert (values[span] == 0).all()
        else:
            assert np.nanmean(values[span]) > 0.9


def test_prometheus_away_leaves_no_sample_at_all() -> None:
    span = slice((ONSET + 45 * SECOND - START) // SCRAPE, (OVER - START) // SCRAPE)
    for metric in ("up", "DCGM_FI_DEV_POWER_USAGE", "train_step_seconds"):
        assert all(np.isnan(values[span]).all() for _, values in rows(noisy("prometheus_away"), metric))


def test_a_driver_roll_out_relabels_every_series_and_starts_its_counters_anew() -> None:
    found = rows(noisy("driver_rollout", JOB.nodes), "DCGM_FI_DEV_POWER_VIOLATION")
    mine = [(labels, values) for labels, values in found if labels["Hostname"] == JOB.nodes[0]]
    assert len({labels["DCGM_FI_DRIVER_VERSION"] for labels, _ in mine}) == 2
    assert len(mine) == 2 * CLUSTER.gpus
    old, new = (np.concatenate([v[~np.isnan(v)] for _, v in mine[i :: CLUSTER.gpus]]) for i in (0, CLUSTER.gpus))
    assert min(old.max(), new.max()) < max(old.max(), new.max())


def test_a_lighter_stage_draws_less_at_the_same_clock() -> None:
    scenario = noisy("pipeline_stage", JOB.nodes[:2])
    span = slice(8, 80)

    def median(metric: str, node: str) -> float:
        return float(
            np.median([np.nanmedian(v[span]) for labels, v in rows(scenario, metric) if labels["Hostname"] == node])
        )

    light, full = JOB.nodes[0], JOB.nodes[3]
    assert median("DCGM_FI_DEV_POWER_USAGE", light) < 0.95 * median("DCGM_FI_DEV_POWER_USAGE", full)
    assert median("DCGM_FI_DEV_SM_CLOCK", light) == pytest.approx(median("DCGM_FI_DEV_SM_CLOCK", full), rel=0.01)


def test_sentinels_are_numbers_no_sensor_has() -> None:
    found = rows(noisy("sentinels"), "DCGM_FI_DEV_MEMORY_TEMP")
    strange = sum(int((values > 1e18).sum()) for _, values in found)
    assert len(ALL) <= strange <= 3 * len(ALL) + 1


def test_all_inlets_warm_together_in_the_hottest_hour() -> None:
    found = rows(noisy("diurnal_heat"), "DCGM_FI_DEV_GPU_TEMP")
    middle = slice((ONSET + 8 * MINUTE - START) // SCRAPE, (ONSET + 11 * MINUTE - START) // SCRAPE)
    rise = [np.nanmedian(values[middle]) - np.nanmedian(values[20:70]) for _, values in found]
    assert 2 < float(np.median(rise)) < 6


@pytest.mark.parametrize(
    ("change", "message"), [({"type": "ghost"}, "no noise is called"), ({"nodes": ()}, "needs nodes")]
)
def test_noise_that_cannot_be_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Noise(**{"type": "quiet", "nodes": ALL, "start": ONSET, "end": OVER, **change})  # type: ignore[arg-type]
