"""The guard around end-to-end tests: a skip is loud, and a failure where such tests are required."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SUITE = """
import pytest
from tests import needs

@pytest.mark.e2e
def test_servers(): pass

def test_data(): needs.public_data("gwdg_gpu")

@pytest.mark.skip(reason="another reason")
def test_other(): pass

@pytest.mark.xfail(reason="known", strict=True)
def test_known(): assert False
"""


def run(suite: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """pytest on `suite` with our guard as its only plugin, on a machine without servers and data."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("ANOMALY_", "PYTEST_"))}
    nowhere = {name: str(suite / "absent") for name in ("ANOMALY_PROMETHEUS", "ANOMALY_PROMTOOL")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-v", *args],
        cwd=suite,
        env={**base, **nowhere, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = e2e\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    return tmp_path


def test_what_cannot_run_is_skipped_loudly(suite: Path) -> None:
    done = run(suite)
    assert done.returncode == 0, done.stdout
    assert "NOT RUN: 2 tests against real servers or data" in done.stdout
    assert "missing: prometheus, promtool" in done.stdout
    assert "apt-get install prometheus prometheus-alertmanager" in done.stdout
    assert "3 skipped, 1 xfailed" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("workers", [(), ("-n", "1", "--dist", "loadgroup")], ids=["alone", "on a worker"])
def test_where_required_it_fails_instead(suite: Path, workers: tuple[str, ...]) -> None:
    done = run(suite, *workers, ANOMALY_E2E="required")
    assert done.returncode == 1, done.stdout
    assert "skipped although ANOMALY_E2E=required: missing: prometheus, promtool" in done.stdout
    assert "skipped although ANOMALY_E2E=required: missing: gwdg_gpu" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert all(part in last for part in ("1 failed", "1 skipped", "1 xfailed", "1 error")), last


def test_a_whole_file_that_skips_itself_fails_too(suite: Path) -> None:
    (suite / "test_whole.py").write_text("import pytest\npytest.skip('missing: promtool', allow_module_level=True)\n")
    assert run(suite, "test_whole.py").returncode == 5, "nothing ran, nothing failed"
    done = run(suite, "test_whole.py", ANOMALY_E2E="required")
    assert done.returncode == 2, done.stdout
    assert "skipped although ANOMALY_E2E=required: missing: promtool" in done.stdout
