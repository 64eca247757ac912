"""Real A100 nodes, in a short form: lost GPUs are found, maintenance pages nobody, throttling is found in time."""

from pathlib import Path

import pytest

from tests.e2e import real_nodes

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_lost_gpus_are_found_and_a_maintenance_day_makes_no_storm(tmp_path: Path) -> None:
    line = real_nodes.judged(real_nodes.MAINTENANCE_DAYS, tmp_path)
    assert line.startswith("XID-79 3/3,"), line
    assert "storm False, false pages 0, false tickets 0" in line


def test_throttling_is_found_within_the_hour_and_the_loss_that_follows_it(tmp_path: Path) -> None:
    line = real_nodes.judged(real_nodes.HOT_DAYS, tmp_path)
    assert line.startswith("XID-79 1/1, throttle 1/1,"), line
    assert "false pages 0, false tickets 0" in line
