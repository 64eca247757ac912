"""What a tick leaves behind: findings, incidents and their lines, state."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anomaly.clock import MINUTE
from anomaly.errors import StoreError
from anomaly.incident_json import incident_from_json, incident_json, line_due
from anomaly.records import Entity, Evidence, Incident, Phase, Severity
from anomaly.store import CoverageRow, NodeScore, Store, TickRecord
from tests.store.parts import T0, dropped, finding, incident

CONTRACT = ["id", "scope", "node", "group", "nodes", "victims", "jobs", "cause", "severity", "previous_severity"]
CONTRACT += ["impact_ratio", "impact_known", "coverage", "onset", "fired_at", "updated_at", "resolved_at", "signals"]
CONTRACT += ["evidence", "summary", "advice"]

instants = st.integers(1, 4_000_000_000_000)
words = st.text(max_size=5)
numbers = st.none() | st.floats(allow_nan=False)
evidences = st.builds(
    Evidence, words, words, numbers, numbers, words, words, st.floats(allow_nan=False), st.just(0) | instants
)
incidents = st.builds(
    Incident,
    id=words,
    cluster=words,
    scope=st.sampled_from(["node", "group", "job"]),
    entity=st.builds(Entity, words, words),
    nodes=st.lists(words).map(tuple),
    victims=st.lists(words).map(tuple),
    jobs=st.lists(words).map(tuple),
    cause=words,
    frozen_cause=words,
    severity=st.sampled_from(Severity),
    previous_severity=st.none() | st.sampled_from(Severity),
    phase=st.sampled_from(Phase),
    onset=instants,
    uncertainty=st.integers(0, 10**6),
    fired_at=st.just(0) | instants,
    updated_at=instants,
    resolved_at=st.none() | instants,
    impact_ratio=numbers,
    coverage=numbers,
    signals=st.lists(words).map(tuple),
    evidence=st.lists(evidences, max_size=2).map(tuple),
    summary=words,
    advice=words,
    absorbed_by=st.none() | words,
)


@given(incidents)
def test_an_incident_survives_its_json_line(one: Incident) -> None:
    text = json.dumps(incident_json(one), allow_nan=False)
    assert incident_from_json(json.loads(text)) == one


def test_the_line_has_the_contracts_keys_in_order_and_values_in_its_form() -> None:
    line = incident_json(incident())
    assert list(line)[: len(CONTRACT)] == CONTRACT
    assert (line["node"], line["group"], line["impact_known"], line["resolved_at"]) == ("gpu-17", None, True, None)
    assert (line["severity"], line["onset"]) == ("warning", "2027-01-15T08:00:00Z")
    assert list(line["evidence"][0])[:6] == ["signal", "device", "observed", "expected", "unit", "detector"]
    shared = incident_json(incident(scope="group", entity=Entity("leaf", "leaf-2"), impact_ratio=None))
    assert (shared["node"], shared["group"], shared["impact_known"]) == (None, "leaf-2", False)


def test_what_is_not_finite_is_null_with_its_text() -> None:
    line = incident_json(incident(evidence=(Evidence("xid", "gpu1", math.inf, -math.inf, "", "rule"),)))
    assert line["evidence"][0]["observed"] is None
    assert (line["evidence"][0]["observed_text"], line["evidence"][0]["expected_text"]) == ("+Inf", "-Inf")


FIRED, PENDING = incident(), incident(phase=Phase.PENDING, fired_at=0)


@pytest.mark.parametrize(
    ("before", "changes", "due"),
    [
        (None, {"phase": Phase.PENDING, "fired_at": 0}, False),
        (None, {}, True),
        (None, {"phase": Phase.RESOLVED, "resolved_at": T0 + MINUTE}, True),
        (None, {"phase": Phase.RESOLVED, "fired_at": 0}, False),
        (PENDING, {}, True),
        (PENDING, {"phase": Phase.RESOLVED, "fired_at": 0}, False),
        (FIRED, {"updated_at": T0 + 9 * MINUTE, "summary": "other words"}, False),
        (FIRED, {"severity": Severity.CRITICAL}, True),
        (FIRED, {"cause": "power"}, True),
        (FIRED, {"signals": ("gpu_temp", "sm_clock")}, True),
        (FIRED, {"phase": Phase.RESOLVED}, True),
        (FIRED, {"phase": Phase.LOST}, True),
    ],
)
def test_a_line_is_due_at_firing_change_and_resolution(
    before: Incident | None, changes: dict[str, Any], due: bool
) -> None:
    assert line_due(before, incident(**changes)) is due


def test_nothing_follows_a_resolution() -> None:
    resolved = incident(phase=Phase.RESOLVED)
    assert not line_due(resolved, incident(phase=Phase.RESOLVED, cause="power"))


def test_a_tick_leaves_state_watermark_findings_and_incidents(store: Store) -> None:
    assert (store.load_state(), store.scored_through(), store.incidents()) == (None, None, [])
    lines = store.commit_tick(
        TickRecord(
            at=T0,
            state='{"open": 1}',
            as_of={"gpu_temp": T0},
            versions={"spec": "abc"},
            findings=[finding()],
            dropped=[dropped("settle"), dropped("settle", "gpu-18")],
            incidents=[incident(), incident("b2", phase=Phase.PENDING, fired_at=0)],
            node_scores=[NodeScore("gpu-17", "thermal", 2.5, "peers"), NodeScore("gpu-18", "thermal", None, "peers")],
            coverage=[CoverageRow(Entity("node", "gpu-17"), "gpu", 0.97, "partial")],
        )
    )
    assert [line.id for line in lines] == ["a1"]
    assert (store.load_state(), store.scored_through()) == ('{"open": 1}', T0)
    assert store.findings(T0, T0) == [finding()]
    assert store.dropped(Entity("node", "gpu-18"), T0, T0) == [
        (T0, "settle", "because of the test", "gpu_temp", "gpu3", "peers")
    ]
    assert store.incident("a1") == incident()
    assert store.incident("zz") is None
    assert [event["id"] for event in store.incident_events()] == ["a1"]
    assert store._session.rows("SELECT dropped, as_of FROM ticks") == [('{"settle": 2}', f'{{"gpu_temp": {T0}}}')]


def test_findings_and_incidents_are_replaced_by_newer_ones_of_the_same_identity(store: Store) -> None:
    store.commit_tick(TickRecord(T0, "1", findings=[finding()], incidents=[incident()]))
    worse = finding(last=T0 + MINUTE, peak=9.0)
    again = finding(onset=T0 + MINUTE, last=T0 + MINUTE)
    grown = incident(severity=Severity.CRITICAL, previous_severity=Severity.WARNING, updated_at=T0 + MINUTE)
    store.commit_tick(TickRecord(T0 + MINUTE, "2", findings=[worse, again], incidents=[grown]))
    assert store.findings(0, T0 + MINUTE) == [worse, again]
    assert store.findings(0, T0 + MINUTE, Entity("node", "gpu-99")) == []
    assert store.incidents() == [grown]
    assert [event["severity"] for event in store.incident_events("a1")] == ["warning", "critical"]
    assert store.incident_events(start=T0 + 2 * MINUTE) == []


def test_incidents_are_found_by_phase_and_time(store: Store) -> None:
    old = incident("old", phase=Phase.RESOLVED, onset=T0 - 10 * MINUTE, resolved_at=T0 - 5 * MINUTE)
    store.commit_tick(TickRecord(T0, "", incidents=[old, incident()]))
    assert [one.id for one in store.incidents()] == ["old", "a1"]
    assert [one.id for one in store.incidents(open_only=True)] == ["a1"]
    assert [one.id for one in store.incidents(start=T0)] == ["a1"]
    assert [one.id for one in store.incidents(end=T0 - MINUTE)] == ["old"]
    assert [one.id for one in store.incidents(limit=1)] == ["a1"]


def test_ticks_only_go_forward(store: Store) -> None:
    store.commit_tick(TickRecord(T0, "1"))
    with pytest.raises(StoreError, match=r"is not after the last one.*backtest"):
        store.commit_tick(TickRecord(T0, "2"))
    assert store.load_state() == "1"
