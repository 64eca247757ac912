"""The one configured HTTP session: authentication, TLS, proxies and retries as an `HttpConfig` says."""

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from requests.utils import get_auth_from_url, should_bypass_proxies
from urllib3.response import BaseHTTPResponse
from urllib3.util.retry import Retry

from anomaly import __version__
from anomaly.config.http import HttpConfig, Secret, TlsConfig
from anomaly.errors import ConfigError

RETRIED_STATUSES = (429, 500, 502, 503, 504)
RETRY_AFTER_MAX_SECONDS = 30
"""A server that asks for more patience than this gets this much; the next scheduled run tries again anyway."""

_TLS_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}


def session_for(
    http: HttpConfig | None = None, *, retries: int = 3, backoff_seconds: float = 0.5, pool: int = 8
) -> requests.Session:
    """A session that authenticates, verifies and retries as configured; share it between threads, close it at the end.

    Up to `retries` more tries, also for POST (queries and alerts are idempotent), after connection errors, one
    read time-out and `RETRIED_STATUSES`: the first at once, then after `backoff_seconds · 2ⁿ` with jitter, or after
    what `Retry-After` asks for, up to `RETRY_AFTER_MAX_SECONDS`. The last answer is returned, whatever its status.
    Time-outs are the caller's, per request. `pool` connections per host are kept.

    Raises ConfigError when the TLS material cannot be used.
    """
    http = http or HttpConfig()
    session = _Session(http.follow_redirects)
    # The environment means proxies only where asked for; credentials from .netrc never (auth is always set).
    session.trust_env = http.proxy_from_environment
    session.auth = Credentials(http)
    session.headers["User-Agent"] = f"anomaly/{__version__}"
    session.headers["Accept-Encoding"] = "identity"  # gzip costs six times the time on a fast link
    if http.proxy_url:
        proxy = http.proxy_url.get_secret_value()
        session.proxies = {"http": proxy, "https": proxy}
    adapter = _Adapter(http.tls_config, http.no_proxy, pool, _retry(retries, backoff_seconds))
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session


def _retry(retries: int, backoff_seconds: float) -> Retry:
    return _BoundedRetry(
        total=retries,
        read=min(1, retries),  # a query that timed out twice will time out again
        other=0,  # a certificate does not become valid by asking again
        allowed_methods=None,
        status_forcelist=RETRIED_STATUSES,
        backoff_factor=backoff_seconds,
        backoff_max=RETRY_AFTER_MAX_SECONDS,
        backoff_jitter=backoff_seconds,
        raise_on_status=False,
    )


class _BoundedRetry(Retry):
    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        asked = super().get_retry_after(response)
        return None if asked is None else min(asked, RETRY_AFTER_MAX_SECONDS)


class _Session(requests.Session):
    def __init__(self, follow_redirects: bool) -> None:
        super().__init__()
        self._follow = follow_redirects

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        return super().get_redirect_target(resp) if self._follow else None


class Credentials(AuthBase):
    """Puts the configured credentials and headers on each request, reading files anew.

    User and password in the URL itself count where nothing else is configured. Raises ConfigError naming the file
    that cannot be read.
    """

    def __init__(self, http: HttpConfig) -> None:
        self._http = http

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        for name, header in self._http.http_headers.items():
            secrets = (secret.get_secret_value() for secret in header.secrets)
            request.headers[name] = ", ".join([*header.values, *secrets, *map(read_secret, header.files)])
        basic, bearer = self._http.basic_auth, self._http.authorization
        if basic:
            user = read_secret(basic.username_file) if basic.username_file else basic.username or ""
            HTTPBasicAuth(user.encode(), _secret(basic.password, basic.password_file).encode())(request)
        elif bearer:
            secret = _secret(bearer.credentials, bearer.credentials_file)
            request.headers["Authorization"] = f"{bearer.type.strip()} {secret}"
        else:
            in_url = get_auth_from_url(request.url or "")
            if any(in_url):
                HTTPBasicAuth(*in_url)(request)
        return request


