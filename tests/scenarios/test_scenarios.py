"""Scenarios: what the product says about a small cluster to which something, or nothing, happens."""

from pathlib import Path

import pytest

from anomaly.clock import MINUTE
from tests.scenarios.cluster import minute
from tests.scenarios.play import broken_laws, differences, play, read, service, stories

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
NAMED = {path.stem: path for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_said_is_what_is_due(path: Path) -> None:
    scenario = read(path)
    ticks = play(scenario).ticks
    told = stories(ticks)
    wrong = differences(scenario.expect, told)
    assert not wrong, f"{scenario.about}\n" + "\n".join([*wrong, "told:", *map(str, told)])
    assert not broken_laws(ticks)


@pytest.mark.parametrize("name", ["thermal-one-gpu", "xid-79-sticky", "job-start-and-end"])
def test_a_block_of_ticks_says_what_single_ticks_say(name: str) -> None:
    scenario = read(NAMED[name])
    block, single = play(scenario), play(scenario, stretch=MINUTE)
    assert [tick.denoised.changed for tick in block.ticks] == [tick.denoised.changed for tick in single.ticks]
    assert [tick.findings for tick in block.ticks] == [tick.findings for tick in single.ticks]
    assert block.state == single.state


@pytest.mark.parametrize("name", ["thermal-one-gpu", "gpu-vanishes", "xid-79-sticky", "leaf-pauses"])
def test_a_restart_in_the_middle_changes_nothing(name: str) -> None:
    scenario = read(NAMED[name])
    lived = play(scenario, stretch=MINUTE)
    restarted = service(scenario)
    for at in (33, 47, 61, scenario.minutes):
        restarted.run(minute(at), stretch=MINUTE)
        restarted.restart()
    assert [tick.denoised.changed for tick in restarted.ticks] == [tick.denoised.changed for tick in lived.ticks]
