"""`http_config` with exactly Prometheus' fields and meaning; `config.session` makes the HTTP session from it.

Field names, exclusions and defaults follow Prometheus' configuration reference (`<http_config>`, `<tls_config>`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator, model_validator

_RESERVED_HEADERS = {
    *("accept-encoding", "authorization", "connection", "content-encoding", "content-length", "content-type", "host"),
    *("proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
}
TlsVersion = Literal["TLS10", "TLS11", "TLS12", "TLS13"]


class Secret(SecretStr):
    """Text that shows as `<secret>` wherever it is printed or dumped."""

    def _display(self) -> str:
        return "<secret>"


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    def relative_to(self, base: Path) -> Self:
        """A copy whose relative `*_file` paths (and header `files`) start at `base`, the pipeline file's folder."""
        changed: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Path):
                changed[name] = base / value
            elif isinstance(value, tuple) and name == "files":
                changed[name] = tuple(base / path for path in value)
            elif isinstance(value, _Block):
                changed[name] = value.relative_to(base)
            elif isinstance(value, Mapping):
                changed[name] = {key: _relative(block, base) for key, block in value.items()}
        return self.model_copy(update=changed)


def _relative(value: object, base: Path) -> object:
    return value.relative_to(base) if isinstance(value, _Block) else value


class BasicAuth(_Block):
    username: str | None = None
    username_file: Path | None = None
    password: Secret | None = None
    password_file: Path | None = None

    @model_validator(mode="after")
    def _exclusive(self) -> Self:
        _at_most_one(self, "username", "username_file")
        _at_most_one(self, "password", "password_file")
        return self


class Authorization(_Block):
    type: str = "Bearer"
    credentials: Secret | None = None
    credentials_file: Path | None = None

    @model_validator(mode="after")
    def _exclusive(self) -> Self:
        _at_most_one(self, "credentials", "credentials_file")
        if self.type.strip().lower() == "basic":
            raise ValueError("authorization type Basic is not possible; use basic_auth")
        return self


class TlsConfig(_Block):
    ca: str | None = None
    ca_file: Path | None = None
    cert: str | None = None
    cert_file: Path | None = None
    key: Secret | None = None
    key_file: Path | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False
    min_version: TlsVersion | None = None
    max_version: TlsVersion | None = None

    @model_validator(mode="after")
    def _exclusive(self) -> Self:
        for name in ("ca", "cert", "key"):
            _at_most_one(self, name, f"{name}_file")
        if (self.cert or self.cert_file) and not (self.key or self.key_file):
            raise ValueError("a client certificate needs its key: give key or key_file")
        if (self.key or self.key_file) and not (self.cert or self.cert_file):
            raise ValueError("a client key needs its certificate: give cert or cert_file")
        if self.min_version and self.max_version and self.min_version > self.max_version:
            raise ValueError("min_version is newer than max_version")
        return self


class Header(_Block):
    """The values of one header, in this order: `values`, `secrets`, the contents of `files`."""

    values: tuple[str, ...] = ()
    secrets: tuple[Secret, ...] = ()
    files: tuple[Path, ...] = ()


class HttpConfig(_Block):
    """How to reach an HTTP service. Secrets in files are read anew for every request, so that they can rotate."""

    basic_auth: BasicAuth | None = None
    authorization: Authorization | None = None
    oauth2: object = None
    tls_config: TlsConfig = Field(default_factory=TlsConfig)
    proxy_url: Secret | None = None
    """Secret because it may carry a password."""
    no_proxy: str | None = None
    proxy_from_environment: bool = False
    proxy_connect_header: object = None
    follow_redirects: bool = True
    enable_http2: bool = True
    """Accepted for compatibility; requests go over HTTP/1.1 either way."""
    http_headers: Mapping[str, Header] = Field(default_factory=dict)

    @field_validator("oauth2", "proxy_connect_header")
    @classmethod
    def _unsupported(cls, value: object, info: ValidationInfo) -> object:
        if value is not None:
            instead = {
                "oauth2": "let a sidecar write the token to a file and name it in authorization.credentials_file",
                "proxy_connect_header": "put the proxy's credentials into proxy_url",
            }
            raise ValueError(f"{info.field_name} is not supported; {instead[info.field_name or '']}")
        return value

    @field_validator("http_headers")
    @classmethod
    def _not_reserved(cls, headers: Mapping[str, Header]) -> Mapping[str, Header]:
        for name in headers:
            if name.lower() in _RESERVED_HEADERS:
                raise ValueError(f"header {name} is set by the program; use the setting for it")
        return headers

    @model_validator(mode="after")
    def _exclusive(self) -> Self:
        _at_most_one(self, "basic_auth", "authorization")
        if self.proxy_from_environment:
            for name in ("proxy_url", "no_proxy"):
                if getattr(self, name):
                    raise ValueError(f"give either proxy_from_environment or {name}, not both")
        if self.no_proxy and not self.proxy_url:
            raise ValueError("no_proxy needs proxy_url")
        if self.proxy_url:
            scheme = urlsplit(self.proxy_url.get_secret_value()).scheme
            if scheme not in ("http", "https"):
                raise ValueError(f"proxy_url must begin with http:// or https://, not {scheme or 'nothing'!r}")
        return self


def _at_most_one(block: BaseModel, *names: str) -> None:
    given = [name for name in names if getattr(block, name) is not None]
    if len(given) > 1:
        raise ValueError(f"give either {' or '.join(given)}, not both")
