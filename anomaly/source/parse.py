"""An answer of `query` or `query_range` as columns, with no Python object per sample.

The fast way cuts the blocks of samples out of the bytes. What is left, the *skeleton*, is small and goes through
the JSON parser, which vouches for structure and labels; the blocks go through polars' CSV reader. Whatever is not
exactly as Prometheus writes it takes the slow way: the JSON parser alone decides. Both give the same columns.
"""

import json
from typing import Any

import numpy as np

from anomaly.errors import SourceGarbled, SourceRejected
from anomaly.records import Floats, Ints, Labels, Pulled

_OPEN = b'"values":[['
# Inside a JSON string every quote is escaped, so in valid JSON this can only be a key followed by its value.
_NEXT = b']]},{"metric":{'
_LAST = b"]]}"
_EARLIEST_SECONDS = 1e9
"""Before this (the year 2001) the slow way decides: `0780301055` is no JSON, but a number to polars."""
_LATEST_SECONDS = 1e11
"""Beyond this (the year 5138) seconds as a double are no longer exact to the millisecond."""


def parse(body: bytes) -> Pulled:
    """The series of a successful answer in the order given; `warnings` holds what it says about completeness.

    Takes matrices, vectors and scalars (one series without labels). Timestamps are exact milliseconds; NaN and
    ±Inf are kept. Native histograms are left out with a warning. Neither uniqueness of label sets nor order of
    timestamps is checked here: see `ranges.merge`.

    Raises SourceGarbled when `body` is not such an answer (HTML, truncated, another schema) and SourceRejected
    when it reports an error.
    """
    pulled = _fast(body)
    return pulled if pulled is not None else _slow(body)


# ── the fast way ──────────────────────────────────────────────────────────────────────────────────────


def _fast(body: bytes) -> Pulled | None:
    """The answer, or None for anything that is not exactly a matrix as Prometheus writes it."""
    cut = _cut(body)
    if cut is None:
        return None
    skeleton, blocks = cut
    answer = _load(skeleton)
    if answer is None:
        return None
    labels = _labels_of_emptied(answer)
    if labels is None or len(labels) != len(blocks):
        return None
    columns = _columns(blocks)
    return None if columns is None else Pulled(tuple(labels), *columns, _warnings(answer))


def _cut(body: bytes) -> tuple[bytes, list[bytes]] | None:
    """The body with every `"values":[[…]]` emptied to `"values":[]`, and what stood inside."""
    head, *segments = body.split(_OPEN)
    if not segments:
        return None
    last = len(segments) - 1
    blocks, rest = [], [head]
    for i, segment in enumerate(segments):
        # Searched from the right, over the labels of the next series instead of over all samples.
        end = segment.rfind(_NEXT) if i < last else segment.find(_LAST)
        if end < 0:
            return None
        blocks.append(segment[:end])
        rest.append(segment[end + 2 :])
    return b'"values":[]'.join(rest), blocks


def _labels_of_emptied(answer: dict[str, Any]) -> list[Labels] | None:
    """The label sets, provided that the skeleton is a matrix whose series hold labels and an emptied block each."""
    try:
        if answer["status"] != "success" or answer["data"]["resultType"] != "matrix":
            return None
        series = answer["data"]["result"]
        if not all(len(one) == 2 and one["values"] == [] and _is_labels(one["metric"]) for one in series):
            return None
        return [one["metric"] for one in series]
    except (KeyError, TypeError):
        return None


