"""What a backend can do to us over HTTP, and the error or retry it leads to."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anomaly.clock import Ms
from anomaly.config.http import HttpConfig
from anomaly.config.session import session_for
from anomaly.errors import (
    ConfigError,
    QueryTooLarge,
    SourceError,
    SourceGarbled,
    SourceRejected,
    SourceUnavailable,
)
from anomaly.records import Pulled, Query
from anomaly.source.prometheus import PrometheusSource
from tests.source.loopback import OK, Asked, Backend, Reply, backend

START: Ms = 1_700_000_000_000
TEMPERATURE = Query("gpu_temp", "DCGM_FI_DEV_GPU_TEMP", START, START + 15_000, 15_000)
NOT_NOW = Reply(503, b"no healthy upstream", {"Content-Type": "text/plain"})
BAD_QUERY = b'{"status":"error","errorType":"bad_data","error":"1:5: parse error: unclosed left brace"}'
TOO_MANY = (
    b'{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}'
)


@contextmanager
def source(
    url: str,
    http: HttpConfig | None = None,
    timeout_seconds: tuple[float, float] = (5.0, 20.0),
    max_points: int = 11_000,
) -> Iterator[PrometheusSource]:
    with session_for(http, backoff_seconds=0.0) as session:
        yield PrometheusSource(url, session, timeout_seconds=timeout_seconds, max_points=max_points)


def pull(server: Backend, query: Query = TEMPERATURE, path: str = "") -> Pulled:
    with source(server.url + path) as prometheus:
        return prometheus.pull(query)


def failure(*replies: Reply) -> tuple[SourceError, int]:
    """The error that these answers lead to, and how many requests it took."""
    with backend(*replies) as server, pytest.raises(SourceError) as caught:
        pull(server)
    return caught.value, len(server.asked)


# ── the request ───────────────────────────────────────────────────────────────────────────────────────


def test_the_query_travels_as_a_form_and_the_answer_uncompressed() -> None:
    """As in lablup/backend.ai#11162."""
    with backend() as server:
        pulled = pull(server, path="/prom/")
    assert pulled.ts.tolist() == [START, START + 15_000]
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/prom/api/v1/query_range")
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.form == {
        "query": ["DCGM_FI_DEV_GPU_TEMP"],
        "start": ["1700000000"],
        "end": ["1700000015"],
        "step": ["15"],
    }


def test_milliseconds_are_sent_only_where_there_are_any() -> None:
    with backend() as server:
        pull(server, Query("s", "up", START + 250, START + 1_250, 500))
    assert server.asked[0].form["start"] == ["1700000000.25"]
    assert server.asked[0].form["step"] == ["0.5"]


def test_extra_parameters_go_along() -> None:
    with backend() as server, session_for() as session:
        PrometheusSource(server.url, session, params={"deny_partial_response": "1"}).pull(TEMPERATURE)
    assert server.asked[0].form["deny_partial_response"] == ["1"]


def test_our_adapter_survives_the_client_library() -> None:
    with session_for() as session:
        ours = session.get_adapter("http://127.0.0.1:9")
        prometheus = PrometheusSource("http://127.0.0.1:9", session)
        assert session.get_adapter("http://127.0.0.1:9/api") is ours
        assert prometheus.connect._session is session


def test_points_that_a_backend_adds_or_shifts_are_put_right() -> None:
    """As in VictoriaMetrics/VictoriaMetrics#171, VictoriaMetrics/VictoriaMetrics#669,
    VictoriaMetrics/VictoriaMetrics#6951, VictoriaMetrics/VictoriaMetrics#976."""
    body = OK.replace(
        b'[[1700000000,"1"],[1700000015,"2"]]',
        b'[[1699999985,"0"],[1700000001,"1"],[1700000014.5,"2"],[1700000030,"3"]]',
    )
    with backend(Reply(body=body)) as server:
        pulled = pull(server)
    assert pulled.ts.tolist() == [START, START + 15_000]
    assert pulled.values.tolist() == [1.0, 2.0]


