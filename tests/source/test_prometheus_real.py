"""A real Prometheus with back-filled data: what was written is what is pulled."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from anomaly.clock import SECOND, Ms
from anomaly.config.session import session_for
from anomaly.errors import QueryTooLarge, SourceRejected
from anomaly.records import Pulled, Query
from anomaly.source.prometheus import PrometheusSource
from tests.e2e import harness

pytestmark = pytest.mark.e2e

START: Ms = 1_700_000_000 * SECOND
POINTS = 23_000
"""More than two requests of 11,000 points, at 1 s."""
END = START + (POINTS - 1) * SECOND
MAX_SAMPLES = 22_500
ODD = [math.nan, math.inf, -math.inf, 0.1, -0.0, 1e-320, 1.7976931348623157e308]


def temperature(gpu: int) -> list[float]:
    return [40.0 + gpu + k % 997 / 8 for k in range(POINTS)]


def errors() -> list[float]:
    """A counter that restarts twice."""
    return [float(k % 9_000) for k in range(POINTS)]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusSource]:
    """Behind the path prefix `/prom`, with a small limit of samples a query."""
    home = tmp_path_factory.mktemp("prometheus")
    file = home / "written.om"
    write(file)
    harness.backfill([file], home / "data")
    flags = ["--web.external-url=http://cluster.example/prom/", f"--query.max-samples={MAX_SAMPLES}"]
    with harness.prometheus(home / "data", flags=flags) as url, session_for() as session:
        yield PrometheusSource(url + "/", session)


def write(file: Path) -> None:
    with file.open("w") as out:
        out.write("# TYPE gpu_temp unknown\n")
        for gpu in range(3):
            for k, value in enumerate(temperature(gpu)):
                out.write(f'gpu_temp{{gpu="{gpu}"}} {value!r} {START // SECOND + k}\n')
        out.write("# TYPE errors unknown\n")
        for k, value in enumerate(errors()):
            out.write(f'errors{{device="mlx5_0",odd="a\\"]],{{}}\\\\ß"}} {value!r} {START // SECOND + k}\n')
        out.write("# TYPE odd unknown\n")
        for k, value in enumerate(ODD):
            text = {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN" if math.isnan(value) else repr(value))
            out.write(f"odd {text} {START // SECOND + 15 * k}.781\n")
        out.write("# EOF\n")


def by_gpu(pulled: Pulled) -> dict[str, tuple[list[int], list[float]]]:
    borders = np.cumsum(pulled.lengths)[:-1]
    columns = zip(np.split(pulled.ts, borders), np.split(pulled.values, borders), strict=True)
    return {
        labels["gpu"]: (ts.tolist(), values.tolist())
        for labels, (ts, values) in zip(pulled.labels, columns, strict=True)
    }


def test_a_long_range_comes_in_parts_with_no_point_missing_or_twice(prometheus: PrometheusSource) -> None:
    """As in 4n4nd/prometheus-api-client-python#241, 4n4nd/prometheus-api-client-python#204,
    4n4nd/prometheus-api-client-python#197, ryotarai/prometheus-query#1, prometheus/prometheus#10310,
    hastic-zzz/hastic-server#866."""
    pulled = prometheus.pull(Query("gpu_temp", 'gpu_temp{gpu="1"}', START, END, SECOND))
    assert pulled.labels == ({"__name__": "gpu_temp", "gpu": "1"},)
    assert pulled.ts.tolist() == list(range(START, END + 1, SECOND))
    assert pulled.values.tolist() == temperature(1)


def test_a_range_of_too_many_samples_is_halved_until_it_passes(prometheus: PrometheusSource) -> None:
    assert 3 * prometheus._max_points > MAX_SAMPLES
    pulled = prometheus.pull(Query("gpu_temp", "gpu_temp", START, END, SECOND))
    grid = list(range(START, END + 1, SECOND))
    assert by_gpu(pulled) == {str(gpu): (grid, temperature(gpu)) for gpu in range(3)}


def test_a_step_of_too_many_samples_is_said_to_be(prometheus: PrometheusSource) -> None:
    everything = f"sum_over_time(gpu_temp[{POINTS}s])"
    with pytest.raises(QueryTooLarge, match="too many samples"):
        prometheus.pull(Query("gpu_temp", everything, END, END + SECOND, SECOND))


def test_counters_come_raw_with_their_resets_and_labels_unharmed(prometheus: PrometheusSource) -> None:
    """As in prometheus/prometheus#3746."""
    pulled = prometheus.pull(Query("errors", "errors", START, END, SECOND))
    assert pulled.labels == ({"__name__": "errors", "device": "mlx5_0", "odd": 'a"]],{}\\ß'},)
    assert pulled.values.tolist() == errors()


def test_raw_samples_keep_their_milliseconds_and_every_value(prometheus: PrometheusSource) -> None:
    raw = prometheus.instant("odd[10m]", START + 300 * SECOND)
    assert raw.ts.tolist() == [START + 15 * SECOND * k + 781 for k in range(len(ODD))]
    np.testing.assert_array_equal(raw.values, ODD)
    assert math.copysign(1, raw.values[4]) == -1


def test_a_range_off_the_second_and_one_without_data(prometheus: PrometheusSource) -> None:
    pulled = prometheus.pull(Query("odd", "odd", START + 781, START + 781 + 90 * SECOND, 15 * SECOND))
    assert pulled.ts.tolist() == [START + 15 * SECOND * k + 781 for k in range(7)]
    np.testing.assert_array_equal(pulled.values, ODD)
    assert prometheus.pull(Query("gone", "no_such_metric", START, END, SECOND)).labels == ()


def test_refusals_in_the_words_of_prometheus(prometheus: PrometheusSource) -> None:
    with pytest.raises(SourceRejected, match="parse error"):
        prometheus.pull(Query("s", "up{", START, END, SECOND))
    with pytest.raises(SourceRejected, match="duplicate"):
        prometheus.pull(Query("s", "errors * on() gpu_temp", START, START, SECOND))
    without_prefix = PrometheusSource(prometheus.url.removesuffix("/prom"), prometheus.session)
    with pytest.raises(SourceRejected, match="prefix"):
        without_prefix.ping()


def test_small_questions(prometheus: PrometheusSource) -> None:
    prometheus.ping()
    assert "version" in prometheus.buildinfo()
    assert prometheus.label_values("gpu") == ("0", "1", "2")
    assert prometheus.label_values("__name__", '{device="mlx5_0"}') == ("errors",)
    assert prometheus.instant("count(gpu_temp)", START + SECOND).values.tolist() == [3.0]
    assert prometheus.connect.get_label_values("gpu") == ["0", "1", "2"]