def _secret(inline: Secret | None, file: Path | None) -> str:
    return read_secret(file) if file else inline.get_secret_value() if inline else ""


def read_secret(file: Path) -> str:
    """What a secret's file holds now, without space around it. Raises ConfigError naming the file."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"secret file {file} cannot be read ({_reason(error)})", "check its path and mode") from None


def _reason(error: Exception) -> str:
    return (error.strerror or "") if isinstance(error, OSError) and error.strerror else type(error).__name__


# ── TLS ───────────────────────────────────────────────────────────────────────────────────────────────


class _Adapter(HTTPAdapter):
    """TLS entirely by one context of ours, renewed when a certificate file changes; `no_proxy` honoured."""

    def __init__(self, tls: TlsConfig, no_proxy: str | None, pool: int, retry: Retry) -> None:
        self._tls, self._no_proxy = tls, no_proxy
        self._seen = _fingerprint(tls)
        self._context = tls_context(tls)
        super().__init__(pool_connections=pool, pool_maxsize=pool, max_retries=retry)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, ssl_context=self._context, **kwargs)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._context, **kwargs)

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        host, _ = super().build_connection_pool_key_attributes(request, verify, cert)
        # The context decides; requests' own bundle would be trusted on top of tls_config.ca.
        https = {"server_hostname": self._tls.server_name} if self._tls.server_name else {}
        return host, https if host["scheme"] == "https" else {}

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        return None

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        seen = _fingerprint(self._tls)
        if seen != self._seen:
            self._context = tls_context(self._tls)
            self._seen = seen
            self.close()  # idle connections only; requests under way keep theirs
            self.proxy_manager.clear()
            self.init_poolmanager(self._pool_connections, self._pool_maxsize)  # type: ignore[attr-defined]
        if self._no_proxy and should_bypass_proxies(request.url or "", no_proxy=self._no_proxy):
            proxies = {}
        return super().send(request, stream, timeout, verify, cert, proxies)


def _fingerprint(tls: TlsConfig) -> tuple[tuple[int, int], ...]:
    files = [file for file in (tls.ca_file, tls.cert_file, tls.key_file) if file]
    return tuple((stat.st_mtime_ns, stat.st_size) for stat in (file.stat() for file in files if file.exists()))


def tls_context(tls: TlsConfig) -> ssl.SSLContext:
    """A client context: the system's authorities, or only the given ones; raises ConfigError naming what is wrong."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file, cadata=tls.ca)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"tls_config.{'ca_file ' + str(tls.ca_file) if tls.ca_file else 'ca'} is unusable ({_reason(error)})",
            "give PEM certificates",
        ) from None
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.min_version:
        context.minimum_version = _TLS_VERSIONS[tls.min_version]
    if tls.max_version:
        context.maximum_version = _TLS_VERSIONS[tls.max_version]
    if tls.cert or tls.cert_file:
        _load_client_certificate(context, tls)
    return context


def _load_client_certificate(context: ssl.SSLContext, tls: TlsConfig) -> None:
    with tempfile.TemporaryDirectory() as folder:  # mode 0700; OpenSSL takes client certificates from files only
        cert, key = tls.cert_file or Path(folder) / "cert.pem", tls.key_file or Path(folder) / "key.pem"
        if tls.cert:
            cert.write_text(tls.cert, encoding="utf-8")
        if tls.key:
            key.write_text(tls.key.get_secret_value(), encoding="utf-8")
        try:
            context.load_cert_chain(cert, key, password=lambda: "")
        except (OSError, ValueError) as error:
            named = "tls_config." + (f"cert_file {cert}" if tls.cert_file else "cert")
            raise ConfigError(
                f"{named} and its key are unusable ({_reason(error)})", "give an unencrypted PEM pair"
            ) from None
