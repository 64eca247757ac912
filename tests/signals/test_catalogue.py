"""The catalogue: packs that hold together, and mistakes that are all named."""

from typing import Any

import pytest

from anomaly.causes import FAMILIES
from anomaly.clock import MINUTE
from anomaly.detect.profiles import PRESENCE, detectors_of, profile, profiles
from anomaly.errors import ConfigError
from anomaly.signals.catalogue import load_catalogue, pack_names
from tests.features.builders import CATALOGUE

SYMPTOMS = {"compute", "thermal", "memory", "nvlink", "network", "storage", "host", "training", "presence"}


def mistakes(packs: list[str], overrides: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_catalogue(packs, overrides)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("name", CATALOGUE.signals)
def test_every_signal_of_every_pack_is_whole(name: str) -> None:
    signal = CATALOGUE[name]
    assert signal.symptom in SYMPTOMS
    assert signal.cause in FAMILIES
    assert signal.source, "where its numbers come from"
    assert signal.unit
    if signal.peers:
        assert signal.peers_scheme != "none"
        assert 0 < signal.peers.floor < signal.peers.effect <= signal.peers.cold
    if signal.shift:
        assert 0 < signal.shift.floor < signal.shift.effect
    if signal.bad == "none":
        assert not {"threshold", "peers", "shift", "codes"} & set(detectors_of(signal))
    for code, cause, words in signal.codes.hard if signal.codes else ():
        assert cause in FAMILIES, code
        assert words
    assert "$" not in signal.promql(15_000)


def test_every_pack_can_be_used_alone_except_for_covariates() -> None:
    for pack in pack_names():
        assert load_catalogue([pack]).signals


@pytest.mark.parametrize("step", [1_000, 15_000, 60_000, 600_000])
def test_patience_is_at_least_the_samples_it_takes(step: int) -> None:
    """As in netdata/netdata PR#20638."""
    for found in profiles(CATALOGUE.signals, step).values():
        native = CATALOGUE[found.signal].native(step)
        if not found.persist:
            assert found.least == 1
        elif found.detector not in PRESENCE:
            assert found.persist >= (found.least - 1) * native
        assert found.uncertainty >= native


def test_clearing_takes_longer_than_finding() -> None:
    for found in profiles(CATALOGUE.signals, 15_000).values():
        assert found.clear >= found.persist or found.detector in PRESENCE


def test_a_signal_is_pulled_no_finer_than_its_exporter_refreshes_it() -> None:
    assert CATALOGUE["gpu_temp"].native(15_000) == 30_000
    assert CATALOGUE["gpu_temp"].native(20_000) == 40_000
    assert CATALOGUE["up"].native(60_000) == MINUTE


def test_a_window_holds_four_samples_and_two_minutes() -> None:
    """As in netdata/netdata PR#20638."""
    assert CATALOGUE["symbol_errors"].window(15_000) == 2 * MINUTE
    assert CATALOGUE["symbol_errors"].window(60_000) == 4 * MINUTE
    assert "[2m]" in CATALOGUE["storage_p99"].promql(15_000)


def test_an_unknown_pack_is_named_with_the_nearest() -> None:
    assert mistakes(["dcgn"]) == ["signals: packs: unknown pack 'dcgn'; did you mean 'dcgm'?"]


def test_every_mistake_is_named_at_once() -> None:
    found = mistakes(
        ["nope"],
        {
            "a": {"metrics": ["x"], "threshhold": {"above": 1}},
            "b": {},
            "c": {"metrics": ["x"], "query": "y"},
            "d": {"metrics": ["x"], "equal": {"ghost": 1.0}},
            "e": {"metrics": ["x"], "bad": "worse"},
        },
    )
    text = "\n".join(found)
    assert "did you mean 'threshold'?" in text
    assert "b: needs `metrics`" in text
    assert "c: has both" in text
    assert "'ghost' is not a signal" in text
    assert "e.bad" in text
    assert "unknown pack" in text


def test_an_override_changes_what_it_says_and_keeps_the_rest() -> None:
    changed = load_catalogue(["training"], {"iteration_seconds": {"query": "max by (job_name) (my_step_seconds)"}})
    signal = changed["iteration_seconds"]
    assert signal.promql(15_000) == "max by (job_name) (my_step_seconds)"
    assert signal.shift == CATALOGUE["iteration_seconds"].shift


def test_a_signal_of_ones_own_needs_little() -> None:
    found = load_catalogue([], {"fan_rpm": {"metrics": ["ipmi_fan_speed_rpm"], "threshold": {"below": 500}}})
    signal = found["fan_rpm"]
    assert detectors_of(signal) == ("threshold",)
    assert profile(signal, "threshold", 15_000).persist == 2 * MINUTE
