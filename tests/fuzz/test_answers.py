"""Whatever Prometheus, or whatever stands in its place, answers: the samples it holds, or a refusal. Nothing else.

`ANOMALY_FUZZ=10000` asks for more than the answers of an ordinary run.
"""

import math
import os
import random
import time
from collections.abc import Iterator

import pytest
import requests

from anomaly.config.session import session_for
from anomaly.errors import SourceError
from anomaly.records import Pulled, Query
from anomaly.source.parse import parse
from anomaly.source.prometheus import PrometheusSource
from tests.fuzz.answers import POINTS, STEP, T0, Read, answer, mutated, plainly, written
from tests.source.loopback import Asked, Reply, backend

ANSWERS = int(os.environ.get("ANOMALY_FUZZ", "500"))
LONGEST_S = 5.0
"""No answer of some kilobytes may take longer, however loaded the machine."""

QUERY = Query("gpu_temp", "DCGM_FI_DEV_GPU_TEMP", T0 * 1000, (T0 + (POINTS - 1) * STEP) * 1000, STEP * 1000)


def as_read(pulled: Pulled) -> Read:
    out: Read = {}
    at = 0
    for labels, length in zip(pulled.labels, pulled.lengths.tolist(), strict=True):
        ts, values = pulled.ts[at : at + length].tolist(), pulled.values[at : at + length].tolist()
        assert ts == sorted(set(ts)), "times of a series rise strictly"
        assert frozenset(labels.items()) not in out, "a label set comes once"
        out[frozenset(labels.items())] = dict(zip(ts, values, strict=True))
        at += length
    assert at == len(pulled.ts) == len(pulled.values)
    return out


def equal(one: Read, other: Read) -> bool:
    return one.keys() == other.keys() and all(
        samples.keys() == other[labels].keys()
        and all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(
            (samples[ts] for ts in sorted(samples)), (other[labels][ts] for ts in sorted(samples)), strict=True
        ))
        for labels, samples in one.items()
    )  # fmt: skip


class Served:
    """A source whose backend gives `body` next."""

    def __init__(self, source: PrometheusSource, shown: list[Reply]) -> None:
        self._source, self._shown = source, shown

    def pull(self, reply: Reply) -> Pulled | SourceError:
        """What comes of it; any other error than ours goes up."""
        self._shown[:] = [reply]
        begun = time.monotonic()
        try:
            return self._source.pull(QUERY)
        except SourceError as error:
            return error
        finally:
            assert time.monotonic() - begun < LONGEST_S


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    shown: list[Reply] = []

    def by(_asked: Asked) -> Reply:
        return shown[0]

    with backend(by=by) as server, session_for() as session:
        session.mount(server.url, _no_retries())
        yield Served(PrometheusSource(server.url, session, timeout_seconds=(2.0, 2.0)), shown)


def _no_retries() -> "requests.adapters.HTTPAdapter":
    return requests.adapters.HTTPAdapter(max_retries=0)


def test_an_answer_that_nobody_touched_is_read_as_it_is(served: Served) -> None:
    for seed in range(20):
        body = written(answer(random.Random(seed)))
        pulled = served.pull(Reply(body=body))
        assert isinstance(pulled, Pulled)
        assert equal(as_read(pulled), plainly(body, QUERY.start, QUERY.end, QUERY.step))


@pytest.mark.parametrize("part", range(10))
def test_a_mutated_answer_is_refused_or_read_as_the_json_parser_reads_it(part: int, served: Served) -> None:
    read = 0
    for seed in range(part, ANSWERS, 10):
        body = mutated(seed)
        pulled = served.pull(Reply(body=body))
        if isinstance(pulled, SourceError):
            assert str(pulled) and "Traceback" not in str(pulled)
            continue
        read += 1
        found = as_read(pulled)
        try:
            expected = plainly(body, QUERY.start, QUERY.end, QUERY.step)
        except Exception as error:  # noqa: BLE001 - whatever it is, the plain reading refuses
            pytest.fail(f"seed {seed}: read although the plain reading refuses it ({error!r}): {body[:300]!r}")
        assert equal(found, expected), f"seed {seed}: {body[:300]!r}"
    assert read, "nothing but refusals: the mutations are too wild to say anything"


BREAKS = ["cut", "length", "status", "encoding", "chunks", "type"]


def broken(how: str, body: bytes, rng: random.Random) -> Reply:
    """The same body, damaged on its way."""
    match how:
        case "cut":
            return Reply(body=body, cut=rng.randrange(len(body)))
        case "length":
            return Reply(body=body, headers={"Content-Length": str(len(body) - rng.randrange(1, 50))})
        case "status":
            return Reply(rng.choice([204, 301, 400, 401, 403, 404, 418, 422, 429, 500, 503, 999]), body)
        case "encoding":
            return Reply(body=body, headers={"Content-Encoding": rng.choice(["gzip", "deflate", "br"])})
        case "chunks":
            return Reply(body=body, chunked=True, cut=rng.randrange(len(body)))
        case _:
            return Reply(body=body, headers={"Content-Type": rng.choice(["text/html", "", "\x7f"])})


@pytest.mark.parametrize("how", BREAKS)
def test_an_answer_broken_on_its_way_is_refused_or_whole(how: str, served: Served) -> None:
    for seed in range(ANSWERS // 100 + 5):
        rng = random.Random(f"{how}{seed}")
        body = written(answer(rng))
        pulled = served.pull(broken(how, body, rng))
        if isinstance(pulled, Pulled):
            assert equal(as_read(pulled), plainly(body, QUERY.start, QUERY.end, QUERY.step)), f"{how} {seed}"


def test_noise_is_refused() -> None:
    rng = random.Random(0)
    for _ in range(ANSWERS):
        with pytest.raises(SourceError):
            parse(rng.randbytes(rng.randrange(200)))
