"""Statistics of groups of rows, against NumPy's own."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.detect.groups import MAD_TO_SIGMA, group_statistics
from anomaly.records import Floats

NAN = float("nan")
cells = st.one_of(st.just(NAN), st.floats(-1e6, 1e6, width=32))


def by_hand(values: Floats, groups: list[int], least: int) -> tuple[Floats, Floats]:
    centre, spread = np.full(values.shape, NAN), np.full(values.shape, NAN)
    for group in {code for code in groups if code >= 0}:
        members = [i for i, code in enumerate(groups) if code == group]
        for j in range(values.shape[1]):
            column = values[members, j]
            if np.count_nonzero(~np.isnan(column)) >= least:
                centre[members, j] = np.nanmedian(column)
                spread[members, j] = MAD_TO_SIGMA * np.nanmedian(np.abs(column - np.nanmedian(column)))
    return centre, spread


@given(st.data(), st.integers(1, 12), st.integers(1, 5), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_they_are_numpys_medians_of_each_group(data: st.DataObject, rows: int, columns: int, least: int) -> None:
    values = np.array([[data.draw(cells) for _ in range(columns)] for _ in range(rows)])
    groups = [data.draw(st.integers(-1, 3)) for _ in range(rows)]
    centre, spread = group_statistics(values, np.array(groups, np.int64), least)
    wanted_centre, wanted_spread = by_hand(values, groups, least)
    np.testing.assert_array_equal(centre, wanted_centre)
    np.testing.assert_allclose(spread, wanted_spread, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("size", [4, 5, 8, 31, 64, 200])
def test_every_size_of_group(size: int) -> None:
    random = np.random.default_rng(size)
    values = random.normal(50, 3, (size, 7))
    values[random.random(values.shape) < 0.2] = NAN
    values[:, 3] = NAN
    groups = np.zeros(size, np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        wanted_centre, wanted_spread = by_hand(values, groups.tolist(), 3)
    centre, spread = group_statistics(values, groups, 3)
    np.testing.assert_allclose(centre, wanted_centre, rtol=1e-12)
    np.testing.assert_allclose(spread, wanted_spread, rtol=1e-12)


def test_groups_of_unequal_sizes_side_by_side() -> None:
    random = np.random.default_rng(0)
    groups = np.repeat([5, -1, 2, 9], [3, 2, 8, 6]).astype(np.int64)
    random.shuffle(groups)
    values = random.normal(0, 1, (len(groups), 4))
    centre, spread = group_statistics(values, groups, 4)
    wanted_centre, wanted_spread = by_hand(values, groups.tolist(), 4)
    np.testing.assert_allclose(centre, wanted_centre)
    np.testing.assert_allclose(spread, wanted_spread)
