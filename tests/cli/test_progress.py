"""Progress: silent at first, lines where there is no terminal, a bar on one."""

import os
import pty
import sys
from collections.abc import Iterator

import pytest

from anomaly.cli.progress import progress


def clock(*seconds: float) -> Iterator[float]:
    yield from seconds


def test_nothing_is_said_within_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    ticks = clock(0, 0.2, 0.9)
    with progress(lambda: next(ticks)) as shown:
        shown("collect", 0.5)
        shown("collect", 1)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_a_line_comes_now_and_then_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    ticks = clock(0, 2, 5, 11.9, 12.1, 14)
    with progress(lambda: next(ticks)) as shown:
        for share in (0.1, 0.2, 0.3, 0.4, 1):
            shown("collect", share)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "anomaly: collect 10% after 2s",
        "anomaly: collect 40% after 12s",
        "anomaly: collect 100% after 14s",
    ]


def test_on_a_terminal_there_is_a_bar_that_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    ticks = clock(0, 2, 3)
    with open(slave, "w") as terminal:  # noqa: PTH123 - a descriptor, not a path
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress(lambda: next(ticks)) as shown:
            shown("collect", 0.4)
            shown("score", 0.1)
        monkeypatch.undo()
        terminal.flush()
        text = os.read(master, 65_536).decode()
    os.close(master)
    assert "collect" in text and "40%" in text and "score" in text
    assert text.rstrip().endswith("\x1b[2K"), "the last thing it does is to clear its line"