def test_partial_answers_carry_a_warning() -> None:
    body = OK[:-1] + b',"warnings":["store gone"],"infos":["not a counter"],"isPartial":true}'
    with backend(Reply(body=body)) as server:
        warnings = pull(server).warnings
    assert warnings[0] == "store gone" and warnings[1].startswith("partial response") and len(warnings) == 2


# ── retries ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_moment_of_503_is_retried() -> None:
    with backend(NOT_NOW, NOT_NOW, Reply()) as server:
        assert len(pull(server).ts) == 2
    assert [asked.method for asked in server.asked] == ["POST"] * 3
    assert all(asked.form["query"] for asked in server.asked)


def test_retry_after_is_heeded_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("urllib3.util.retry.time.sleep", slept.append)
    wait, for_ever = Reply(429, b"", {"Retry-After": "2"}), Reply(429, b"", {"Retry-After": "86400"})
    with backend(wait, for_ever, Reply()) as server:
        assert len(pull(server).ts) == 2
    assert slept == [2, 30]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_after_the_retries_it_is_unavailable(status: int) -> None:
    error, requests = failure(Reply(status, b""))
    assert isinstance(error, SourceUnavailable) and error.retryable
    assert str(status) in str(error)
    assert requests == 4


def test_a_bad_query_is_refused_once_in_the_words_of_prometheus() -> None:
    error, requests = failure(Reply(400, BAD_QUERY))
    assert isinstance(error, SourceRejected)
    assert "unclosed left brace" in str(error)
    assert requests == 1


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [401, 403])
def test_missing_credentials_name_the_setting(status: int) -> None:
    error, requests = failure(Reply(status, b"Unauthorized"))
    assert isinstance(error, SourceRejected) and requests == 1
    assert "basic_auth" in str(error) and "Unauthorized" in str(error)


def test_404_hints_at_the_path_prefix() -> None:
    error, _ = failure(Reply(404, b"404 page not found"))
    assert isinstance(error, SourceRejected)
    assert "prefix" in error.next_step


def test_a_redirect_that_is_not_followed_is_refused() -> None:
    with (
        backend(Reply(302, b"", {"Location": "/login"})) as server,
        source(server.url, HttpConfig(follow_redirects=False)) as prometheus,
        pytest.raises(SourceRejected, match="302"),
    ):
        prometheus.pull(TEMPERATURE)


