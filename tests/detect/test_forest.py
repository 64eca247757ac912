"""The isolation forest as a second opinion: its scores, what they rest on, and what it says with the statistics."""

from dataclasses import replace

import numpy as np
import pytest

from anomaly.clock import MINUTE
from anomaly.detect.forest import (
    Calibration,
    NodeForest,
    effect_floor,
    explain,
    fit,
    judge,
    raw_scores,
    scaled,
    varying,
)
from anomaly.detect.forest_fusion import (
    LOWERED,
    SUFFIX,
    complete,
    completed_profile,
    forest_profile,
    forest_scored,
    fuse,
    pointed_nodes,
)
from anomaly.detect.profiles import profile
from anomaly.detect.runs import Run, advance, finding
from anomaly.detect.scored import Scored
from anomaly.records import Entity, Finding, Floats
from tests.features.builders import CATALOGUE, NAN

FEATURES = ("a_clock", "b_temp", "c_fan", "d_bytes", "e_power")
CLASSES = ("compute", "thermal", "thermal", "network", "compute")
FLOORS = np.array([0.5, 1.0, 1.0, 0.2, 0.5])
WINDOW = 5 * MINUTE
RNG = np.random.default_rng(11)
FLEET: Floats = RNG.normal(size=(1500, 5)) * [0.5, 2.0, 1.0, 0.1, 1.0]


@pytest.fixture(scope="module")
def model() -> NodeForest:
    forest, centre, spread = fit(FLEET, FLOORS, 50, 128, 3)
    raw = raw_scores(forest, scaled(FLEET, centre, spread))
    return NodeForest("v", FEATURES, WINDOW, 0, centre, spread, Calibration(float(np.median(raw)), 0.55), forest)


def row(**deviations: float) -> Floats:
    out = np.zeros(5)
    for name, value in deviations.items():
        out[FEATURES.index(name)] = value
    return out


ODD = row(b_temp=9.0, c_fan=6.0, a_clock=-3.0)


def test_a_node_that_deviates_in_several_ways_stands_out_and_the_fleet_does_not(model: NodeForest) -> None:
    odd, fleet = model.scores(ODD[None, :])[0], model.scores(FLEET)
    assert odd >= 1.0 and odd > np.quantile(fleet, 0.999)
    assert (fleet >= 0.0).all() and np.median(fleet) < 0.2


def test_scores_are_bounded_whatever_comes(model: NodeForest) -> None:
    """As in yzhao062/pyod#482, yzhao062/pyod#216, scikit-learn/scikit-learn#27626."""
    wild = np.array([[1e300] * 5, [-1e300] * 5, [np.inf] * 5, [-np.inf, np.inf, 0.0, 0.0, 0.0]])
    scores = model.scores(wild)
    assert ((scores >= 0.0) & (scores < 2.0)).all()


def test_the_calibration_is_monotone_and_puts_one_at_the_boundary() -> None:
    found = Calibration(0.4, 0.55).scores(np.linspace(0.0, 1.0, 101))
    assert (np.diff(found) >= 0).all() and found[0] == 0.0 and found[-1] < 2.0
    assert Calibration(0.4, 0.55).scores(np.array([0.4, 0.55])).tolist() == pytest.approx([0.0, 1.0])


def test_what_is_unknown_counts_as_usual_and_a_mostly_unknown_node_has_no_verdict(model: NodeForest) -> None:
    usual = row(b_temp=9.0)
    usual[3:] = model.usual()[3:]
    assert model.scores(row(b_temp=9.0, d_bytes=NAN, e_power=NAN)[None, :]) == model.scores(usual[None, :])
    assert np.isnan(model.scores(np.array([[NAN, NAN, NAN, 0.0, 0.0]]))).all()
    assert len(model.scores(np.empty((0, 5)))) == 0


def test_the_same_seed_gives_the_same_forest_and_another_seed_another() -> None:
    """As in aws/random-cut-forest-by-aws#410, aws/random-cut-forest-by-aws#411, aws/random-cut-forest-by-aws#359."""
    probes = RNG.normal(size=(50, 5)) * 3
    one, again, other = (raw_scores(fit(FLEET, FLOORS, 20, 64, seed)[0], probes) for seed in (5, 5, 6))
    assert np.array_equal(one, again) and not np.array_equal(one, other)


def test_a_deviation_below_the_floor_is_noise() -> None:
    """A fleet without any spread: a tenth of the floor is nothing, many floors in several features are something. As
    in yzhao062/pyod#482, yzhao062/pyod#216, scikit-learn/scikit-learn#27626."""
    still = np.zeros((500, 5))
    forest, centre, spread = fit(still, FLOORS, 50, 128, 3)
    assert (spread == FLOORS).all() and (centre == 0.0).all()
    probes = np.array([0.0 * FLOORS, 0.1 * FLOORS, 8.0 * FLOORS])
    usual, little, much = raw_scores(forest, scaled(probes, centre, spread))
    assert abs(little - usual) < 0.02 < much - usual
    assert usual < effect_floor(forest, 5, 3) < 1.0


def test_columns_that_never_vary_are_told_from_those_that_do() -> None:
    rows = np.array([[0.0, 1.0, NAN, NAN], [0.0, 2.0, NAN, 3.0]])
    assert varying(rows).tolist() == [False, True, False, False]


def test_a_score_names_the_features_and_the_class_it_rests_on(model: NodeForest) -> None:
    [opinion] = explain(model, ODD[None, :], model.scores(ODD[None, :]), CLASSES)
    assert {name for name, _ in opinion.features[:2]} <= {"a_clock", "b_temp", "c_fan"}
    assert "thermal" in opinion.pointed and "network" not in opinion.pointed
    assert explain(model, np.empty((0, 5)), np.empty(0), CLASSES) == []


