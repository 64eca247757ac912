"""Answers of Prometheus that were real once: mutations of them, and a slow, plain reading to hold ours against."""

import json
import random
from collections.abc import Callable
from typing import Any

from anomaly.clock import Ms

T0 = 1_780_300_800
STEP = 15
POINTS = 24

WEIRD = [
    "\x00",
    "\u2028",
    "\ud800",
    "🔥",
    "\u202egpu",
    "ﬀ",
    "a" * 5000,
    '"',
    "\\",
    "]]},{",
    '"values":[[',
    "é́",
    "\ufeff",
]
NUMBERS = [
    "1e400",
    "-1e400",
    "NaN",
    "+Inf",
    "-Inf",
    "1e308",
    "5e-324",
    "0x10",
    "1_000",
    "٣",
    "",
    " 1",
    "1 ",
    "nan",
    "null",
]
RAW = [
    "1e999",
    "-1",
    "9" * 40,
    "1e11",
    "NaN",
    "Infinity",
    "-0",
    "0.0000001",
    "null",
    "true",
    '"1700000000"',
    "[]",
    "{}",
]


def answer(rng: random.Random) -> dict[str, Any]:
    """One as Prometheus gives it: a matrix of one to five series."""
    series = []
    for gpu in range(rng.randint(1, 5)):
        labels = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "Hostname": f"gpu-{rng.randint(1, 40):02d}", "gpu": str(gpu)}
        begin = rng.randint(0, POINTS - 1)
        values = [[T0 + i * STEP, _value(rng)] for i in range(begin, rng.randint(begin + 1, POINTS))]
        series.append({"metric": labels, "values": values})
    more: dict[str, Any] = {"warnings": ["store gpu-b is down"]} if rng.random() < 0.1 else {}
    return {"status": "success", "data": {"resultType": "matrix", "result": series}, **more}


def _value(rng: random.Random) -> str:
    return rng.choice([str(rng.randint(20, 95)), f"{rng.uniform(0, 1):.6f}", "NaN", "+Inf", "0", f"{rng.random():.3e}"])


def written(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


# ── mutations of the document ──


def _somewhere(document: Any, rng: random.Random) -> tuple[Any, Any]:
    """A container in the document and a key of it."""
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = rng.choice(keys)
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.25:
            return place, key
        place = inner


def another_type(document: Any, rng: random.Random) -> bytes:
    place, key = _somewhere(document, rng)
    place[key] = rng.choice([None, True, 0, -1.5, "x", [], {}, [[]], {"a": 1}, [1, 2, 3], 10**30, "1e3"])
    return written(document)


def weird_text(document: Any, rng: random.Random) -> bytes:
    place, key = _somewhere(document, rng)
    text = rng.choice(WEIRD)
    if isinstance(place, dict) and rng.random() < 0.5:
        place[text] = place.pop(key)
    else:
        place[key] = text
    return written(document)


def weird_value(document: Any, rng: random.Random) -> bytes:
    series = rng.choice(document["data"]["result"])
    rng.choice(series["values"])[1] = rng.choice(NUMBERS)
    return written(document)


def weird_time(document: Any, rng: random.Random) -> bytes:
    series = rng.choice(document["data"]["result"])
    rng.choice(series["values"])[0] = "TIME"
    return written(document).replace(b'"TIME"', rng.choice(RAW).encode())


def off_the_grid(document: Any, rng: random.Random) -> bytes:
    series = rng.choice(document["data"]["result"])
    rng.choice(series["values"])[0] += rng.choice([0.001, 7.4, 7.5, -7.5, 0.9996, -3600, 86_400, 15])
    return written(document)


def twice(document: Any, rng: random.Random) -> bytes:
    """A series, a sample or a key comes again, perhaps with another value."""
    result = document["data"]["result"]
    series = rng.choice(result)
    if rng.random() < 0.4:
        result.append(json.loads(json.dumps(series)))
        rng.choice(result[-1]["values"])[1] = "7"
    elif rng.random() < 0.5:
        series["values"].insert(rng.randrange(len(series["values"])), [rng.choice(series["values"])[0], "8"])
    key = rng.choice([b'"metric":', b'"values":', b'"result":', b'"status":', b'"gpu":'])
    again = rng.choice([b'"x",', b"[],", b"{},", b'[[1,"2"]],', b'{"gpu":"0"},'])
    body = written(document)
    return body.replace(key, key + again + key, rng.choice([1, 1, -1])) if rng.random() < 0.5 else body


def another_order(document: Any, rng: random.Random) -> bytes:
    for series in document["data"]["result"]:
        if rng.random() < 0.5:
            rng.shuffle(series["values"])
    document["data"]["result"] = [dict(reversed(one.items())) for one in document["data"]["result"]]
    return json.dumps(document, indent=rng.choice([None, 1])).encode()


# ── mutations of the bytes ──


def cut(document: Any, rng: random.Random) -> bytes:
    body = written(document)
    return body[: rng.randrange(len(body))]


def flipped(document: Any, rng: random.Random) -> bytes:
    body = bytearray(written(document))
    for _ in range(rng.choice([1, 1, 2, 8])):
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    return bytes(body)


def replaced(document: Any, rng: random.Random) -> bytes:
    body = bytearray(written(document))
    at = rng.randrange(len(body))
    body[at : at + rng.randrange(6)] = rng.choice(
        [b"[", b"]", b"{", b",", b'"', b":", b"\\", b"\xff", b"1", b"\n", b""]
    )
    return bytes(body)


def a_piece_moved(document: Any, rng: random.Random) -> bytes:
    body = written(document)
    a, b, c = sorted(rng.randrange(len(body)) for _ in range(3))
    return body[:a] + body[b:c] + body[a:b] + body[c:] if rng.random() < 0.5 else body[:b] + body[a:]


MUTATIONS: list[Callable[[Any, random.Random], bytes]] = [
    another_type, weird_text, weird_value, weird_time, off_the_grid, twice, another_order, cut, flipped, replaced,
    a_piece_moved,
]  # fmt: skip


def mutated(seed: int) -> bytes:
    """The body of this number; every number its own, always the same."""
    rng = random.Random(seed)
    return rng.choice(MUTATIONS)(answer(rng), rng)


# ── the plain reading ──

Read = dict[frozenset[tuple[str, str]], dict[Ms, float]]


def plainly(body: bytes, start: Ms, end: Ms, step: Ms) -> Read:
    """What a body says, read with the JSON parser and nothing else; raises where it is not an answer to the query."""
    document = json.loads(body.decode("utf-8"))
    if document["status"] != "success":
        raise ValueError("no success")
    data = document["data"]
    out: Read = {}
    for one in [{"metric": {}, "value": data["result"]}] if data["resultType"] == "scalar" else data["result"]:
        if "histogram" in one or "histograms" in one:
            continue
        series = out.setdefault(frozenset(one["metric"].items()), {})
        for seconds, text in [one["value"]] if "value" in one else one["values"]:
            ts = round(float(seconds) * 1000)
            off = (ts - start) % step
            ts += -off if 2 * off < step else step - off
            if start <= ts <= end:
                series.setdefault(ts, float(text))
    return {labels: samples for labels, samples in out.items() if samples}