def test_a_login_page_is_garbled() -> None:
    error, _ = failure(Reply(200, b"<html>Please log in</html>", {"Content-Type": "text/html"}))
    assert isinstance(error, SourceGarbled)
    assert "<html>" in str(error)


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("cut", [1, len(OK) // 2, len(OK) - 1])
def test_a_connection_that_breaks_off_is_garbled(chunked: bool, cut: int) -> None:
    error, _ = failure(Reply(cut=cut, chunked=chunked))
    assert isinstance(error, SourceGarbled)
    assert "broke off" in str(error)


def test_a_body_that_ends_early_is_garbled() -> None:
    error, _ = failure(Reply(body=OK[:-20]))
    assert isinstance(error, SourceGarbled)


def test_nobody_listening_is_unavailable_and_credentials_stay_out_of_the_text() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with (
            source(f"http://robert:hunter2@127.0.0.1:{port}") as prometheus,
            pytest.raises(SourceUnavailable) as caught,
        ):
            prometheus.pull(TEMPERATURE)
        assert "refused" in str(caught.value) and f"127.0.0.1:{port}" in str(caught.value)
        assert "hunter2" not in str(caught.value) + repr(prometheus) and "robert" not in str(caught.value)


def test_an_unknown_host_is_unavailable() -> None:
    with (
        source("http://no-such-host.invalid:9090") as prometheus,
        pytest.raises(SourceUnavailable, match="name is not"),
    ):
        prometheus.pull(TEMPERATURE)


def test_silence_is_unavailable() -> None:
    """As in 4n4nd/prometheus-api-client-python#277, 4n4nd/prometheus-api-client-python PR#280."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            source(url, timeout_seconds=(1.0, 0.1)) as prometheus,
            pytest.raises(SourceUnavailable, match="took too long"),
        ):
            prometheus.pull(TEMPERATURE)


@pytest.mark.parametrize("url", ["127.0.0.1:9090", "ftp://127.0.0.1", ""])
def test_what_is_not_a_url_is_a_mistake_of_the_configuration(url: str) -> None:
    with pytest.raises(ConfigError, match="http://host:9090"), source(url):
        pass


# ── 422 ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_range_that_is_too_large_is_halved_until_it_fits() -> None:
    """As in robusta-dev/krr PR#53, robusta-dev/krr PR#97."""

    def at_most_three_points(asked: Asked) -> Reply:
        first, last = int(asked.form["start"][0]), int(asked.form["end"][0])
        if (last - first) // 15 > 2:
            return Reply(422, TOO_MANY)
        points = ",".join(f'[{t},"{t}"]' for t in range(first, last + 1, 15))
        return Reply(body=OK.replace(b'[1700000000,"1"],[1700000015,"2"]', points.encode()))

    with backend(by=at_most_three_points) as server:
        pulled = pull(server, Query("s", "up", START, START + 10 * 15_000, 15_000))
    assert pulled.ts.tolist() == [START + k * 15_000 for k in range(11)]
    assert pulled.values.tolist() == [t / 1000 for t in pulled.ts.tolist()]
    assert pulled.labels == ({"gpu": "0"},)


def test_a_single_step_that_is_too_large_is_said_to_be() -> None:
    error, requests = failure(Reply(422, TOO_MANY))
    assert isinstance(error, QueryTooLarge)
    assert "gpu_temp" in str(error) and "single step" in str(error) and error.next_step
    assert requests == 2


def test_a_422_about_the_query_itself_is_not_halved() -> None:
    error, requests = failure(Reply(422, b'{"status":"error","error":"found duplicate series for the match group"}'))
    assert isinstance(error, SourceRejected)
    assert requests == 1


# ── small questions ───────────────────────────────────────────────────────────────────────────────────


def test_instant_label_values_ping_and_buildinfo() -> None:
    """As in 4n4nd/prometheus-api-client-python#190."""
    vector = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1.5,"7"]}]}}'
    scalar = b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}'
    names = Reply(body=b'{"status":"success","data":["gpu-1","gpu-2"]}')
    build = Reply(body=b'{"status":"success","data":{"version":"2.42.0"}}')
    with (
        backend(Reply(body=vector), Reply(body=scalar), names, build) as server,
        source(server.url) as prometheus,
    ):
        assert prometheus.instant("up", START + 1).ts.tolist() == [1500]
        prometheus.ping()
        assert prometheus.label_values("Hostname", 'up{job="dcgm-exporter"}') == ("gpu-1", "gpu-2")
        assert prometheus.buildinfo() == {"version": "2.42.0"}
    assert server.asked[0].form == {"query": ["up"], "time": ["1700000000.001"]}
    assert "time" not in server.asked[1].form
    assert server.asked[2].path.startswith("/api/v1/label/Hostname/values?match")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"status":"success"}', b'{"status":"success","data":{"a":1}}'])
def test_label_values_of_something_else_are_garbled(body: bytes) -> None:
    with backend(Reply(body=body)) as server, source(server.url) as prometheus, pytest.raises(SourceGarbled):
        prometheus.label_values("job")


def test_a_secret_file_that_is_missing_is_named(tmp_path: Path) -> None:
    http = HttpConfig.model_validate({"authorization": {"credentials_file": str(tmp_path / "token")}})
    with backend() as server, source(server.url, http) as prometheus, pytest.raises(ConfigError, match="token"):
        prometheus.pull(TEMPERATURE)
