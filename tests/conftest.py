"""End-to-end tests: which need what, one after the other, and never silently skipped.

A test marked `e2e` skips where Prometheus, promtool or Alertmanager is not installed, and the summary says so
loudly. With `ANOMALY_E2E=required` such a skip is a failure.
"""

from collections.abc import Generator

import pytest

from tests import needs

MAIN_LINE = "tests/e2e/test_main_line.py"


def pytest_itemcollected(item: pytest.Item) -> None:
    """End-to-end tests run one after the other on one xdist worker: each starts several processes on a small machine.

    Every test in tests/e2e is one, marked or not. The main line waits in real time for most of a quarter of an hour
    and has a worker to itself.
    """
    if item.nodeid.startswith("tests/e2e/"):
        item.add_marker(pytest.mark.e2e)
    if item.get_closest_marker("e2e"):
        waits = item.nodeid.startswith(MAIN_LINE)
        item.add_marker(pytest.mark.xdist_group("e2e-main-line" if waits else "e2e"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first: the main line, then the other end-to-end tests, then all others as they fell."""

    def place(item: pytest.Item) -> int:
        if not item.get_closest_marker("e2e"):
            return 2
        return 0 if item.nodeid.startswith(MAIN_LINE) else 1

    items.sort(key=place)


def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = needs.missing_binaries()
    if missing and item.get_closest_marker("e2e"):
        pytest.skip(f"{needs.MISSING}{', '.join(missing)}; {needs.how_to_install()}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where end-to-end tests are required, skipping one is failing it."""
    report = yield
    unwanted = item.get_closest_marker("e2e") or needs.MISSING in _reason(report)
    if needs.required() and report.skipped and not hasattr(report, "wasxfail") and unwanted:
        report.outcome = "failed"
        report.longrepr = f"skipped although ANOMALY_E2E=required: {_reason(report)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole file that skips itself."""
    report = yield
    unwanted = "e2e" in collector.path.parts or needs.MISSING in _reason(report)
    if needs.required() and report.outcome == "skipped" and unwanted:
        report.outcome = "failed"
        report.longrepr = f"skipped although ANOMALY_E2E=required: {_reason(report)}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What did not run for want of a binary or of data, so that a green line is not misread."""
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if "e2e" in getattr(report, "keywords", ()) or needs.MISSING in _reason(report)
    ]
    if not skipped:
        return
    terminalreporter.section(f"NOT RUN: {len(skipped)} tests against real servers or data", yellow=True, bold=True)
    for report in skipped:
        terminalreporter.write_line(f"  {report.nodeid}")
    for reason in sorted({_reason(report) for report in skipped}):
        terminalreporter.write_line(reason, yellow=True)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why it was skipped, in the words given; a skip's `longrepr` is (file, line, reason)."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return ""