def _columns(blocks: list[bytes]) -> tuple[Ints, Ints, Floats] | None:
    """Blocks of `ts,"v"],[ts,"v"…` as lengths, ts and values; None unless every byte is accounted for."""
    import polars as pl

    # A third field ends the last row of each block and tells where series end. A first row of all three fields goes
    # ahead: it says how many there are.
    text = b",1],[".join([b"0,0", *blocks[:-1], blocks[-1] + b",1"])
    csv = text.replace(b"],[", b"\n")
    try:
        frame = pl.read_csv(csv, has_header=False, schema={"ts": pl.Float64, "v": pl.Float64, "end": pl.Int8})
    except pl.exceptions.PolarsError:
        return None
    rows = frame.height
    if len(text) - len(csv) != 2 * (rows - 1) or frame["ts"].null_count() or frame["v"].null_count():
        return None
    ends = frame["end"].is_not_null().arg_true().to_numpy().astype(np.int64)
    if len(ends) != len(blocks) + 1 or ends[0] != 0 or ends[-1] != rows - 1:
        return None
    seconds, values = frame["ts"].to_numpy()[1:], frame["v"].to_numpy()[1:]
    if not ((seconds >= _EARLIEST_SECONDS) & (seconds < _LATEST_SECONDS)).all():
        return None
    return np.diff(ends), np.rint(seconds * 1000.0).astype(np.int64), values


# ── the slow way ──────────────────────────────────────────────────────────────────────────────────────


def _slow(body: bytes) -> Pulled:
    answer = _load(body)
    if answer is None:
        raise SourceGarbled(
            f"the answer is not JSON of the Prometheus API ({_begin(body)})",
            "check that the URL is that of Prometheus itself and that no proxy cuts or replaces its answers",
        )
    if answer.get("status") == "error":
        raise SourceRejected(f"the query failed: {answer.get('error') or answer.get('errorType') or 'no reason given'}")
    try:
        return _from_json(answer)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise SourceGarbled(
            f"the answer is JSON, but not a result of the Prometheus API ({type(error).__name__}: {error})",
            "check that the URL is that of Prometheus itself",
        ) from None


def _from_json(answer: dict[str, Any]) -> Pulled:
    if answer["status"] != "success":
        raise ValueError(f"status {answer['status']!r}")
    kind, result = answer["data"]["resultType"], answer["data"]["result"]
    if kind == "scalar":
        result = [{"metric": {}, "value": result}]
    elif kind not in ("matrix", "vector"):
        raise ValueError(f"resultType {kind!r}")
    labels: list[Labels] = []
    lengths: list[int] = []
    ts: list[int] = []
    values: list[float] = []
    histograms = 0
    for one in result:
        if not _is_labels(one["metric"]):
            raise ValueError("a label that is not text")
        if "histogram" in one or "histograms" in one:
            histograms += 1
            continue
        samples = [one["value"]] if "value" in one else one["values"]
        labels.append(one["metric"])
        lengths.append(len(samples))
        ts.extend(_milliseconds(seconds) for seconds, _ in samples)
        values.extend(_number(text) for _, text in samples)
    warnings = _warnings(answer)
    if histograms:
        warnings += (f"native histograms are not read: {histograms} series left out",)
    return Pulled(
        tuple(labels), np.array(lengths, np.int64), np.array(ts, np.int64), np.array(values, np.float64), warnings
    )


def _milliseconds(seconds: object) -> int:
    number = _number(seconds)
    if not abs(number) < _LATEST_SECONDS:
        raise ValueError(f"timestamp {seconds!r}")
    return round(number * 1000.0)


def _number(given: object) -> float:
    """Prometheus quotes values and does not quote times; either way is taken for either."""
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise ValueError(f"{given!r} is not a number")
    return float(given)


# ── both ──────────────────────────────────────────────────────────────────────────────────────────────


def _load(body: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _is_labels(metric: object) -> bool:
    return isinstance(metric, dict) and all(isinstance(value, str) for value in metric.values())


def _warnings(answer: dict[str, Any]) -> tuple[str, ...]:
    """What the backend says about completeness. `infos` are advice about the query's text: dropped."""
    given = answer.get("warnings") or []
    warnings = tuple(str(text) for text in (given if isinstance(given, list) else [given]))
    if answer.get("isPartial"):
        warnings += ("partial response: some storage nodes did not answer (isPartial)",)
    return warnings


def _begin(body: bytes) -> str:
    if not body:
        return "it is empty"
    return f"{len(body)} bytes that begin with {body[:40].decode('utf-8', 'replace')!r}"
