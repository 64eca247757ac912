"""Who found what, who was blamed, and what was false."""

import random

from tests.truth.parts import LEAF, checkpoint, congestion, judged, line, throttle


def kinds(report: object) -> list[str]:
    return [wrong.kind for wrong in report.wrong]  # type: ignore[attr-defined]


def test_a_page_on_the_culprit_within_the_limit_finds_a_node_fault() -> None:
    report = judged([throttle("gpu-03", 30)], [line("a", 34, node="gpu-03")])
    [outcome] = report.found
    assert (outcome.delay_seconds, outcome.by and outcome.by.loud) == (240, "page")
    assert (report.recall, report.precision, report.f1) == (1, 1, 1)


def test_a_ticket_finds_it_as_well() -> None:
    assert judged([throttle(onset=30)], [line("a", 34, "warning", "gpu-03")]).recall == 1


def test_a_note_finds_nothing_and_is_not_false_either() -> None:
    report = judged([throttle(onset=30)], [line("a", 34, "info", "gpu-03"), line("b", 70, "info", "gpu-20")])
    assert (len(report.missed), report.wrong) == (1, ())


def test_the_limit_itself_is_still_in_time_and_the_second_after_is_late() -> None:
    assert judged([throttle(onset=30)], [line("a", 40, node="gpu-03")]).recall == 1
    late = judged([throttle(onset=30)], [line("a", 40 + 1 / 60, node="gpu-03")])
    assert (late.recall, kinds(late)) == (0, ["late"])


def test_a_fault_that_ends_before_its_limit_must_be_found_while_it_lasts() -> None:
    report = judged([throttle(onset=30, end=35)], [line("a", 36, node="gpu-03")])
    assert (report.recall, kinds(report)) == (0, ["false"])


def test_an_alert_before_the_onset_is_false() -> None:
    assert kinds(judged([throttle(onset=30)], [line("a", 29, node="gpu-03")])) == ["false"]


def test_an_open_ticket_that_becomes_a_page_in_time_finds_the_fault() -> None:
    """The ticket was wrong when it was opened; the page is right."""
    lines = [
        line("a", 20, "warning", "gpu-03"),
        line("a", 33, "critical", "gpu-03", fired=20, previous_severity="warning"),
    ]
    report = judged([throttle(onset=30)], lines)
    assert [outcome.delay_seconds for outcome in report.found] == [180]
    assert [(wrong.kind, wrong.alert.loud) for wrong in report.wrong] == [("false", "ticket")]


def test_lines_that_bring_more_signals_are_no_new_alert() -> None:
    lines = [line("a", 20, node="gpu-03"), line("a", 33, node="gpu-03", fired=20)]
    report = judged([throttle(onset=30)], lines)
    assert (report.recall, kinds(report), report.pages) == (0, ["false"], 1)


def test_the_page_that_follows_a_ticket_in_time_belongs_to_the_same_fault() -> None:
    lines = [
        line("a", 34, "warning", "gpu-03"),
        line("a", 45, "critical", "gpu-03", fired=34, previous_severity="warning"),
    ]
    report = judged([throttle(onset=30)], lines)
    [outcome] = report.found
    assert (report.wrong, report.pages, report.tickets) == ((), 1, 1)
    assert (outcome.delay_seconds, outcome.by and outcome.by.loud) == (240, "page")


def test_a_second_incident_for_the_same_fault_is_one_too_many() -> None:
    report = judged([throttle(onset=30)], [line("a", 34, node="gpu-03"), line("b", 36, node="gpu-03")])
    assert (report.recall, kinds(report), report.precision) == (1, ["repeat"], 0.5)


def test_a_node_that_only_waits_for_the_slow_one_is_a_victim_blamed() -> None:
    report = judged([throttle("gpu-03", 30)], [line("a", 34, node="gpu-03"), line("b", 35, "warning", node="gpu-05")])
    [wrong] = report.wrong
    assert (wrong.kind, wrong.because, report.false()) == ("victim", "f-gpu-03-30", [])


def test_a_node_of_another_job_is_no_victim() -> None:
    assert kinds(judged([throttle(onset=30)], [line("a", 35, node="gpu-20")])) == ["false"]


def test_a_node_that_is_at_fault_itself_is_nobodys_victim() -> None:
    faults = [throttle("gpu-03", 30), throttle("gpu-05", 33)]
    report = judged(faults, [line("a", 34, node="gpu-03"), line("b", 37, node="gpu-05")])
    assert (report.recall, report.wrong) == (1, ())


def test_a_shared_fault_is_found_by_an_alert_on_its_group() -> None:
    report = judged([congestion(30)], [line("a", 36, group="leaf-2", nodes=LEAF[:3], cause="network")])
    assert (report.recall, report.cause_accuracy) == (1, 1)


def test_or_by_one_on_another_group_that_covers_most_of_its_members_and_little_else() -> None:
    assert judged([congestion()], [line("a", 36, group="rack-b", nodes=LEAF[:5])]).recall == 1
    assert judged([congestion()], [line("a", 36, group="rack-b", nodes=LEAF[:4])]).recall == 0
    everybody = [f"gpu-{i:02}" for i in range(1, 33)]
    assert judged([congestion()], [line("a", 36, group="fleet", nodes=everybody)]).recall == 0


