"""What an alert says: identity in labels, everything that moves in annotations."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anomaly.clock import HOUR, MINUTE, SECOND, parse_time
from anomaly.deliver.entries import dry_run
from anomaly.deliver.narrate import number
from anomaly.deliver.payload import AlertState, alert_states, from_body, label_problems, to_body
from anomaly.deliver.wire import encode, wire_alert
from anomaly.records import Entity, Evidence, Phase, Severity
from tests.deliver.parts import T0, ended, hot_gpu, slow_leaf, slow_port

GOLDEN = Path(__file__).parents[1] / "golden"


def test_a_node_fault_is_one_alert_named_after_the_node() -> None:
    """As in prometheus/alertmanager#4064, prometheus/alertmanager PR#3167, keephq/keep#5370, keephq/keep PR#6242."""
    (state,) = alert_states(hot_gpu(), starts_at=T0 + 6 * MINUTE, external_url="http://anomaly.example/")
    assert state.labels == {
        "alertname": "NodeFault",
        "cluster": "prod-a",
        "node": "gpu-17",
        "severity": "critical",
        "cause": "thermal",
    }
    assert state.starts_at == T0 + 6 * MINUTE, "the decision, not the onset"
    assert state.annotations["onset"] == "2026-11-30T10:00:00Z"
    assert state.generator_url == "http://anomaly.example/incidents/3f9c2a7d10b4"
    assert "gpu_temp gpu3: 91 °C, expected 74 °C (peers)" in state.annotations["description"]


def test_a_shared_fault_names_the_group_and_keeps_its_members_out_of_the_labels() -> None:
    (state,) = alert_states(slow_leaf(), starts_at=T0)
    assert state.labels["group"] == "leaf-2"
    assert "node" not in state.labels
    assert "gpu-05, gpu-06" in state.annotations["nodes"]
    assert state.annotations["impact"] == "unknown"


def test_a_slow_job_names_the_job() -> None:
    (state,) = alert_states(slow_leaf(scope="job", entity=Entity("job", "llama-70b"), cause="software"), starts_at=T0)
    assert (state.labels["alertname"], state.labels["group"]) == ("JobSlow", "llama-70b")


@pytest.mark.parametrize(
    "quiet", [{"phase": Phase.PENDING}, {"severity": Severity.INFO}, {"absorbed_by": "aa01", "fired_at": 0}]
)
def test_notes_and_what_never_fired_do_not_reach_alertmanager(quiet: dict[str, object]) -> None:
    assert alert_states(hot_gpu(**quiet), starts_at=T0) == []


def test_a_rise_fires_the_louder_alert_and_resolves_the_quieter_one() -> None:
    louder, quieter = alert_states(hot_gpu(previous_severity=Severity.WARNING), starts_at=T0 + HOUR)
    assert (louder.labels["severity"], louder.resolved_at) == ("critical", None)
    assert quieter.labels["severity"] == "warning"
    assert quieter.resolved_at == T0 + 5 * MINUTE
    assert quieter.annotations["ended"] == "severity rose to critical"


def test_a_rise_from_a_note_has_nothing_to_resolve() -> None:
    assert len(alert_states(hot_gpu(previous_severity=Severity.INFO), starts_at=T0)) == 1


def test_the_refined_cause_leaves_the_identity_alone() -> None:
    before, after = hot_gpu(), hot_gpu(cause="power")
    (old,), (new,) = alert_states(before, starts_at=T0), alert_states(after, starts_at=T0)
    assert old.key == new.key
    assert new.annotations["cause"] == "power"


@pytest.mark.parametrize(
    ("incident", "why"),
    [
        (ended(hot_gpu(), T0 + HOUR), "resolved"),
        (ended(hot_gpu(), T0 + HOUR, Phase.LOST), "lost sight: no data to say whether it is over"),
        (ended(hot_gpu(), T0 + HOUR, absorbed_by="aa01"), "absorbed by aa01"),
        (replace(hot_gpu(), absorbed_by="aa01"), "absorbed by aa01"),
    ],
)
def test_an_ended_incident_resolves_its_alert_and_says_why(incident: object, why: str) -> None:
    (state,) = alert_states(incident, starts_at=T0 + 6 * MINUTE)  # type: ignore[arg-type]
    assert state.resolved_at is not None
    assert state.annotations["ended"] == why


