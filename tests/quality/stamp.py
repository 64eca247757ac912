"""What was judged, and when: for the head of a table and for the names of what is kept between runs."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def commit() -> str:
    """The commit, and whether the product differs from it; `unknown` outside a repository."""
    found = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--", "anomaly", "models", "tests/quality")
    return f"{found}, with changes" if found and changed else found or "unknown"


def code() -> str:
    """A name for the code whose verdicts are looked at: the same for every commit that leaves it alone."""
    changed = _git("status", "--porcelain", "--", "anomaly", "models")
    return "changed" if changed else _git("rev-parse", "--short=10", "HEAD:anomaly") or "unknown"
