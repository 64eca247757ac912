"""What the forest gets to see."""

import numpy as np

from anomaly.clock import MINUTE
from anomaly.features.jobs import membership
from anomaly.judge import Scene
from anomaly.second_opinion import traces_of
from tests.features.builders import CATALOGUE, STEP, panel

GPUS = [(f"n{node}", str(gpu)) for node in range(6) for gpu in range(2)]


def test_what_was_read_incompletely_is_unknown_to_it() -> None:
    values = np.random.default_rng(1).normal(60, 1, (len(GPUS), 8))
    temp = panel("gpu_temp", GPUS, values.tolist(), 0)
    times = temp.times
    members = membership([], times, 6, MINUTE)
    scene = Scene(STEP, 10 * STEP, {"gpu_temp": temp}, members, np.zeros(6, np.int64))
    whole = traces_of(CATALOGUE, scene, ("gpu_temp_highest",), int(times[0]) - STEP, int(times[-1]))["gpu_temp"]
    assert whole.residual is not None
    assert not np.isnan(whole.residual).any()
    doubt = Scene(
        STEP, 10 * STEP, {"gpu_temp": temp}, members, np.zeros(6, np.int64),
        incomplete={"gpu_temp": ((int(times[2]), int(times[3])),)},
    )  # fmt: skip
    part = traces_of(CATALOGUE, doubt, ("gpu_temp_highest",), int(times[0]) - STEP, int(times[-1]))["gpu_temp"]
    assert part.residual is not None
    for table, full in ((part.values, whole.values), (part.residual, whole.residual)):
        assert np.isnan(table[:, 2:4]).all()
        np.testing.assert_array_equal(np.delete(table, [2, 3], axis=1), np.delete(full, [2, 3], axis=1))
