"""The node cube: small deviations of small clusters, what is unknown, and nothing from the future."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.clock import MINUTE
from anomaly.features.cube import FEATURES, NodeCube, Trace, build_cube, middle, signals_of
from anomaly.panels import Panel
from anomaly.records import Floats
from tests.features.builders import CATALOGUE, NAN, STEP, rows

NODES = tuple(f"n{i}" for i in range(8))
WINDOW = 5 * MINUTE
COLUMNS = 20
"""Ten minutes of 30 s."""
END = COLUMNS * STEP
QUIET = np.random.default_rng(3)


def devices(count: int) -> list[tuple[str, str]]:
    return [(node, str(device)) for node in NODES for device in range(count)]


def flat(count: int, value: float = 0.0) -> Floats:
    return np.full((len(NODES) * count, COLUMNS), value)


def trace(count: int, values: Floats, residual: Floats | None = None) -> Trace:
    return Trace(rows(devices(count)), STEP * np.arange(1, COLUMNS + 1), values, residual)


def cube(
    names: Sequence[str],
    traces: Mapping[str, Trace],
    at: Sequence[int] = (END,),
    util: Floats | None = None,
    job: int = 0,
) -> NodeCube:
    nodes = rows([(node, "") for node in NODES])
    times = STEP * np.arange(1, COLUMNS + 1)
    panel = None if util is None else Panel("gpu_util", rows(devices(2)), times, util, 0, {})
    jobs = np.full((len(NODES), len(at)), job, np.int32)
    return build_cube(names, traces, panel, jobs, np.zeros(len(NODES), np.int64), nodes, np.array(at), WINDOW)


def of(found: NodeCube, name: str, node: str) -> float:
    return float(found.values[NODES.index(node), -1, found.features.index(name)])


def test_every_feature_is_made_of_signals_that_exist_and_has_a_floor_and_a_unit() -> None:
    for name, feature in FEATURES.items():
        assert feature.name == name and feature.floor > 0 and feature.unit
        for signal in feature.signals:
            assert CATALOGUE[signal].symptom == feature.symptom, name
            if feature.how in ("highest", "lowest", "mean", "slope"):
                assert CATALOGUE[signal].peers is not None, name
    assert list(FEATURES) == sorted(FEATURES)
    assert "gpu_temp" in signals_of(list(FEATURES))


def test_a_hot_gpu_is_the_highest_of_its_node_and_a_part_of_the_mean() -> None:
    residual = flat(2)
    residual[3] = 4.0  # the second GPU of n1
    found = cube(["gpu_temp_mean", "gpu_temp_highest"], {"gpu_temp": trace(2, flat(2, 60.0), residual)})
    assert of(found, "gpu_temp_highest", "n1") == 4.0
    assert of(found, "gpu_temp_mean", "n1") == 2.0
    assert of(found, "gpu_temp_highest", "n2") == 0.0


def test_what_a_whole_job_shares_is_no_deviation() -> None:
    found = cube(["gpu_temp_highest"], {"gpu_temp": trace(2, flat(2, 60.0), flat(2, 9.0))})
    assert np.all(found.values == 0.0)


def test_a_slope_is_in_units_a_minute() -> None:
    residual = flat(2)
    residual[0] = 0.5 * np.arange(COLUMNS)  # a degree a minute
    found = cube(["gpu_temp_slope"], {"gpu_temp": trace(2, flat(2, 60.0), residual)})
    assert of(found, "gpu_temp_slope", "n0") == pytest.approx(1.0)


def test_the_spread_between_the_gpus_of_a_node_is_held_against_other_nodes() -> None:
    values = flat(2, 90.0)
    values[5] = 70.0  # the second GPU of n2
    found = cube(["util_spread"], {"gpu_util": trace(2, values)})
    assert of(found, "util_spread", "n2") == 20.0
    assert of(found, "util_spread", "n3") == 0.0


def test_restless_power_shows_as_swing_and_not_as_level() -> None:
    power = flat(2, 400.0)
    power[0] += np.where(np.arange(COLUMNS) % 2, 60.0, -60.0)
    found = cube(["power_swing", "power_mean"], {"gpu_power": trace(2, power, flat(2))})
    assert of(found, "power_swing", "n0") > 3.0
    assert of(found, "power_mean", "n0") == 0.0


def test_errors_count_logarithmically_over_all_their_signals() -> None:
    one, other = flat(1), flat(1)
    one[4], other[4] = 1 / 60, 2 / 60  # three a minute
    found = cube(["link_errors"], {"symbol_errors": trace(1, one), "port_receive_errors": trace(1, other)})
    assert of(found, "link_errors", "n4") == pytest.approx(np.log1p(3.0))


def test_a_signal_that_is_not_there_is_unknown() -> None:
    found = cube(["cpu_busy", "gpu_temp_highest"], {"gpu_temp": trace(2, flat(2, 60.0), flat(2))})
    assert np.isnan(of(found, "cpu_busy", "n0"))
    assert of(found, "gpu_temp_highest", "n0") == 0.0


def test_a_node_without_samples_is_not_seen_and_one_with_few_is_unknown() -> None:
    values, residual = flat(2, 60.0), flat(2)
    values[:2], residual[:2] = NAN, NAN
    values[2:4, :-3], residual[2:4, :-3] = NAN, NAN
    found = cube(["gpu_temp_highest"], {"gpu_temp": trace(2, values, residual)})
    assert found.seen[:, 0].tolist() == [False, True, True, True, True, True, True, True]
    assert np.isnan(of(found, "gpu_temp_highest", "n0")) and np.isnan(of(found, "gpu_temp_highest", "n1"))


def test_only_nodes_that_work_are_judged() -> None:
    util = flat(2, 95.0)
    util[:2] = 3.0
    found = cube(["gpu_temp_highest"], {"gpu_temp": trace(2, flat(2, 60.0), flat(2))}, util=util)
    assert np.isnan(of(found, "gpu_temp_highest", "n0"))
    assert of(found, "gpu_temp_highest", "n1") == 0.0
    assert found.seen.all()


def test_nodes_of_no_job_are_held_against_their_kind() -> None:
    values = flat(2, 90.0)
    values[5] = 70.0
    found = cube(["util_spread"], {"gpu_util": trace(2, values)}, job=-1)
    assert of(found, "util_spread", "n2") == 20.0


def test_the_order_in_which_features_are_asked_for_makes_no_difference() -> None:
    """As in aws/random-cut-forest-by-aws#410, aws/random-cut-forest-by-aws#411, aws/random-cut-forest-by-aws#359."""
    residual = QUIET.normal(size=(16, COLUMNS))
    traces = {"gpu_temp": trace(2, flat(2, 60.0), residual), "sm_clock": trace(2, flat(2, 1400.0), -residual)}
    names = ["sm_clock_lowest", "gpu_temp_slope", "gpu_temp_mean"]
    one, other = cube(names, traces), cube(names[::-1], traces)
    assert one.features == other.features == tuple(sorted(names))
    assert np.array_equal(one.values, other.values, equal_nan=True)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(10, COLUMNS - 1), st.floats(0.0, 0.4))
