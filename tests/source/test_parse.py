"""Bytes of a Prometheus answer → columns: fast, exact, and never wrong."""

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anomaly.errors import SourceGarbled, SourceRejected
from anomaly.records import Pulled
from anomaly.source import parse as parsing
from anomaly.source.parse import parse

Series = tuple[dict[str, str], list[tuple[str, str]]]
"""Labels, and samples as the texts of timestamp and value."""


def body_of(series: list[Series], **more: Any) -> bytes:
    """An answer as Prometheus writes it: no whitespace, `metric` before `values`."""
    rows = []
    for labels, samples in series:
        metric = json.dumps(labels, separators=(",", ":"), ensure_ascii=False)
        values = ",".join(f"[{ts},{json.dumps(value)}]" for ts, value in samples)
        rows.append('{"metric":' + metric + ',"values":[' + values + "]}")
    rest = "".join(f",{json.dumps(key)}:{json.dumps(value)}" for key, value in more.items())
    data = '{"resultType":"matrix","result":[' + ",".join(rows) + "]}"
    return ('{"status":"success","data":' + data + rest + "}").encode()


def same(one: Pulled, other: Pulled) -> bool:
    columns = ("lengths", "ts", "values")
    return (one.labels, one.warnings) == (other.labels, other.warnings) and all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name == "values") for name in columns
    )


GPU: Series = ({"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "3"}, [("1700000000", "61"), ("1700000015.781", "NaN")])
NIC: Series = ({"device": "mlx5_0"}, [("1700000000", "+Inf"), ("1700000015", "-Inf"), ("1700000030", "1e-320")])


def test_columns_hold_what_was_sent() -> None:
    pulled = parse(body_of([GPU, NIC]))

    assert pulled.labels == (GPU[0], NIC[0])
    assert pulled.lengths.tolist() == [2, 3]
    assert pulled.ts.tolist() == [1700000000000, 1700000015781, 1700000000000, 1700000015000, 1700000030000]
    np.testing.assert_array_equal(pulled.values, [61.0, math.nan, math.inf, -math.inf, 1e-320])
    assert pulled.ts.dtype == np.int64 and pulled.values.dtype == np.float64


def test_the_usual_answer_takes_the_fast_way() -> None:
    assert parsing._fast(body_of([GPU, NIC])) is not None


@pytest.mark.parametrize(
    "text",
    [
        '"values":[[1,"2"]]',
        ']]},{"metric":{',
        '"]],[[,{}\\"',
        'line\nbreak\ttab "quoted" \\ back\u2028slash 🔥',
        '","values":[[1700000000,"7"]]},{"metric":{"a":"b',
    ],
)
def test_labels_may_contain_anything(text: str) -> None:
    labels = {"a": text, 'name "of" a\\ label': "x", "values": text}
    pulled = parse(body_of([(labels, GPU[1]), NIC]))
    assert pulled.labels == (labels, NIC[0])
    assert pulled.lengths.tolist() == [2, 3]


label_text = st.one_of(st.text(max_size=8), st.text('[]{},:"\\values1 ', max_size=24)).filter(
    lambda text: text.isprintable() or text.isascii()
)
finite = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: repr(value))
value_text = st.one_of(st.sampled_from(["NaN", "+Inf", "-Inf", "0", "-0", "1e-320", "1e+22"]), finite)
stamp = st.integers(1_000_000_000_000, 4_000_000_000_000).map(
    lambda ms: str(ms // 1000) + (f".{ms % 1000:03d}".rstrip("0") if ms % 1000 else "")
)
any_series = st.tuples(
    st.dictionaries(label_text, label_text, max_size=4), st.lists(st.tuples(stamp, value_text), min_size=1, max_size=5)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(any_series, min_size=1, max_size=4), st.lists(st.text(max_size=5), max_size=2))
@example([GPU, NIC], ['},"values":[[1,"2"]]}'])
def test_fast_and_slow_way_agree_on_every_answer(series: list[Series], warnings: list[str]) -> None:
    body = body_of(series, warnings=warnings)
    fast = parsing._fast(body)
    assert fast is not None
    assert same(fast, parsing._slow(body))


not_json = re.compile(rb'[,\[]"?(\+\d|-?0\d|-?\.|-?\d+\.[^\d])')
"""Numbers that JSON does not allow (05, .5, 5., +5): the one thing the fast way is laxer about."""


@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(any_series, min_size=1, max_size=3))
def test_damaged_answers_are_refused_or_read_as_the_json_parser_reads_them(
    data: st.DataObject, series: list[Series]
) -> None:
    body = bytearray(body_of(series))
    at = data.draw(st.integers(0, len(body) - 1))
    cut = data.draw(st.integers(0, 6))
    body[at : at + cut] = data.draw(st.text('[]{},:"\\0123456789 .-\n', max_size=3)).encode()
    fast = parsing._fast(bytes(body))
    if fast is not None and not not_json.search(body):
        assert same(fast, parsing._slow(bytes(body)))


def test_an_answer_cut_at_any_byte_is_refused() -> None:
    body = body_of([GPU, NIC, GPU], warnings=["x"])
    for length in range(len(body)):
        with pytest.raises(SourceGarbled):
            parse(body[:length])


@pytest.mark.parametrize(
    "series",
    [
        '{"values":[[1700000000,"1"]],"metric":{"gpu":"0"}}',
        '{ "metric": {"gpu": "0"},\n "values": [ [1700000000, "1"] ] }',
        '{"metric":{"gpu":"0"},"values":[[1.7e9,"1"]]}',
        '{"metric":{"gpu":"0"},"values":[[1700000000,"1"]],"exemplars":[]}',
    ],
)
def test_other_layouts_of_the_same_answer_are_read_all_the_same(series: str) -> None:
    pulled = parse(('{"data":{"result":[' + series + '],"resultType":"matrix"},"status":"success"}').encode())
    assert (pulled.labels, pulled.ts.tolist(), pulled.values.tolist()) == (({"gpu": "0"},), [1700000000000], [1.0])


def test_no_series_is_an_answer() -> None:
    """As in 4n4nd/prometheus-api-client-python#222."""
    pulled = parse(body_of([]))
    assert (pulled.labels, len(pulled.lengths), len(pulled.ts), len(pulled.values)) == ((), 0, 0, 0)


def test_vector_and_scalar() -> None:
    vector = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1.5,"7"]}]}}'
    scalar = b'{"status":"success","data":{"resultType":"scalar","result":[1700000000.123,"1"]}}'
    assert (parse(vector).labels, parse(vector).ts.tolist()) == (({"a": "b"},), [1500])
    assert (parse(scalar).labels, parse(scalar).ts.tolist()) == (({},), [1700000000123])


