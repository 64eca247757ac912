"""Samples from Prometheus, or from anything that speaks its HTTP API (Thanos, Mimir, VictoriaMetrics).

Works through prometheus-api-client's connection on our own session. The hot path does its own request on that session:
the client library puts POST parameters into the URL, rounds times to seconds and exposes no bytes.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import requests

from anomaly.clock import Ms
from anomaly.errors import ConfigError, QueryTooLarge, SourceGarbled
from anomaly.records import Pulled, Query
from anomaly.source import ranges
from anomaly.source.parse import parse
from anomaly.source.refusals import refuse, translated, without_userinfo

if TYPE_CHECKING:
    from prometheus_api_client import PrometheusConnect

MAX_POINTS = 11_000
"""Prometheus refuses a range query of more than 11,000 steps (web/api/v1/api.go); upstream declined to change it."""


class PrometheusSource:
    """Pulls from the Prometheus API below `url`, which may have a path prefix.

    `session` (see `config.session.session_for`) brings authentication, TLS and retries, and stays the caller's to
    close. `timeout_seconds` are for connecting and for a pause in the answer. `params` go along with every query:
    `deny_partial_response=1` for VictoriaMetrics, `partial_response=false` for Thanos.

    Safe to share between threads as far as the session is. Methods raise the kinds of `errors.SourceError`.
    """

    def __init__(
        self,
        url: str,
        session: requests.Session,
        *,
        timeout_seconds: tuple[float, float] = (5.0, 60.0),
        max_points: int = MAX_POINTS,
        params: Mapping[str, str] | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(
                f"{without_userinfo(url)!r} is not the URL of a Prometheus", "write it like http://host:9090"
            )
        self.url = url.rstrip("/")
        self.session = session
        self.connect = _connect(self.url, session)
        """prometheus-api-client's own view on the same session, for whoever wants its helpers."""
        self._timeout_seconds = timeout_seconds
        self._max_points = max_points
        self._params = dict(params or {})

    def __repr__(self) -> str:
        return f"PrometheusSource({without_userinfo(self.url)!r})"

    def pull(self, query: Query) -> Pulled:
        """Every point of the range, both bounds included, on the grid `query.start + k·query.step`.

        Split below the point limit; a range that Prometheus finds too large is halved, down to one step. Points that
        a backend adds outside the range are dropped.
        """
        parts: list[Pulled] = []
        waiting = ranges.split(query.start, query.end, query.step, self._max_points)[::-1]
        while waiting:
            start, end = waiting.pop()
            try:
                part = self._range(query.promql, start, end, query.step)
            except QueryTooLarge as error:
                halves = ranges.halve(start, end, query.step)
                if halves is None:
                    raise QueryTooLarge(
                        f"{query.signal}: {error.what}, even for a single step",
                        "narrow the query, or raise Prometheus' --query.max-samples",
                    ) from None
                waiting += halves[::-1]
                continue
            parts.append(part)
        return ranges.merge(parts)

    def instant(self, promql: str, at: Ms | None = None) -> Pulled:
        """The answer at `at` (None: the server's now), at the timestamps given: raw samples for `metric[5m]`."""
        form = {"query": promql} | ({} if at is None else {"time": _seconds(at)})
        return ranges.merge([self._parsed("query", form)])

    def label_values(self, label: str, match: str | None = None) -> tuple[str, ...]:
        """The values of `label`, of the series that the selector `match` takes if given."""
        values = self._get(f"label/{label}/values", {"match[]": match} if match else {})
        if not isinstance(values, list):
            raise SourceGarbled(f"the label values of {self!r} are not a list")
        return tuple(str(value) for value in values)

    def ping(self) -> None:
        """Returns if queries work: it asks one, since many a proxy lets `/-/ready` through and nothing else."""
        self.instant("1")

    def buildinfo(self) -> Mapping[str, str]:
        """`version` and the like, as far as the backend says them."""
        info = self._get("status/buildinfo", {})
        return {str(key): str(value) for key, value in info.items()} if isinstance(info, dict) else {}

    def _range(self, promql: str, start: Ms, end: Ms, step: Ms) -> Pulled:
        form = {"query": promql, "start": _seconds(start), "end": _seconds(end), "step": _seconds(step)}
        pulled = self._parsed("query_range", form)
        snapped = ranges.snap(pulled.ts, start, step)
        return ranges.within(Pulled(pulled.labels, pulled.lengths, snapped, pulled.values, pulled.warnings), start, end)

    def _parsed(self, path: str, form: dict[str, str]) -> Pulled:
        body = self._post(path, form)
        try:
            return parse(body)
        except SourceGarbled as error:
            raise SourceGarbled(f"{without_userinfo(self.url)}/api/v1/{path}: {error.what}", error.next_step) from None

    def _post(self, path: str, form: dict[str, str]) -> bytes:
        return self._body("POST", path, data={**self._params, **form})

    def _get(self, path: str, params: dict[str, str]) -> Any:
        """`data` of an answer that holds no samples."""
        body = self._body("GET", path, params={**self._params, **params})
        try:
            return json.loads(body)["data"]
        except (ValueError, KeyError, TypeError):
            raise SourceGarbled(
                f"{without_userinfo(self.url)}/api/v1/{path} did not answer with JSON of the Prometheus API",
                "check that the URL is that of Prometheus itself",
            ) from None

    def _body(self, method: str, path: str, **what: Any) -> bytes:
        url = f"{self.url}/api/v1/{path}"
        with (
            translated(url),
            self.session.request(method, url, timeout=self._timeout_seconds, stream=True, **what) as response,
        ):
            if not 200 <= response.status_code < 300:
                raise refuse(url, response)
            body: bytes = response.raw.read(decode_content=True)  # in one piece: a third of the time of `content`
            return body


def _connect(url: str, session: requests.Session) -> "PrometheusConnect":
    """The client library on our session, with our adapter still in place: it mounts its own at `url`."""
    from prometheus_api_client import PrometheusConnect

    ours = session.get_adapter(url)
    connect = PrometheusConnect(url=url, session=session, retry=getattr(ours, "max_retries", None))
    session.mount(url, ours)
    return connect


def _seconds(instant: Ms) -> str:
    """Unix seconds, with decimals only where there are any: some backends answer nothing to sub-second times."""
    whole, rest = divmod(instant, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)
