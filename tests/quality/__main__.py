"""`python -m tests.quality [PART…] [--quick]`: what the detectors are worth, written into docs/quality.md.

Only the parts that run are replaced; each carries its own date, commit and seeds.
"""

import argparse
import fcntl
import os
import re
import sys
import time
from pathlib import Path

import pytest

from tests.quality import drill_tables, drills, multivariate, nab, real
from tests.quality.seeds import read_seeds
from tests.quality.stamp import ROOT, code, commit, today

FILE = ROOT / "docs" / "quality.md"
KEPT = ROOT / "var" / "quality"
TITLES = {
    "drills": "Drills that nobody tuned on",
    "rivals": "What people run today, on the same drills",
    "real": "Real A100 nodes, through a real Prometheus",
    "nab": "NAB",
    "multivariate": "SMD and ASD: VUS-PR",
}
HEAD = """# What the detectors are worth

Written by `make bench-quality`; nothing here is edited by hand. Rows where we lose stand beside those where we win.
Seeds and kinds that only report, never tune, are in `tests/quality/seeds.yaml`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.quality", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to run: {', '.join(TITLES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a part of everything, five minutes on two quiet cores")
    parser.add_argument("--seeds", type=int, metavar="N", help="only the first N of the reporting seeds")
    parser.add_argument("--minutes", type=float, metavar="N", help="begin no drill after so many minutes")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes for drills")
    parser.add_argument("--out", type=Path, default=FILE, metavar="FILE", help="the table (default: docs/quality.md)")
    options = parser.parse_args()
    unknown = set(options.parts) - set(TITLES)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(TITLES)}")
    chosen = options.parts or list(TITLES)
    missing = []
    for part in sorted(chosen, key=list(TITLES).index):
        begun, stamp = time.monotonic(), f"{today()}, commit {commit()}"
        try:
            text = _run(part, options)
        except pytest.skip.Exception as absent:  # data or a binary, as in tests
            missing.append(part)
            _say(f"{part}: left out, {absent}")
            continue
        form = "quick form" if options.quick else "whole form"
        # What drills took lies in the runs that were kept.
        took = "" if part in ("drills", "rivals") else f", {(time.monotonic() - begun) / 60:.0f} min"
        _replace(options.out, part, f"{stamp}, {form}{took}.\n\n{text}")
        _say(f"{part}: written to {options.out}")
    return int(bool(missing))


def _run(part: str, options: argparse.Namespace) -> str:
    if part == "real":
        return real.section(options.quick, _say)
    if part == "nab":
        return nab.section(options.quick, _say)
    if part == "multivariate":
        return multivariate.section(options.quick, _say)
    known = read_seeds()
    seeds = known.drawn(options.quick)[: options.seeds]
    todo = drills.planned(seeds, options.quick)
    kept = KEPT / f"drills-{code()}.jsonl"
    told = drills.run(todo, kept, options.workers, _say, options.minutes)
    ran = len(drill_tables.of_whom(told, drills.OURS))
    cut = "" if ran == len(todo) else f" of {len(todo)}; there was no time for more"
    head = f"Seeds {', '.join(map(str, seeds))}; {ran} drills{cut}."
    tables = drill_tables.section(told, known.kept_out) if part == "drills" else drill_tables.rivals(told)
    return f"{head}\n\n{tables}"


def _replace(file: Path, part: str, body: str) -> None:
    """Put a part into the file at its place, the others as they are; several runs may do so at a time."""
    with file.open("a+", encoding="utf-8") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        opened.seek(0)
        parts = dict(re.findall(r"<!-- part: (\w+) -->\n(.*?)\n<!-- end -->", opened.read(), re.DOTALL))
        parts[part] = f"\n## {TITLES[part]}\n\n{body}\n"
        whole = [f"<!-- part: {name} -->\n{parts[name]}\n<!-- end -->\n" for name in TITLES if name in parts]
        opened.truncate(0)
        opened.write("\n".join([HEAD, *whole]))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
