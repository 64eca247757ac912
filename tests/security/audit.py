"""Known weaknesses in what is installed, by pip-audit: `make audit`.

Ends with 1 only when one is found. Where the list of weaknesses cannot be had (no network), it says so loudly and ends
with 0: a machine without network must not look like a vulnerable one, nor like a checked one.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

LIMIT_SECONDS = 90.0
"""A network that swallows requests must not hold up a build."""

NOT_CHECKED = "NOT CHECKED: the list of known weaknesses could not be had here"


def weaknesses(report: Mapping[str, Any]) -> list[str]:
    """One line each: package, version, weakness, first version without it."""
    return [
        f"{package['name']} {package['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'none'}"
        for package in report["dependencies"]
        for found in package.get("vulns", ())
    ]


def judged(out: str, said: str) -> tuple[int, str]:
    """Exit code and words, from what pip-audit wrote to standard output and error."""
    try:
        report = json.loads(out)
        found = weaknesses(report)
        looked_at = sum("vulns" in package for package in report["dependencies"])
        left = [package["skip_reason"] for package in report["dependencies"] if package["name"] != "anomaly"
                and "vulns" not in package]  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return 0, f"{NOT_CHECKED}:\n{said.strip()[-1000:]}"
    if found:
        return 1, "\n".join(["known weaknesses:", *found])
    if not looked_at:
        return 0, f"{NOT_CHECKED}: {left[0] if left else 'nothing is installed'}"
    return 0, f"no known weakness in {looked_at} packages" + (f"; {len(left)} NOT CHECKED: {left[0]}" if left else "")


def audited(words: list[str], seconds: float = LIMIT_SECONDS) -> tuple[int, str]:
    """Run pip-audit, for so long."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return 0, f"{NOT_CHECKED}: no answer within {seconds:g} s"
    return judged(done.stdout, done.stderr)


def main() -> None:
    words = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable"]
    code, text = audited(words)
    sys.stderr.write(f"{text}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