def test_nothing_after_its_own_time_counts(seed: int, cut: int, missing: float) -> None:
    """The cube at a time is the same whatever comes later, and whether it is made alone or with others."""
    random = np.random.default_rng(seed)
    residual = random.normal(size=(16, COLUMNS))
    residual[random.random(residual.shape) < missing] = NAN
    values = 60.0 + np.nan_to_num(residual)
    util = np.where(random.random((16, COLUMNS)) < 0.02, 10.0, 95.0)
    names = ["gpu_temp_highest", "gpu_temp_slope", "power_swing", "util_spread"]

    def at(later: float, times: Sequence[int]) -> NodeCube:
        shaken = [np.where(np.arange(COLUMNS) > cut, part + later, part) for part in (values, residual, util)]
        traces = {
            "gpu_temp": trace(2, shaken[0], shaken[1]),
            "gpu_power": trace(2, shaken[0], shaken[1]),
            "gpu_util": trace(2, shaken[2]),
        }
        return cube(names, traces, times, util=shaken[2])

    here = (cut + 1) * STEP
    alone, shaken = at(0.0, [here]), at(-50.0, [here - STEP, here])
    assert np.array_equal(alone.values[:, 0], shaken.values[:, 1], equal_nan=True)


def test_the_middle_needs_two_values_and_half_of_the_window() -> None:
    table = np.array([[1.0, 2.0, 9.0, NAN], [NAN, NAN, NAN, 4.0], [NAN, NAN, 3.0, 5.0], [NAN] * 4])
    assert np.array_equal(middle(table), [2.0, NAN, 4.0, NAN], equal_nan=True)
    assert len(middle(np.empty((0, 4)))) == 0 and np.isnan(middle(np.empty((2, 0)))).all()
