"""`make audit` fails for a weakness and for nothing else, and never keeps quiet about not having looked."""

import json
import sys

from tests.security.audit import NOT_CHECKED, audited, judged

CLEAN = {"name": "duckdb", "version": "2.0.1", "vulns": []}
WEAK = {"name": "requests", "version": "2.1", "vulns": [{"id": "CVE-2026-1", "fix_versions": ["2.2"]}]}
UNKNOWN = {"name": "inner", "skip_reason": "not found and could not be audited"}
SKIPPED = {"name": "anomaly", "skip_reason": "distribution marked as editable"}


def told(*packages: object) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_a_weakness_fails_and_is_named() -> None:
    code, text = judged(told(CLEAN, WEAK, SKIPPED), "Found 1 known vulnerability")
    assert (code, "requests 2.1: CVE-2026-1, mended in 2.2" in text) == (1, True)


def test_a_clean_report_says_how_much_was_looked_at() -> None:
    assert judged(told(CLEAN, SKIPPED), "") == (0, "no known weakness in 1 packages")


def test_without_network_it_is_loud_and_no_failure() -> None:
    code, text = judged("", "ConnectionError: name not known")
    assert (code, text.startswith(NOT_CHECKED), "name not known" in text) == (0, True, True)
    assert judged(told(SKIPPED), "") == (0, f"{NOT_CHECKED}: nothing is installed")
    code, text = judged(told(UNKNOWN, SKIPPED), "No known vulnerabilities found")
    assert (code, text) == (0, f"{NOT_CHECKED}: not found and could not be audited")


def test_what_was_left_out_is_counted() -> None:
    code, text = judged(told(CLEAN, UNKNOWN, SKIPPED), "")
    assert (code, text) == (
        0,
        "no known weakness in 1 packages; 1 NOT CHECKED: not found and could not be audited",
    )


def test_a_network_that_swallows_requests_is_waited_for_only_so_long() -> None:
    waits = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert audited(waits, 0.3) == (0, f"{NOT_CHECKED}: no answer within 0.3 s")
