"""What was judged, and when: for the head of a table and for the names of what is kept between runs."""

import hashlib
import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JUDGED = ("anomaly", "models")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def commit() -> str:
    """The newest commit that others have (HEAD where there is no upstream), and whether what is judged differs."""
    found = _git("merge-base", "HEAD", "@{upstream}") or _git("rev-parse", "HEAD")
    if not found:
        return "unknown"
    changed = _git("diff", "--name-only", found, "--", *JUDGED)
    return f"{found[:10]}{', with changes' if changed else ''}"


def code() -> str:
    """A name for the code that gives the verdicts on drills, ours and the rivals': the same for the same files."""
    files = [path for part in JUDGED for path in (ROOT / part).rglob("*") if path.suffix in (".py", ".yaml")]
    digest = hashlib.sha256()
    for path in sorted([*files, Path(__file__).with_name("rivals.py"), Path(__file__).with_name("drills.py")]):
        digest.update(f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]
