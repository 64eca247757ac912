"""`http_config`: Prometheus' fields, their exclusions, secrets that stay secret, and the session made from it."""

import os
import ssl
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import requests
from pydantic import ValidationError

from anomaly.config.http import HttpConfig
from anomaly.config.session import session_for, tls_context
from anomaly.errors import ConfigError, SourceRejected
from anomaly.source.prometheus import PrometheusSource
from tests.source.loopback import Asked, Reply, backend


def config(**given: Any) -> HttpConfig:
    return HttpConfig.model_validate(given)


def headers_sent(http: HttpConfig, userinfo: str = "") -> dict[str, str]:
    with backend() as server, session_for(http) as session:
        session.get(server.url.replace("//", f"//{userinfo}"), timeout=5)
    return server.asked[0].headers


# ── the fields ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"basic_auth": {"password": "x", "password_file": "f"}}, "either password or password_file"),
        ({"basic_auth": {"username": "x", "username_file": "f"}}, "either username or username_file"),
        ({"authorization": {"credentials": "x", "credentials_file": "f"}}, "either credentials or credentials_file"),
        ({"authorization": {"type": "Basic"}}, "use basic_auth"),
        ({"basic_auth": {}, "authorization": {}}, "either basic_auth or authorization"),
        ({"oauth2": {"client_id": "x"}}, "oauth2 is not supported"),
        ({"proxy_connect_header": {"A": ["b"]}}, "proxy_connect_header is not supported"),
        ({"proxy_url": "http://p:3128", "proxy_from_environment": True}, "either proxy_from_environment or proxy_url"),
        ({"no_proxy": "localhost"}, "no_proxy needs proxy_url"),
        ({"proxy_url": "p:3128"}, "must begin with http://"),
        ({"tls_config": {"ca": "x", "ca_file": "f"}}, "either ca or ca_file"),
        ({"tls_config": {"cert_file": "f"}}, "needs its key"),
        ({"tls_config": {"key_file": "f"}}, "needs its certificate"),
        ({"tls_config": {"min_version": "TLS13", "max_version": "TLS12"}}, "newer than max_version"),
        ({"tls_config": {"min_version": "1.3"}}, "TLS13"),
        ({"http_headers": {"Authorization": {"values": ["x"]}}}, "set by the program"),
        ({"bearer": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_is_refused_in_words(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        HttpConfig.model_validate(given)


def test_every_field_of_prometheus_is_known() -> None:
    given = {
        "basic_auth": {"username": "ann", "password_file": "secret/password"},
        "tls_config": {
            "ca_file": "ca.pem",
            "cert_file": "cert.pem",
            "key_file": "/etc/key.pem",
            "server_name": "prometheus",
            "insecure_skip_verify": False,
            "min_version": "TLS12",
            "max_version": "TLS13",
        },
        "proxy_url": "http://proxy:3128",
        "no_proxy": "127.0.0.1,.internal",
        "follow_redirects": False,
        "enable_http2": True,
        "http_headers": {"X-Scope-OrgID": {"values": ["gpu"], "files": ["tenant"]}},
    }
    http = HttpConfig.model_validate(given).relative_to(Path("/pipelines"))
    assert http.basic_auth and http.basic_auth.password_file == Path("/pipelines/secret/password")
    assert http.tls_config.ca_file == Path("/pipelines/ca.pem")
    assert http.tls_config.key_file == Path("/etc/key.pem")
    assert http.http_headers["X-Scope-OrgID"].files == (Path("/pipelines/tenant"),)


def test_no_secret_is_ever_printed() -> None:
    http = config(
        authorization={"credentials": "hunter2"},
        proxy_url="http://ann:hunter2@proxy:3128",
        tls_config={"cert": "c", "key": "hunter2"},
        http_headers={"X-Token": {"secrets": ["hunter2"]}},
    )
    shown = f"{http} {http!r} {http.model_dump()} {http.model_dump_json()}"
    assert "hunter2" not in shown
    assert "<secret>" in shown
    with pytest.raises(ValidationError) as caught:
        config(basic_auth={"password": "hunter2", "password_file": "f"})
    assert "hunter2" not in str(caught.value)


# ── credentials on the wire ───────────────────────────────────────────────────────────────────────────


def test_basic_auth() -> None:
    sent = headers_sent(config(basic_auth={"username": "ann", "password": "pä:ss"}))
    assert sent["authorization"] == f"Basic {b64encode('ann:pä:ss'.encode()).decode()}"


def test_authorization_and_custom_headers(tmp_path: Path) -> None:
    (tmp_path / "tenant").write_text("b\n")
    header = {"values": ["a"], "secrets": ["s"], "files": [str(tmp_path / "tenant")]}
    sent = headers_sent(config(authorization={"credentials": "t0ken"}, http_headers={"X-Scope-OrgID": header}))
    assert sent["authorization"] == "Bearer t0ken"
    assert sent["x-scope-orgid"] == "a, s, b"
    assert sent["user-agent"].startswith("anomaly/")


def test_credentials_in_the_url_count_where_nothing_else_is_configured() -> None:
    assert headers_sent(config(), "ann:x@")["authorization"].startswith("Basic ")
    assert headers_sent(config(authorization={"credentials": "t"}), "ann:x@")["authorization"] == "Bearer t"


def test_the_environment_gives_neither_proxies_nor_credentials_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert "authorization" not in headers_sent(config())
    with (
        session_for(config(proxy_from_environment=True), retries=0) as session,
        pytest.raises(requests.ConnectionError),
    ):
        session.get("http://127.0.0.1:10", timeout=5)


def test_a_rotated_password_is_used_with_the_next_request(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old\n")

    def only_new(asked: Asked) -> Reply:
        good = f"Basic {b64encode(b'ann:new').decode()}"
        return Reply() if asked.headers["authorization"] == good else Reply(401, b"Unauthorized")

    http = config(basic_auth={"username": "ann", "password_file": str(file)})
    with backend(by=only_new) as server, session_for(http) as session:
        assert session.get(server.url, timeout=5).status_code == 401
        file.write_text("new\n")
        assert session.get(server.url, timeout=5).status_code == 200


def test_an_unreadable_secret_is_named(tmp_path: Path) -> None:
    http = config(basic_auth={"username": "ann", "password_file": str(tmp_path / "none")})
    with session_for(http) as session, pytest.raises(ConfigError, match="none cannot be read"):
        session.get("http://127.0.0.1:9", timeout=5)


# ── proxies and redirects ─────────────────────────────────────────────────────────────────────────────


def test_requests_go_through_the_proxy_except_where_not() -> None:
    with backend() as proxy, backend() as server:
        through = config(proxy_url=proxy.url)
        with session_for(through) as session:
            session.get("http://prometheus.invalid/api", timeout=5)
        with session_for(config(proxy_url=proxy.url, no_proxy="127.0.0.1")) as session:
            session.get(server.url, timeout=5)
    assert [asked.path for asked in proxy.asked] == ["http://prometheus.invalid/api"]
    assert len(server.asked) == 1


@pytest.mark.parametrize(("follow", "status"), [(True, 200), (False, 302)])
def test_redirects_are_followed_as_configured(follow: bool, status: int) -> None:
    with (
        backend(Reply(302, b"", {"Location": "/there"}), Reply()) as server,
        session_for(config(follow_redirects=follow)) as session,
    ):
        assert session.get(server.url, timeout=5).status_code == status


# ── TLS ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for the name `prometheus` and its key."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def self_signed(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=prometheus", "-addext", "subjectAltName=DNS:prometheus"]
    command = ["openssl", "req", *kind, *name, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def server_context(cert: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


def test_an_unknown_certificate_is_refused_at_once_and_the_setting_named(certificate: tuple[Path, Path]) -> None:
    with backend(tls=server_context(*certificate)) as server, session_for() as session:
        with pytest.raises(SourceRejected, match=r"tls_config\.ca_file"):
            PrometheusSource(server.url, session).ping()
        assert server.asked == []


@pytest.mark.parametrize("inline", [True, False])
def test_the_given_authority_and_server_name_are_what_counts(certificate: tuple[Path, Path], inline: bool) -> None:
    ca = {"ca": certificate[0].read_text()} if inline else {"ca_file": str(certificate[0])}
    with backend(tls=server_context(*certificate)) as server:
        with session_for(config(tls_config={**ca, "server_name": "prometheus"})) as session:
            assert session.get(server.url, timeout=5).status_code == 200
        with session_for(config(tls_config=ca)) as session, pytest.raises(requests.exceptions.SSLError):
            session.get(server.url, timeout=5)


def test_verification_can_be_switched_off_and_is_warned_about(certificate: tuple[Path, Path]) -> None:
    with (
        backend(tls=server_context(*certificate)) as server,
        session_for(config(tls_config={"insecure_skip_verify": True})) as session,
        pytest.warns(Warning, match="Unverified HTTPS request"),
    ):
        assert session.get(server.url, timeout=5).status_code == 200


@pytest.mark.parametrize("inline", [True, False])
def test_a_client_certificate_is_shown(certificate: tuple[Path, Path], inline: bool) -> None:
    cert, key = certificate
    context = server_context(cert, key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cert)
    ca = {"ca_file": str(cert), "server_name": "prometheus"}
    own = (
        {"cert": cert.read_text(), "key": key.read_text()} if inline else {"cert_file": str(cert), "key_file": str(key)}
    )
    with backend(tls=context) as server:
        with session_for(config(tls_config={**ca, **own})) as session:
            assert session.get(server.url, timeout=5).status_code == 200
        with session_for(config(tls_config=ca), retries=0) as session, pytest.raises(requests.ConnectionError):
            session.get(server.url, timeout=5)


def test_a_renewed_authority_is_trusted_without_a_restart(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    (tmp_path / "other").mkdir()
    other, _ = self_signed(tmp_path / "other")
    ca = tmp_path / "ca.pem"
    ca.write_text(other.read_text())
    http = config(tls_config={"ca_file": str(ca), "server_name": "prometheus"})
    with backend(tls=server_context(*certificate)) as server, session_for(http) as session:
        with pytest.raises(requests.exceptions.SSLError):
            session.get(server.url, timeout=5)
        ca.write_text(certificate[0].read_text())
        os.utime(ca, (1, 1))
        assert session.get(server.url, timeout=5).status_code == 200


def test_tls_versions_and_unusable_material() -> None:
    context = tls_context(config(tls_config={"min_version": "TLS13", "max_version": "TLS13"}).tls_config)
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3
    with pytest.raises(ConfigError, match=r"ca_file /none/ca\.pem is unusable"):
        session_for(config(tls_config={"ca_file": "/none/ca.pem"}))
    with pytest.raises(ConfigError, match=r"tls_config\.ca is unusable"):
        session_for(config(tls_config={"ca": "not PEM"}))
    with pytest.raises(ConfigError, match=r"tls_config\.cert and its key are unusable") as caught:
        session_for(config(tls_config={"cert": "not PEM", "key": "hunter2"}))
    assert "hunter2" not in str(caught.value)
