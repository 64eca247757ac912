"""Whatever a file holds: a pipeline or a ConfigError with problems, never anything else.

`ANOMALY_FUZZ=10000` asks for more than the examples of an ordinary run.
"""

import os
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anomaly.config.load import pipeline_from
from anomaly.config.pipeline import Pipeline
from anomaly.config.problems import sections
from anomaly.errors import ConfigError
from anomaly.strict_yaml import parse
from tests.config.test_bad_files import BAD
from tests.config.test_pipeline import PIPELINES

EXAMPLES = int(os.environ.get("ANOMALY_FUZZ", "300")) // 3
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

SEEDS = [path.read_bytes() for path in sorted([*BAD.glob("*.yaml"), *PIPELINES.glob("*.yaml")])]
KEYS = sorted({name for _, section in sections(Pipeline) for name in section.model_fields})
PIECES = [
    b"\t",
    b"\n",
    b": ",
    b"- ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"'",
    b'"',
    b"&a ",
    b"*a",
    b"<<: *a",
    b"!!x ",
    b"---\n",
    b"\xff",
]
PIECES += [
    b"3:15",
    b"no",
    b"010",
    b"1e999",
    b".nan",
    b"|\n",
    b"? ",
    b"\\ud800",
    b"\x00",
    b"\xe2\x80\xa8",
    b"9" * 5000,
    b"~",
]


def judge(raw: bytes) -> None:
    try:
        spec = pipeline_from(parse(raw, "fuzzed.yaml"))
    except ConfigError as error:
        assert error.problems
        assert str(error).encode()
    else:
        assert isinstance(spec, Pipeline)
        assert spec.dump_masked()["cluster"] == spec.cluster


def scalars() -> st.SearchStrategy[str]:
    odd = [
        "",
        "~",
        "no",
        "3:15",
        "15s",
        "0",
        "-1",
        "1e999",
        ".inf",
        '"x"',
        "[]",
        "{}",
        "http://h",
        "&a x",
        "*a",
        "05:00",
    ]
    return st.one_of(st.sampled_from(odd), st.integers().map(str), st.floats().map(str), st.text(max_size=8).map(repr))


def written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(written, value)) + "]" if isinstance(value, list) else str(value)


@FUZZ
@given(st.binary(max_size=400))
def test_any_bytes(raw: bytes) -> None:
    judge(raw)


@FUZZ
@given(st.sampled_from(SEEDS), st.integers(0, 2**32))
def test_files_with_pieces_cut_moved_and_put_in(raw: bytes, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 6)):
        at, until = sorted((chance.randint(0, len(raw)), chance.randint(0, len(raw))))
        piece = chance.choice([*PIECES, raw[at : at + 20], chance.choice(KEYS).encode() + b": "])
        raw = raw[:at] + piece + raw[chance.choice([at, min(at + 3, len(raw)), until]) :]
    judge(raw)


@FUZZ
@given(
    st.dictionaries(
        st.sampled_from(KEYS),
        st.recursive(
            scalars(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=5,
    )
)
def test_known_keys_with_any_values(data: dict[str, Any]) -> None:
    base = "cluster: a\npacks: [dcgm]\n" if len(data) % 2 else ""
    judge((base + "".join(f"{key}: {written(value)}\n" for key, value in data.items())).encode("utf-8", "replace"))
