"""Readings that stand still at load: a lost GPU, frozen telemetry, or nothing."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.detect.frozen import LOOK, REPEATS, frozen_devices, frozen_nodes, stillness
from anomaly.panels import Rows
from anomaly.records import Bools, Floats
from tests.features.builders import NAN, panel

GPUS = (("a", "0"), ("a", "1"), ("b", "0"), ("b", "1"))
STEPS = 2 * LOOK


def moving(rng: np.random.Generator, refresh: int = 1) -> Floats:
    """Temperatures and watts of four working GPUs that are read anew every `refresh` steps."""
    fresh = rng.normal(500, 10, (4, STEPS))
    return fresh[:, np.arange(STEPS) // refresh * refresh]


def rows() -> Rows:
    return panel("gpu_power", list(GPUS), [[1.0]] * 4, 0).rows


def verdicts(
    tables: Sequence[Floats], busy: bool = True, gone: Bools | None = None
) -> tuple[Floats, Mapping[str, Floats]]:
    still = stillness(tables)
    works = np.full(tables[0].shape, busy)
    absent = np.zeros(tables[0].shape, bool) if gone is None else gone
    nodes = frozen_nodes(still, works, absent, rows(), np.arange(STEPS))
    by_name = {entity.name: nodes.score[i] for i, entity in enumerate(nodes.entities)}
    return frozen_devices(still, works, absent, rows()), by_name


@pytest.fixture
def tables() -> list[Floats]:
    rng = np.random.default_rng(7)
    return [np.round(moving(rng) / 8), moving(rng), np.round(moving(rng) / 5)]


def freeze(tables: Sequence[Floats], gpus: Sequence[int], since: int = LOOK) -> None:
    for table in tables:
        for gpu in gpus:
            table[gpu, since:] = table[gpu, since]


def test_one_gpu_that_stands_still_among_moving_ones_is_lost(tables: list[Floats]) -> None:
    freeze(tables, [1])
    devices, nodes = verdicts(tables)
    assert not (devices[:, : LOOK + REPEATS] == 1).any()
    assert (devices[1, LOOK + REPEATS :] == 1).all()
    assert not (devices[[0, 2, 3]] == 1).any()
    assert not (nodes["a"] == 1).any()


def test_a_whole_node_that_stands_still_is_its_telemetry(tables: list[Floats]) -> None:
    freeze(tables, [0, 1])
    devices, nodes = verdicts(tables)
    assert not (devices == 1).any()
    assert (nodes["a"][LOOK + REPEATS :] == 1).all()
    assert not (nodes["b"] == 1).any()


def test_a_whole_node_that_stands_still_and_leaves_fields_out_has_lost_its_gpus(tables: list[Floats]) -> None:
    freeze(tables, [0, 1])
    gone = np.zeros(tables[0].shape, bool)
    gone[:2, LOOK:] = True
    devices, nodes = verdicts(tables, gone=gone)
    assert (devices[:2, LOOK + 2 :] == 1).all()
    assert not (nodes["a"] == 1).any()


def test_what_idles_may_stand_still(tables: list[Floats]) -> None:
    freeze(tables, [1])
    assert not (verdicts(tables, busy=False)[0] == 1).any()
    freeze(tables, [0, 1])
    assert not (verdicts(tables, busy=False)[1]["a"] == 1).any()


def test_what_idled_and_begins_to_work_is_not_frozen_by_its_idle_hours(tables: list[Floats]) -> None:
    """Seen on a real A100: an hour without a change, then utilisation a refresh before power and temperature."""
    freeze(tables, [1], since=2)
    busy = np.ones(tables[0].shape, bool)
    busy[1, :30] = False
    devices = frozen_devices(stillness(tables), busy, np.zeros(busy.shape, bool), rows())
    assert not (devices[1, : 30 + REPEATS] == 1).any()
    assert (devices[1, 30 + REPEATS :] == 1).all()


def test_two_readings_alone_may_stand_still(tables: list[Floats]) -> None:
    """Seen on a real A100: a light and steady load at 24 °C and 93.9 W for half an hour, while utilisation moved."""
    tables[0][1, :], tables[1][1, :] = 24.0, 93.9
    assert not (verdicts(tables)[0] == 1).any()
    freeze(tables, [1])
    tables[1][1, :] = NAN
    assert not (verdicts(tables)[0] == 1).any()


@pytest.mark.parametrize("refresh", [2, 3, 5, 9])
def test_a_slow_refresh_is_no_frozen_gpu(refresh: int) -> None:
    rng = np.random.default_rng(refresh)
    assert not (verdicts([moving(rng, refresh) for _ in range(3)])[0] == 1).any()


def test_a_frozen_gpu_is_found_under_a_slow_refresh_too() -> None:
    rng = np.random.default_rng(3)
    tables = [moving(rng, 2) for _ in range(3)]
    freeze(tables, [1])
    assert (verdicts(tables)[0][1, LOOK + 2 * REPEATS + 4 :] == 1).all()


def test_missing_steps_are_no_repetitions(tables: list[Floats]) -> None:
    for table in tables:
        table[1, LOOK:] = NAN
    devices, nodes = verdicts(tables)
    assert np.isnan(devices[1, LOOK:]).all()
    assert not (nodes["a"] == 1).any()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(LOOK, STEPS), st.floats(0, 0.5))
def test_a_step_rests_on_its_last_steps_alone(seed: int, until: int, missing: float) -> None:
    """So that a block of ticks says what single ticks say."""
    rng = np.random.default_rng(seed)
    tables = [rng.integers(0, 3, (4, STEPS)).astype(float) for _ in range(3)]
    for table in tables:
        table[rng.random(table.shape) < missing] = NAN
    whole, short = stillness(tables), stillness([table[:, until - LOOK : until] for table in tables])
    for name in ("present", "repeats", "pairs", "changes"):
        assert (getattr(whole, name)[:, until - 1] == getattr(short, name)[:, -1]).all(), name
