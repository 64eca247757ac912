"""`anomaly drill` as a person sees it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from anomaly.cli.drill import text
from anomaly.drill import DRILLS, Drilled, Said
from tests.cli.parts import anomaly, golden, paragraph, widest

ROOT = Path(__file__).parents[2]


def drilled(name: str, verdict: str = "ok", wrong: tuple[Said, ...] = (), found: Said | None = None) -> Drilled:
    noise = name == "quiet"
    return Drilled(
        name=name,
        seed=1,
        effect=None if noise else 0.2,
        where=None if noise else "gpu-01",
        expect="nothing" if noise else "node_alert",
        cause_family=None if noise else "network",
        limit_s=None if noise else 480.0,
        found=found,
        delay_s=None if found is None else 300.0,
        verdict=verdict,  # type: ignore[arg-type]
        wrong=wrong,
        node_days=0.8,
    )


def test_the_list_has_every_drill_within_a_hundred_columns() -> None:
    result = anomaly("drill", "--list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == list(DRILLS)
    assert widest(result.stdout) <= 100
    listed = json.loads(anomaly("drill", "--list", "--format", "json").stdout)
    assert [each["name"] for each in listed] == list(DRILLS)
    assert {each["limit_s"] for each in listed if each["name"] == "gpu_lost"} == {240}


def test_an_unknown_drill_is_refused_with_the_nearest_name() -> None:
    result = anomaly("drill", "gpu_lots")
    assert result.exit_code == 2
    assert "did you mean 'gpu_lost'?" in result.stderr


def test_what_cannot_be_written_or_notified_is_said_before_any_drill_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for option in ("--export", "--plot"):
        result = anomaly("drill", "quiet", option, tmp_path / "file" / "below")
        assert result.exit_code == 2, result.stderr
        assert "cannot be written" in paragraph(result)
    missing = anomaly("drill", "quiet", "--notify", tmp_path / "none.yaml")
    assert missing.exit_code == 3


def test_every_verdict_fits_one_line() -> None:
    long = Said("gpu-0123456", "memory_ecc", "ticket", "victim")
    found = Said("gpu-01", "network", "page")
    rows = [
        drilled("nic_degradation", found=found),
        drilled("wrong_pfc_threshold", "missed", (long, long)),
        drilled("link_down", "late", found=found),
        drilled("link_flap", "small"),
        drilled("quiet", "false", (Said("gpu-02", "thermal", "page", "false"),)),
    ]
    shown = click.unstyle(text(rows))
    table, summary = shown.split("\n\n")
    assert widest(table) <= 100
    lines = table.splitlines()
    assert len(lines) == 1 + len(rows)
    assert lines[1].split() == [
        "nic_degradation",
        "20%",
        "gpu-01",
        "network",
        "gpu-01",
        "network",
        "5m",
        "8m",
        "page",
        "ok",
    ]
    assert [line.split("  ")[-1].strip() for line in lines[2:]] == ["missed +2", "late", "small", "false +1"]
    assert summary == (
        "1 of 3 faults found in time; 0 of 1 kinds of noise left alone; "
        "1 false page, no false tickets, 2 victims blamed"
    )


@pytest.mark.slow
@pytest.mark.xdist_group("drill")
def test_three_drills_are_as_recorded(tmp_path: Path) -> None:
    """A changed line is a changed verdict: say so in the changelog."""
    result = anomaly("drill", "gpu_lost", "node_lost", "quiet", "--export", tmp_path)
    assert result.exit_code == 0, result.stdout + result.stderr
    golden("drill_table.txt", result.stdout)
    assert widest(result.stdout.split("\n\n")[0]) <= 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu_lost", "node_lost", "quiet"]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3.0, 8.0])
def test_ctrl_c_ends_it_and_its_workers_without_a_word(seconds: float, tmp_path: Path) -> None:
    """As on a terminal: every process of the group gets the signal, workers in the midst of their imports too."""
    words = [sys.executable, "-m", "anomaly.cli.main", "drill", "thermal_throttle", "nic_degradation", "gpu_lost"]
    child = subprocess.Popen(
        words,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    time.sleep(seconds)
    os.killpg(child.pid, signal.SIGINT)
    out, said = child.communicate(timeout=120)
    assert (child.returncode, out) == (130, "")
    assert "Traceback" not in said and "KeyboardInterrupt" not in said, said