def test_incompleteness_is_reported_and_advice_is_not() -> None:
    body = body_of([GPU], warnings=["store gpu-b is down"], infos=["might not be a counter"], isPartial=True)
    assert parse(body).warnings[0] == "store gpu-b is down"
    assert parse(body).warnings[1].startswith("partial response: ")
    assert len(parse(body).warnings) == 2


def test_native_histograms_are_left_out_with_a_warning() -> None:
    """As in prometheus/prometheus#16578, prometheus/prometheus PR#16724."""
    histogram = '{"metric":{"a":"h"},"histograms":[[1700000000,{"count":"1","sum":"2","buckets":[[0,"1","2","1"]]}]]}'
    body = body_of([GPU]).replace(b'"result":[', b'"result":[' + histogram.encode() + b",")
    pulled = parse(body)
    assert pulled.labels == (GPU[0],)
    assert pulled.warnings == ("native histograms are not read: 1 series left out",)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>Please log in</body></html>",
        b"[]",
        b'{"foo":1}',
        b'{"status":"success","data":{"resultType":"string","result":[1,"x"]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":1},"values":[[1,"2"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2",3]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,""]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"],[3]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1e300,"2"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[true,"2"]]}]}}',
        b'{"status":"success","data":null}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_what_is_not_prometheus_is_refused(body: bytes) -> None:
    with pytest.raises(SourceGarbled):
        parse(body)


def test_an_error_with_status_200_is_a_refusal() -> None:
    with pytest.raises(SourceRejected, match="no such function"):
        parse(b'{"status":"error","errorType":"bad_data","error":"no such function"}')
