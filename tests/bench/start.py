"""How long the command takes to say what it can do: heavy imports are lazy."""

import subprocess
import sys

from tests.bench.measure import Row, best


def rows() -> list[Row]:
    argv = [sys.executable, "-m", "anomaly.cli.main", "--help"]
    seconds = best(lambda: subprocess.run(argv, check=True, capture_output=True), repeats=5)
    bare = best(lambda: subprocess.run([sys.executable, "-c", ""], check=True), repeats=5)
    return [Row("anomaly --help", seconds, "s", 0.3, note=f"Python alone {bare:.2f} s")]
