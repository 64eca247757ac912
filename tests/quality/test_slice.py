"""A tiny slice of `make bench-quality`, on a tuning seed, so that it cannot rot; and what its tables count."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.quality import __main__ as command
from tests.quality import drill_tables, drills, real
from tests.quality.drills import OURS, Task, Told
from tests.quality.rivals import RIVALS


@pytest.mark.slow
def test_a_drill_goes_through_everybody_and_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, said = tmp_path / "kept.jsonl", list[str]()
    told = drills.run([Task("gpu_lost", 1, None)], kept, 1, said.append)
    assert [one["who"] for one in told] == [OURS, *RIVALS]
    ours, rules, *_ = told
    assert (ours["verdict"], ours["found"]["cause"]) == ("ok", "gpu_lost")
    assert (rules["verdict"], rules["found"]["where"]) == ("ok", ours["found"]["where"]), "the XID is a rule"
    assert said == ["drills: 1 of 1"]

    def never(task: Task) -> list[Told]:
        raise AssertionError(f"{task} is kept")

    monkeypatch.setattr(drills, "run_one", never)
    assert drills.run([Task("gpu_lost", 1, None)], kept, 1, said.append) == told
    for text in (drill_tables.section(told, frozenset()), drill_tables.rivals(told)):
        assert "| 1/1 |" in text


def one(name: str, effect: float | None, verdict: str, who: str = OURS, **more: Any) -> Told:
    """What somebody made of a drill of sixteen nodes and an hour and a quarter."""
    found = {"where": "gpu-01", "cause": "network", "level": "page", "kind": "found"} if verdict == "ok" else None
    body = {"who": who, "name": name, "seed": 1, "effect": effect, "verdict": verdict, "wrong": [], "node_days": 0.8,
            "found": found, "delay_s": 300.0 if found else None,
            "expected": {"where": "gpu-01", "expect": "node_alert"}}  # fmt: skip
    return body | more


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("| \n").split("|")] for line in text.splitlines() if line[:1] == "|"]


WRONG = [
    {"where": "gpu-02", "cause": "thermal", "level": "page", "kind": "false"},
    {"where": "gpu-03", "cause": "thermal", "level": "ticket", "kind": "victim"},
]
TOLD = [
    one("nic_degradation", 0.05, "small"),
    one("nic_degradation", 0.05, "ok"),
    one("nic_degradation", 0.1, "ok"),
    one("nic_degradation", 0.2, "late", delay_s=900.0),
    one("link_flap", 0.2, "missed", wrong=WRONG),
    one("leaf_congestion", 0.4, "ok"),
    one("quiet", None, "ok", expected={"where": None, "expect": "nothing"}),
    one("slow_gpu", None, "ok", expected={"where": None, "expect": "nothing"}, wrong=WRONG[1:]),
]


def test_recall_is_counted_by_effect_and_nothing_is_due_below_a_tenth() -> None:
    text = drill_tables.section(TOLD, frozenset({"link_flap"}))
    by_effect = {row[0]: row[1:] for row in rows(text)}
    assert by_effect["5 % (nothing due)"][0] == "1/2"
    assert by_effect["10 %"][:2] == ["1/1", "2–100 %"]
    assert by_effect["20 %"] == ["0/2", "0–84 %", "0/1", "1", "1"]
    assert by_effect["`link_flap` (kept out of tuning)"][2] == "0/1"
    looked_at = text[text.index("to look at") :]
    assert [row[0] for row in rows(looked_at)[1:]] == ["`nic_degradation`", "`link_flap`"]
    assert "false page on gpu-02 (thermal); victim ticket on gpu-03 (thermal)" in looked_at


def test_everybody_is_counted_alike() -> None:
    """Of four faults due two were found in time, of 5 % one more; a false page and a victim stand against them, and a
    ticket on a slow board, which may be written."""
    ours = rows(drill_tables.rivals([*TOLD, *(one("quiet", None, "ok", who=who) for who in RIVALS)]))[2]
    assert ours[:6] == [OURS, "2/4 50 %", "1/3", "1/1", "60 %", "1"]
    # One page in eight times 0.8 node-days: 15.6 per 100, Garwood 0.0253 to 5.5716 of them.
    assert ours[6] == "16 (0–87)"
    assert ours[10:12] == ["5.0 min", "5.0 min"]
    # 0.42 x 2/4 found against 0.42 x 1/4 victims and 15.6 false.
    assert ours[12] == "1 %"


def test_parts_of_the_file_are_replaced_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "quality.md"
    for part, body in (("nab", "first"), ("drills", "second"), ("nab", "third")):
        command._replace(file, part, body)
    text = file.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [command.TITLES["drills"], command.TITLES["nab"]]
    assert "second" in text and "third" in text and "first" not in text


def test_tiers_take_away_what_they_say() -> None:
    names = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_GPU_TEMP", "up", "scrape_samples_scraped", "node_load1")
    left = {tier.name: [name for name in names if re.fullmatch(tier.metrics, name)] for tier in real.TIERS}
    assert left["all metrics"] == list(names)
    assert left["without XID"] == list(names[1:])
    assert left["numbers only"] == ["DCGM_FI_DEV_GPU_TEMP", "node_load1"]
