"""Load gates: who has been working for long enough to be judged."""

import numpy as np
import pytest

from anomaly.features.load import busy_mask, trailing_all
from anomaly.records import Floats
from tests.features.builders import NAN, panel, rows

GPU = [("a", "0")]


def mask(util: list[float], **other: object) -> list[bool]:
    found = busy_mask(panel("gpu_util", GPU, [util]), rows(GPU), panel("x", GPU, [util]).times, per_device=True)
    assert found is not None
    listed: list[bool] = found[0].tolist()
    return listed


def test_a_gpu_is_judged_after_two_minutes_of_work() -> None:
    assert mask([0, 99, 99, 99, 99, 99]) == [False, False, False, False, True, True]


def test_a_pause_starts_the_two_minutes_again() -> None:
    assert mask([99, 99, 99, 99, 10, 99, 99, 99, 99]) == [True] * 4 + [False] * 4 + [True]


def test_a_missing_sample_is_no_pause_but_nobody_is_judged_on_it_for_ever() -> None:
    found = mask([99, 99, 99, 99, NAN, 99, 99, 99, 99])
    assert found[5:] == [True] * 4
    assert mask([99, 99, NAN, NAN, NAN, NAN, NAN, NAN])[-1] is False


def test_without_a_utilisation_signal_nothing_is_gated() -> None:
    assert busy_mask(None, rows(GPU), panel("x", GPU, [[1.0]]).times, per_device=True) is None


def test_a_gpu_without_utilisation_is_not_judged_when_others_have_it() -> None:
    util = panel("gpu_util", GPU, [[99.0] * 6])
    found = busy_mask(util, rows([("a", "0"), ("b", "0")]), util.times, per_device=True)
    assert found is not None
    assert found[:, -1].tolist() == [True, False]


def test_a_host_works_when_half_of_its_gpus_do() -> None:
    util = panel("gpu_util", [("a", "0"), ("a", "1"), ("b", "0"), ("b", "1"), ("b", "2")],
                 [[99.0] * 6, [0.0] * 6, [99.0] * 6, [0.0] * 6, [0.0] * 6])  # fmt: skip
    wanted = rows([("a", ""), ("b", ""), ("c", "")])
    found = busy_mask(util, wanted, util.times, per_device=False)
    assert found is not None
    assert found[:, -1].tolist() == [True, False, False]


def by_hand(flags: Floats, columns: int) -> Floats:
    out = np.full(flags.shape, NAN)
    for i in range(flags.shape[0]):
        for j in range(flags.shape[1]):
            if not np.isnan(flags[i, j]):
                out[i, j] = float(not (flags[i, max(0, j - columns + 1) : j + 1] == 0).any())
    return out


@pytest.mark.parametrize("columns", [1, 2, 4, 9])
def test_trailing_all_is_what_a_loop_gives(columns: int) -> None:
    flags = np.random.default_rng(3).choice([0.0, 1.0, 1.0, 1.0, NAN], (6, 12))
    np.testing.assert_array_equal(trailing_all(flags, columns), by_hand(flags, columns))
