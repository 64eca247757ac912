"""Scenarios: what the product says about a small cluster to which something, or nothing, happens."""

from pathlib import Path

import pytest

from anomaly.clock import MINUTE
from tests.scenarios.cluster import minute
from tests.scenarios.play import Service, broken_laws, differences, play, read, service, stories

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


def lived(name: str, until: int, stretch: int) -> Service:
    """In stretches of a quarter of an hour up to minute 35, and from there on as asked."""
    found = service(read(NAMED[name]))
    found.run(minute(35))
    found.run(minute(until), stretch)
    return found


@pytest.mark.parametrize(("name", "until"), [("thermal-one-gpu", 72), ("xid-79-sticky", 76), ("job-start-and-end", 64)])
def test_a_block_of_ticks_says_what_single_ticks_say(name: str, until: int) -> None:
    block, single = lived(name, until, 15 * MINUTE), lived(name, until, MINUTE)
    assert [tick.denoised.changed for tick in block.ticks] == [tick.denoised.changed for tick in single.ticks]
    assert [tick.findings for tick in block.ticks] == [tick.findings for tick in single.ticks]
    assert block.state == single.state


@pytest.mark.parametrize("name", ["thermal-one-gpu", "gpu-vanishes", "xid-79-sticky", "leaf-pauses"])
def test_a_restart_in_the_middle_changes_nothing(name: str) -> None:
    found = lived(name, 70, MINUTE)
    restarted = service(read(NAMED[name]))
    restarted.run(minute(35))
    for at in (41, 47, 61, 70):
        restarted.restart()
        restarted.run(minute(at), MINUTE)
    assert [tick.denoised.changed for tick in restarted.ticks] == [tick.denoised.changed for tick in found.ticks]
    assert [tick.findings for tick in restarted.ticks] == [tick.findings for tick in found.ticks]
