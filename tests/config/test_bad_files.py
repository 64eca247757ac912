"""Every mistake of `bad/`, each file named after its own, has the words beside it: what, where, what would be right.

After a wording was changed on purpose: `python -m tests.config.test_bad_files` writes the words anew; read the diff.
"""

import os
import re
from pathlib import Path

import pytest

from anomaly.config.load import load_pipeline
from anomaly.errors import ConfigError

BAD = Path(__file__).parent / "bad"
FILES = sorted(BAD.glob("*.yaml"))
SECRETS = ("swordfish", "4711")


def words_for(name: str) -> str:
    """The whole error text for a file in the current directory."""
    with pytest.raises(ConfigError) as caught:
        load_pipeline(name)
    assert caught.value.exit_code == 3
    return f"{caught.value}\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_mistake_is_told_in_the_words_beside_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in grafana/grafana PR#38648, grafana/grafana#38419, grafana/grafana#37461."""
    monkeypatch.chdir(BAD)
    assert words_for(path.name) == path.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_secret_stands_in_the_words(path: Path) -> None:
    assert not any(secret in path.with_suffix(".txt").read_text(encoding="utf-8") for secret in SECRETS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_problem_names_file_and_line_in_one_line(path: Path) -> None:
    told = path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(rf"{path.name}: \d+ problems?", told[0])
    assert told[-1] == "correct the file and try again"
    problems = told[1:-1]
    assert problems
    assert all(re.match(rf"  {path.name}:\d+: \S", line) for line in problems) or path.stem in (
        "empty",
        "only-comments",
    )


def test_there_are_enough_mistakes_and_no_words_without_a_file() -> None:
    assert len(FILES) >= 30
    assert {path.stem for path in BAD.glob("*.txt")} == {path.stem for path in FILES}


def test_a_file_too_large_to_be_a_configuration_is_not_read_on(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"# " + b"x" * (1 << 20))
    with pytest.raises(ConfigError, match="larger than 1024 KiB"):
        load_pipeline(path)


@pytest.mark.parametrize(("name", "why"), [("absent.yaml", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        load_pipeline(tmp_path / name)
    assert caught.value.exit_code == 3


def test_the_lines_of_many_mistakes_come_in_order() -> None:
    with pytest.raises(ConfigError) as caught:
        load_pipeline(BAD / "many-mistakes.yaml")
    lines = [problem.line for problem in caught.value.problems]
    assert lines == sorted(lines)
    assert len(lines) >= 10


if __name__ == "__main__":
    os.chdir(BAD)
    for file in FILES:
        file.with_suffix(".txt").write_text(words_for(file.name), encoding="utf-8")