def test_only_nodes_near_the_boundary_are_explained(model: NodeForest) -> None:
    nodes = (Entity("node", "n1"), Entity("node", "n2"))
    values = np.array([[row(), ODD], [row(), row()]])
    found = judge(model, nodes, np.array([60_000, 120_000]), values, np.ones((2, 2), bool), CLASSES)
    assert set(found.why) == {(0, 1)}
    assert found.scores_of("thermal")[0, 1] >= 1.0
    assert found.scores_of("network")[0, 1] < 1.0


# ── with the statistics ──

T0 = 1_796_040_000_000
CLOCK = profile(CATALOGUE["sm_clock"], "peers", 15_000)


def scored(values: list[list[float]], nodes: tuple[str, ...] = ("n1", "n2"), of: str = "sm_clock") -> Scored:
    table = np.array(values)
    times = T0 + 30_000 * np.arange(1, table.shape[1] + 1)
    keys = tuple(f"node/{node}|0" for node in nodes)
    entities = tuple(Entity("node", node) for node in nodes)
    return Scored(
        profile(CATALOGUE[of], "peers", 15_000), keys, entities, ("0",) * len(nodes), times, table, table, table
    )


def test_the_boundary_is_lowered_where_the_forest_points_and_nowhere_else() -> None:
    found = complete(scored([[0.8] * 10, [0.8] * 10]), 2, 9, frozenset({"n2"}), {})
    assert found is not None
    assert found.keys == ("node/n2|0",) and found.score.shape == (1, 7)
    assert found.score[0, 0] == pytest.approx(0.8 / LOWERED) and found.profile.name == f"sm_clock:peers{SUFFIX}"


def test_a_statistic_below_the_lowered_boundary_is_not_completed() -> None:
    found = complete(scored([[LOWERED - 0.01] * 10], ("n1",)), 0, 10, frozenset({"n1"}), {})
    assert found is not None and advance({}, found, 0, 10) == {}


def test_a_completed_finding_needs_the_statistics_own_persistence() -> None:
    verdict = scored([[0.9] * 10], ("n1",))
    found = complete(verdict, 0, 10, frozenset({"n1"}), {})
    assert found is not None
    [run] = advance({}, found, 0, 10).values()
    assert run.confirmed is not None and run.confirmed - run.start >= CLOCK.persist


def test_where_nothing_points_there_is_nothing_to_complete_and_old_runs_end() -> None:
    verdict = scored([[0.9] * 40], ("n1",))
    assert complete(verdict, 0, 10, frozenset(), {}) is None
    begun = complete(verdict, 0, 10, frozenset({"n1"}), {})
    assert begun is not None
    runs = advance({}, begun, 0, 10)
    after = complete(verdict, 10, 40, frozenset(), runs)
    assert after is not None and advance(runs, after, 0, 30) == {}


@pytest.mark.parametrize(
    ("signal", "detector"), [("xid", "codes"), ("ecc_uncorrectable", "threshold"), ("gpu_power", "peers")]
)
def test_facts_and_symptoms_are_not_completed(signal: str, detector: str) -> None:
    assert completed_profile(profile(CATALOGUE[signal], detector, 15_000)) is None


def test_the_forest_points_while_its_own_run_lasts_and_a_little_longer() -> None:
    run = Run(Entity("node", "n1"), "", T0, 3, 3, T0 + 3 * MINUTE, T0 + 3 * MINUTE, 1.2, 1.2, None, None)
    assert pointed_nodes({"k": run}, T0 + 3 * MINUTE, WINDOW) == {"n1"}
    assert pointed_nodes({"k": run}, T0 + 13 * MINUTE, WINDOW) == {"n1"}
    assert pointed_nodes({"k": run}, T0 + 14 * MINUTE, WINDOW) == frozenset()
    assert pointed_nodes({"k": replace(run, past=2)}, T0 + 3 * MINUTE, WINDOW) == frozenset()


def said(detector: str) -> Finding:
    run = Run(Entity("node", "n1"), "0", T0, 9, 9, T0, T0, 1.2, 1.2, None, None, confirmed=T0)
    return finding(run, replace(CLOCK, detector=detector), "power", "")


def test_a_finding_that_stands_by_itself_is_not_said_twice() -> None:
    own, completed, lone = said("peers"), said(f"peers{SUFFIX}"), said("forest")
    assert fuse((own, completed, lone)) == (own, lone)
    assert fuse((completed, lone)) == (completed, lone)


def test_a_node_that_stops_working_is_seen_without_a_verdict_and_its_run_ends_in_time(model: NodeForest) -> None:
    times = T0 + MINUTE * np.arange(1, 61)
    values = np.full((1, 60, 5), NAN)
    values[:, :15] = ODD
    found = judge(model, (Entity("node", "n1"),), times, values, np.ones((1, 60), bool), CLASSES)
    verdict = forest_scored(found, "thermal", WINDOW)
    begun = advance({}, verdict, 0, 15)
    assert begun["node/n1|"].confirmed is not None
    assert advance(begun, verdict, 15, 60) == {}
    gone = replace(verdict, observed=np.full(verdict.score.shape, NAN))
    assert advance(begun, gone, 15, 60) == begun, "a node that says nothing keeps its state"


def test_the_forests_own_finding_lasts_two_windows_before_it_means_something() -> None:
    own = forest_profile("thermal", WINDOW)
    assert (own.name, own.persist, own.hard, own.cause) == ("thermal_pattern:forest", 2 * WINDOW, False, "unknown")
