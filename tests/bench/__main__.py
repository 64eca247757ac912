"""`python -m tests.bench [NAME…] [--quick] [--json FILE]`: every row in a process of its own, then a table."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.bench.measure import Row, alone, load
from tests.bench.suite import QUICK, run
from tests.needs import MISSING, how_to_install, missing_binaries


def table(rows: list[Row]) -> str:
    """As Markdown."""
    lines = ["| what | figure | target | | |", "|---|---|---|---|---|"]
    lines += [f"| {one.what} | {_number(one)} | {one.wanted} | {one.verdict} | {one.note} |" for one in rows]
    return "\n".join(lines)


def _number(row: Row) -> str:
    return f"{row.figure:.3g} {row.unit}" if row.figure < 1000 else f"{row.figure:,.0f} {row.unit}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"rows to run: {', '.join(QUICK)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast it is")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures as JSON too")
    options = parser.parse_args()
    unknown = set(options.names) - set(QUICK)
    if unknown:
        parser.error(f"there is no row {', '.join(sorted(unknown))}; there are {', '.join(QUICK)}")
    found: list[Row] = []
    begun = load()
    say(f"load {begun:.2f} at the start")
    for name in options.names or QUICK:
        if name == "pull" and {"prometheus", "promtool"} & set(missing_binaries()):
            say(f"pull: left out, {MISSING}prometheus; {how_to_install()}")
            continue
        for row in alone(run, name, options.quick):
            say(f"{row.what}: {_number(row)} {f'({row.wanted}) ' if row.wanted else ''}{row.verdict}  {row.note}")
            found.append(row)
    say(f"\nload {begun:.2f} at the start, {load():.2f} at the end\n\n{table(found)}")
    if options.json:
        figures = [asdict(row) | {"met": row.met} for row in found]
        options.json.write_text(json.dumps({"load": [begun, load()], "rows": figures}, indent=1) + "\n")
    return 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