def test_labels_pass_the_lint_and_values_in_labels_do_not() -> None:
    """As in kubermatic/kubermatic#11191, robustperception.io: do not put the value in alert labels."""
    for incident in (hot_gpu(), slow_leaf(), slow_leaf(scope="job", entity=Entity("job", "llama-70b"))):
        for state in alert_states(incident, starts_at=T0):
            assert label_problems(state.labels) == []
    good = dict(alert_states(hot_gpu(), starts_at=T0)[0].labels)
    for bad in (
        {"value": "91"},
        {"cause": "91.5"},
        {"cause": "91 °C"},
        {"node": "gpu-17,gpu-18"},
        {"cause": "since 2026-11-30T10:00:00Z"},
        {"severity": "info"},
        {"group": "leaf-2"},
    ):
        assert label_problems(good | bad), bad


def test_long_lists_are_cut_and_counted() -> None:
    (state,) = alert_states(slow_leaf(nodes=tuple(f"n{i}" for i in range(300))), starts_at=T0)
    assert state.annotations["nodes"].endswith("and 280 more")
    many = tuple(Evidence("gpu_temp", f"gpu{i}", 1.0, None, "celsius", "peers") for i in range(40))
    (state,) = alert_states(hot_gpu(evidence=many), starts_at=T0)
    assert "and 32 more observations" in state.annotations["description"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "celsius", "none"),
        (91.0, "celsius", "91 °C"),
        (0.1234, "ratio", "0.123"),
        (1095.4, "megahertz", "1,095 MHz"),
        (12.5, "percent", "12.5%"),
        (4210.0, "per_second", "4,210/s"),
        (float("inf"), "seconds", "inf s"),
        (3.0, "rows", "3 rows"),
    ],
)
def test_numbers_read_like_numbers(value: float | None, unit: str, text: str) -> None:
    assert number(value, unit) == text


def test_the_outbox_body_keeps_the_state() -> None:
    for incident in (hot_gpu(cluster="größe-μ"), ended(slow_leaf(), T0 + HOUR)):
        (state,) = alert_states(incident, starts_at=T0)
        assert from_body(to_body(state)) == state


times = st.integers(0, 4_102_444_800_000)


@given(times, times, st.none() | times, st.integers(1, HOUR), st.integers(0, HOUR))
def test_an_alert_never_ends_before_it_starts(start: int, now: int, end: int | None, lease: int, margin: int) -> None:
    """As in GDATASoftwareAG/Graylog-Plugin-AlertManager-Callback PR#10."""
    sent = wire_alert(AlertState({"alertname": "A"}, {}, start, end), now=now, lease=lease, skew_margin=margin)
    starts_at, ends_at = parse_time(sent["startsAt"]), parse_time(sent["endsAt"])
    assert starts_at <= now
    if end is None:
        assert starts_at < ends_at == now + lease
    else:
        assert starts_at <= ends_at <= now


def test_a_resolution_lies_in_the_past_by_the_margin() -> None:
    """As in prometheus/alertmanager#2366."""
    (state,) = alert_states(ended(hot_gpu(), T0 + HOUR), starts_at=T0 + 6 * MINUTE)
    sent = wire_alert(state, now=T0 + HOUR + MINUTE, lease=4 * MINUTE, skew_margin=30 * SECOND)
    assert sent["endsAt"] == "2026-11-30T10:59:30Z"


def test_any_text_survives_encoding() -> None:
    (state,) = alert_states(hot_gpu(summary="µ \ud800 \x00 \u2028"), starts_at=T0)
    encode([wire_alert(state, now=T0, lease=1, skew_margin=0)]).decode("ascii")


GOLDENS = {
    "alertmanager_node_fault.json": [hot_gpu()],
    "alertmanager_severity_rise.json": [
        hot_gpu(severity=Severity.WARNING),
        hot_gpu(previous_severity=Severity.WARNING, updated_at=T0 + 9 * MINUTE),
    ],
    "alertmanager_absorbed.json": [
        slow_port(),
        slow_leaf(updated_at=T0 + 7 * MINUTE, fired_at=T0 + 7 * MINUTE),
        ended(slow_port(), T0 + 7 * MINUTE, absorbed_by="aa01"),
    ],
}


@pytest.mark.parametrize("name", GOLDENS)
def test_what_alertmanager_would_get_is_as_recorded(name: str) -> None:
    """A changed golden file is a changed contract with every receiver: say so in the changelog."""
    shown = dry_run(GOLDENS[name], now=T0 + 10 * MINUTE, external_url="http://anomaly.example")
    assert shown + "\n" == (GOLDEN / name).read_text(encoding="utf-8")
