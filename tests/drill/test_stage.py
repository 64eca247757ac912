"""A drill's stage: drawn from name and seed, one fault or one kind of noise, all of it in the truth."""

import pytest

from anomaly.clock import MINUTE
from anomaly.drill import DRILLS, stage
from anomaly.drill.about import about
from anomaly.drill.picture import VIEWS
from anomaly.drill.stage import START
from anomaly.source.simulated import FAULT_TYPES, truth
from anomaly.source.simulated.faults import KINDS
from anomaly.source.simulated.limits import DUE


@pytest.mark.parametrize("name", DRILLS)
def test_a_drill_is_one_fault_or_one_noise_and_the_same_again(name: str) -> None:
    made, again, other = stage(name, 1), stage(name, 1), stage(name, 2)
    assert (made.fault is None) != (made.noise is None)
    assert (made.fault, made.noise, made.scenario.cluster) == (again.fault, again.noise, again.scenario.cluster)
    assert made.scenario.cluster != other.scenario.cluster
    told = truth(made.scenario)
    if made.fault is None:
        assert told["faults"] == []
        assert name in {decoy["type"] for decoy in told["decoys"]}
        return
    [fault] = told["faults"]
    assert made.fault.onset >= START + 20 * MINUTE, "whoever watches has seen the cluster healthy"
    assert made.fault.end + 10 * MINUTE <= made.scenario.end
    assert fault["max_delay_s"] == DUE[name].limit_s
    assert made.scenario.end - made.scenario.start <= 95 * MINUTE


def test_effects_are_drawn_from_four_or_given() -> None:
    slow = [name for name in FAULT_TYPES if KINDS[name].slows]
    drawn = {made.fault.effect for name in slow for seed in range(4) if (made := stage(name, seed)).fault}
    assert drawn == {0.05, 0.1, 0.2, 0.4}
    given = stage("nic_degradation", 1, 0.15)
    assert given.fault is not None and given.fault.effect == 0.15
    same = stage("nic_degradation", 1)
    assert same.fault is not None and same.fault.nodes == given.fault.nodes, "the place does not depend on it"


def test_a_group_that_is_struck_has_members_at_work() -> None:
    for name in ("leaf_congestion", "storage_latency", "power_brake_shared", "coolant_loss"):
        for seed in range(6):
            made = stage(name, seed)
            assert made.fault is not None
            busy = {node for job in made.scenario.cluster.jobs for node in job.nodes}
            assert len(busy & set(made.fault.nodes)) >= 3


def test_a_cap_counts_from_the_first_minute_of_load() -> None:
    made = stage("wrong_power_cap", 1)
    assert made.fault is not None
    successor = made.scenario.cluster.jobs[-1]
    assert made.fault.onset == START + successor.starts_after
    assert made.fault.nodes[0] in successor.nodes


def test_every_drill_has_words_and_every_view_a_drill() -> None:
    known = {each.name: each for each in about()}
    assert tuple(known) == DRILLS
    assert all(each.text and "\n" not in each.text for each in known.values())
    assert set(VIEWS) <= set(DRILLS)


def test_an_unknown_drill_is_refused() -> None:
    with pytest.raises(KeyError):
        stage("meteor", 1)