def test_members_that_join_within_the_limit_count() -> None:
    lines = [
        line("a", 35, group="rack-b", nodes=LEAF[:3]),
        line("a", 37, group="rack-b", nodes=LEAF[:6], fired=35),
    ]
    [outcome] = judged([congestion()], lines).found
    assert outcome.delay_seconds == 300


def test_a_member_of_a_congested_leaf_is_a_victim() -> None:
    assert kinds(judged([congestion()], [line("a", 36, node=LEAF[0])])) == ["victim"]


def test_a_slow_job_without_a_culprit_does_not_find_a_node_fault() -> None:
    report = judged([throttle(onset=30)], [line("a", 34, scope="job", group="train-1", nodes=["gpu-03"])])
    assert (report.recall, kinds(report)) == (0, ["false"])


def test_matching_is_one_to_one_and_finds_as_many_as_possible() -> None:
    """Two faults of one node, minutes apart: the first alert fits both, the second only the later fault."""
    faults = [throttle("gpu-03", 30, 60, id="first"), throttle("gpu-03", 33, 60, id="second")]
    lines = [line("a", 34, node="gpu-03"), line("b", 42, node="gpu-03")]
    report = judged(faults, lines)
    assert {outcome.fault.id: outcome.by and outcome.by.incident for outcome in report.found} == {
        "first": "a",
        "second": "b",
    }


def test_one_incident_may_find_two_faults_by_being_raised_for_the_second() -> None:
    faults = [throttle("gpu-03", 30, 40), throttle("gpu-03", 60, 80)]
    lines = [
        line("a", 34, "warning", "gpu-03"),
        line("a", 63, "critical", "gpu-03", fired=34, previous_severity="warning"),
    ]
    assert (judged(faults, lines).recall, judged(faults, lines).wrong) == (1, ())


def test_an_alert_during_a_checkpoint_on_its_nodes_fell_for_a_decoy() -> None:
    report = judged([], [line("a", 20, node="gpu-03")], checkpoint(19, 21))
    assert (kinds(report), len(report.false("page"))) == (["decoy"], 1)
    assert kinds(judged([], [line("a", 20, node="gpu-30")], checkpoint(19, 21))) == ["false"]


def test_a_wrong_incident_counts_once_at_its_loudest() -> None:
    lines = [
        line("a", 60, "warning", "gpu-20"),
        line("a", 65, "critical", "gpu-20", fired=60, previous_severity="warning"),
    ]
    report = judged([], lines)
    assert (len(report.false("page")), len(report.false("ticket"))) == (1, 0)


def test_a_fault_from_before_the_range_is_not_judged_and_excuses_its_alert() -> None:
    report = judged([throttle(onset=30)], [line("a", 36, node="gpu-03")], start=35)
    assert (report.recall, report.wrong, report.outcomes[0].status) == (None, (), "not judged")


def test_a_fault_whose_limit_lies_beyond_the_range_is_missed_by_nobody() -> None:
    assert judged([throttle(onset=30)], [], end=35).recall is None
    assert judged([throttle(onset=30)], [line("a", 34, node="gpu-03")], end=35).recall == 1


def test_an_alert_from_before_the_range_is_not_judged() -> None:
    assert judged([], [line("a", 20, node="gpu-03"), line("a", 40, node="gpu-03", fired=20)], start=30).wrong == ()


def test_where_a_page_or_ticket_is_welcome_a_late_one_is_no_false_alarm_but_the_fault_is_missed() -> None:
    report = judged([throttle(onset=30, expect="ticket")], [line("a", 45, "warning", "gpu-03")])
    assert (report.recall, report.wrong) == (0, ())


def test_where_nothing_is_expected_nothing_is_due_and_an_alert_is_false() -> None:
    report = judged([throttle(onset=30, expect="none")], [line("a", 34, node="gpu-03")])
    assert (report.recall, kinds(report)) == (None, ["false"])


def test_the_cause_counts_as_last_said_while_the_fault_lasted() -> None:
    lines = [
        line("a", 34, node="gpu-03", cause="network"),
        line("a", 38, node="gpu-03", fired=34, cause="thermal"),
        line("a", 70, node="gpu-03", fired=34, cause="power"),
    ]
    assert judged([throttle(onset=30, end=50)], lines).cause_accuracy == 1
    assert judged([throttle(onset=30, end=36)], lines).cause_accuracy == 0


def test_the_order_of_the_lines_of_different_incidents_does_not_matter() -> None:
    faults = [throttle("gpu-03", 30), congestion(60, 80)]
    lines = [line(f"i{m}", m, node=f"gpu-{m % 16 + 1:02}") for m in range(20, 100, 3)]
    expected = judged(faults, lines)
    for seed in range(5):
        assert judged(faults, random.Random(seed).sample(lines, len(lines))) == expected
