"""The one seam where foreign errors of an HTTP source become ours. No text carries credentials."""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3.exceptions as pool

from anomaly.errors import QueryTooLarge, SourceError, SourceGarbled, SourceRejected, SourceUnavailable

_NOT_SIZE = ("many-to-many", "duplicate", "multiple matches", "same labelset", "parse", "unexpected", "invalid")
"""In the text of a 422: the query itself is at fault, so a shorter range changes nothing."""
_TEXT_MAX = 300


def without_userinfo(url: str) -> str:
    """`https://user:secret@host/p?q` → `https://host/p?q`: fit for a message."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Within, exceptions of requests and urllib3 about `url` become SourceError kinds."""
    try:
        yield
    except (requests.RequestException, pool.HTTPError) as error:
        raise _from_exception(without_userinfo(url), error) from None


def refuse(url: str, response: requests.Response) -> SourceError:
    """What a non-2xx answer of `url` means, in the backend's own words where it gives any."""
    status, where = response.status_code, f"{without_userinfo(url)} answered {response.status_code}"
    said = _error_text(response)
    told = f"{where}: {said}" if said else f"{where} {response.reason or ''}".rstrip()
    if status in (401, 403):
        return SourceRejected(told, "check http_config: basic_auth or authorization, and what they may read")
    if status == 404:
        return SourceRejected(told, "check the URL's path: behind a proxy Prometheus often has a prefix (/prometheus)")
    if status == 422 and not any(word in said.lower() for word in _NOT_SIZE):
        return QueryTooLarge(told)
    if status == 429 or status >= 500:
        return SourceUnavailable(told, "see whether Prometheus is overloaded; the pull is tried again")
    if 300 <= status < 400:
        return SourceRejected(told, "give the URL it redirects to, or let follow_redirects be true")
    return SourceRejected(told, "check the query")


def _error_text(response: requests.Response) -> str:
    """`error` of a Prometheus answer, else the first line of plain text; nothing of an HTML page."""
    body = response.content.decode("utf-8", "replace")
    try:
        answer: Any = json.loads(body)
    except ValueError:
        first = body.strip().splitlines()[0] if body.strip() else ""
        return "" if first.startswith("<") else first[:_TEXT_MAX]
    return str(answer["error"])[:_TEXT_MAX] if isinstance(answer, dict) and "error" in answer else ""


def _from_exception(where: str, error: Exception) -> SourceError:
    causes = tuple(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return SourceRejected(
                f"the certificate of {where} is not trusted ({cause.verify_message})",
                "name its authority in http_config.tls_config.ca_file, or its host name in server_name",
            )
    if _any(causes, requests.Timeout, pool.ReadTimeoutError):
        slow = _any(causes, requests.ReadTimeout, pool.ReadTimeoutError)
        return SourceUnavailable(
            f"{where} {'took too long to answer' if slow else 'could not be reached in time'}",
            "see whether it is overloaded" if slow else "check the address and the network",
        )
    if _any(causes, http.client.IncompleteRead, pool.InvalidChunkLength, pool.DecodeError):
        return SourceGarbled(f"the answer of {where} broke off", "look for a proxy between that cuts long answers")
    if _any(causes, ssl.SSLError):
        return SourceRejected(f"no TLS with {where}", "check the scheme of the URL, tls_config and its client key")
    if _any(causes, requests.exceptions.InvalidURL, requests.exceptions.MissingSchema, pool.LocationParseError):
        return SourceRejected(f"{where} is not a URL", "write it like http://host:9090")
    if _any(causes, requests.exceptions.InvalidSchema):
        return SourceRejected(f"{where} has a scheme that is not http or https", "write it like http://host:9090")
    if _any(causes, requests.TooManyRedirects):
        return SourceRejected(f"{where} redirects in circles", "give the URL it finally stands for")
    return SourceUnavailable(
        f"{where} cannot be reached ({_why(causes)})", "check that it runs and that the URL is right"
    )


def _why(causes: tuple[BaseException, ...]) -> str:
    """The innermost reason in words that cannot contain a credential."""
    if _any(causes, requests.exceptions.ProxyError, pool.ProxyError):
        return "the proxy did not let it through"
    if _any(causes, pool.NameResolutionError, socket.gaierror):
        return "its name is not known"
    for cause in causes:
        if isinstance(cause, OSError) and not isinstance(cause, requests.RequestException) and cause.strerror:
            return cause.strerror.lower()
    return "the connection broke"


def _any(causes: tuple[BaseException, ...], *kinds: type[BaseException]) -> bool:
    return any(isinstance(cause, kinds) for cause in causes)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and all it wraps: requests and urllib3 hide the reason in arguments, attributes and causes."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        wrapped = [*one.args, getattr(one, "reason", None), one.__cause__, one.__context__]
        waiting.extend(inner for inner in wrapped if isinstance(inner, BaseException))
