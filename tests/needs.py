"""What tests need from the machine: real binaries, public data. A test without them skips, naming what is missing.

`ANOMALY_E2E=required` (CI) turns every such skip into a failure; `tests/conftest.py` does that.
"""

import os
import shutil
from pathlib import Path

import pytest

MISSING = "missing: "
"""Every skip for want of a binary or of data starts with this."""

BINARIES = {
    # name: (environment variable, names on the path, Debian package)
    "prometheus": ("ANOMALY_PROMETHEUS", ("prometheus",), "prometheus"),
    "promtool": ("ANOMALY_PROMTOOL", ("promtool",), "prometheus"),
    "alertmanager": ("ANOMALY_ALERTMANAGER", ("prometheus-alertmanager", "alertmanager"), "prometheus-alertmanager"),
    "node_exporter": (
        "ANOMALY_NODE_EXPORTER",
        ("prometheus-node-exporter", "node_exporter"),
        "prometheus-node-exporter",
    ),
    "victoria_metrics": ("ANOMALY_VICTORIA_METRICS", ("victoria-metrics", "victoria-metrics-prod"), "victoria-metrics"),
}

EVERYWHERE = ("prometheus", "promtool", "alertmanager")
"""What every end-to-end test needs; a test that needs more asks for it."""


def required() -> bool:
    """Whether a missing binary or missing data is a failure rather than a skip."""
    return os.environ.get("ANOMALY_E2E") == "required"


def find_binary(name: str) -> Path | None:
    """A key of `BINARIES`, from its environment variable or the path; None where it is not installed."""
    variable, names, _ = BINARIES[name]
    given = os.environ.get(variable)
    found = (shutil.which(candidate) for candidate in ([given] if given else names))
    return next((Path(path) for path in found if path), None)


def missing_binaries() -> tuple[str, ...]:
    """The keys of `EVERYWHERE` that this machine lacks."""
    return tuple(name for name in EVERYWHERE if find_binary(name) is None)


def binary(name: str) -> Path:
    """The binary; skips the running test where it is not installed."""
    found = find_binary(name)
    if found is None:
        pytest.skip(f"{MISSING}{name}; {how_to_install()}")
    return found


def how_to_install() -> str:
    """The next step for whoever lacks a binary."""
    packages = sorted({package for _, _, package in BINARIES.values()})
    variables = ", ".join(variable for variable, _, _ in BINARIES.values())
    return f"apt-get install {' '.join(packages)} (or point {variables} at binaries)"


def public_data(part: str) -> Path:
    """A folder of the public data under `ANOMALY_DATA`; skips the running test where it is absent."""
    return _folder("ANOMALY_DATA", part)


def public_tools(part: str = "") -> Path:
    """A file or folder of the tools that judge results on public data, under `ANOMALY_TOOLS`; skips likewise."""
    return _folder("ANOMALY_TOOLS", part)


def _folder(variable: str, part: str) -> Path:
    base = os.environ.get(variable)
    if not base:
        pytest.skip(f"{MISSING}{part or variable}; set {variable} to the folder that holds it")
    path = Path(base) / part
    if not path.exists():
        pytest.skip(f"{MISSING}{part or base} in {variable}={base}; set {variable} to the folder that holds it")
    return path
