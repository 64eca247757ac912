"""YAML means what its reader thinks it means, or it is refused."""

import time

import pytest

from anomaly.errors import ConfigError
from anomaly.strict_yaml import MAX_BYTES, MAX_DEPTH, Document, format_path, parse


def read(text: str) -> Document:
    return parse(text.encode(), "f.yaml")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("15", 15),
        ("-3", -3),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ('"3:15"', "3:15"),
        ("'no'", "no"),
        ("03:15", "03:15"),
        ("127.0.0.1:9810", "127.0.0.1:9810"),
        ("2026-11-30T10:00:00Z", "2026-11-30T10:00:00Z"),
        ("2026-11-30", "2026-11-30"),
        ("prod-a", "prod-a"),
        ("[a, 1]", ["a", 1]),
        ("{a: {b: 1}}", {"a": {"b": 1}}),
    ],
)
def test_a_value_is_what_it_looks_like(written: str, meant: object) -> None:
    document = read(f"key: {written}\n")
    assert document.data == {"key": meant}
    assert type(document.data["key"]) is type(meant)
    assert document.problems == ()


@pytest.mark.parametrize(
    "written", ["3:15", "1:2:3", "no", "Yes", "on", "OFF", "010", "0x1F", "0b11", "1_000", "1_0.5"]
)
def test_a_value_that_yaml_would_misread_is_refused_and_kept_as_text(written: str) -> None:
    document = read(f"ok: 1\nkey: {written}\n")
    assert document.data["key"] == written
    assert [(problem.line, problem.key) for problem in document.problems] == [(2, "key")]
    assert "in quotes" in document.problems[0].what
    assert ("key",) in document.suspect


def test_every_key_and_item_knows_its_line() -> None:
    document = read("a: 1\nb:\n  - x\n  - c: 2\n    d: 3\n# and\ne: {f: 4}\n")
    assert document.line_of(("a",)) == 1
    assert document.line_of(("b", 1)) == 4
    assert document.line_of(("b", 1, "d")) == 5
    assert document.line_of(("e", "f")) == 7
    assert document.line_of(("b", 1, "not there")) == 4
    assert document.line_of(("nowhere",)) == 1


def test_a_merge_key_brings_values_that_keep_their_line_and_lose_to_ones_own() -> None:
    document = read("base: &base\n  step: 15s\n  url: a\nmine:\n  <<: *base\n  url: b\n")
    assert document.data["mine"] == {"step": "15s", "url": "b"}
    assert document.line_of(("mine", "step")) == 2
    assert document.line_of(("mine", "url")) == 6
    assert document.problems == ()


def test_the_first_of_several_merged_mappings_wins() -> None:
    document = read("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc:\n  <<: [*a, *b]\n")
    assert document.data["c"] == {"x": 1, "y": 2}


def test_a_mistake_behind_an_alias_is_told_once() -> None:
    document = read("a: &a {x: no}\nb: *a\nc: {<<: *a}\n")
    assert len(document.problems) == 1
    assert {("a", "x"), ("b", "x"), ("c", "x")} <= document.suspect


def test_duplicates_name_both_lines_and_keep_the_first() -> None:
    document = read("a: 1\nb: 2\na: 3\n")
    assert document.data == {"a": 1, "b": 2}
    assert [str(problem) for problem in document.problems] == [
        "f.yaml:3: a: stands here a second time (first on line 1); keep one"
    ]


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert parse(b"\xef\xbb\xbfa: 1\n", "f.yaml").data == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="open-brackets"),
        pytest.param("- " * 100_000, id="nested-lists"),
        pytest.param("a: &a {k: 1}\n" + "".join(f"b{i}: {{<<: *a}}\n" for i in range(5_000)), id="many-merges"),
        pytest.param("{" + "a, " * 120_000 + "}", id="many-values"),
        pytest.param("? " * (MAX_DEPTH * 100), id="nested-keys"),
        pytest.param('a: "' + "x" * (MAX_BYTES - 10), id="endless-quote"),
    ],
)
def test_a_hostile_file_is_answered_within_seconds(text: str) -> None:
    began = time.monotonic()
    try:
        read(text[:MAX_BYTES])
    except ConfigError as error:
        assert error.problems
    assert time.monotonic() - began < 30


def test_paths_are_written_as_one_would_look_for_them() -> None:
    assert format_path(()) == ""
    assert format_path(("alertmanagers", 0, "tls_config", "ca_file")) == "alertmanagers[0].tls_config.ca_file"
