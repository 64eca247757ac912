"""Secrets planted wherever a pipeline takes one: whatever fails, none of them is ever shown, logged or stored."""

import base64
import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.parts import anomaly, write
from tests.config.test_http import self_signed, server_context
from tests.e2e.harness import anomaly_process, get, wait_until
from tests.jobs.test_service import address, logged, origin_and_fault, write_pipeline
from tests.source.loopback import Reply, backend

PLANTED = {
    place: f"planted-{place}-5f3a"
    for place in ("password", "bearer", "header", "userinfo", "hook", "hookuser", "param", "proxy", "file", "amheader")
}

FAILURES = {
    "401": Reply(401, b'{"status":"error","errorType":"unauthorized","error":"no"}'),
    "403": Reply(403, b"Forbidden\n"),
    "500": Reply(500, b"oops\n"),
    "html": Reply(body=b"<html>sign in</html>"),
    "cut": Reply(cut=40),
    "redirect": Reply(302, b"", {"Location": "http://127.0.0.1:9/elsewhere"}),
    "fine": Reply(),
}

PIPELINE = """\
cluster: small
packs: [storage]
prometheus:
  url: "{prometheus}"
  timeout: 2s
  params: {{token: {param}}}
  http_headers: {{X-Scope-Token: {{secrets: [{header}]}}}}
  {credentials}
alertmanagers:
  - url: "{receiver}"
    timeout: 2s
    basic_auth: {{username: anomaly, password_file: secret-file}}
    http_headers: {{X-Token: {{secrets: [{amheader}]}}}}
webhooks: [{{url: "{hook_url}", timeout: 2s, basic_auth: {{username: me, password: {hookuser}}}}}]
store: {{path: var/anomaly.duckdb}}
jsonl: {{path: var/incidents.jsonl}}
web: {{listen: "127.0.0.1:0"}}
schedule: {{collect: 1s, score: 15s, deliver: 1s, publish: 5s, prune: 5s}}
log: {{level: debug}}
"""

CREDENTIALS = {
    "basic_auth": "basic_auth: {{username: anomaly, password: {password}}}",
    "authorization": "authorization: {{credentials: {bearer}}}",
    "proxy": 'proxy_url: "http://me:{proxy}@127.0.0.1:9"',
    "userinfo": "",
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pipeline(folder: Path, url: str, how: str) -> Path:
    (folder / "secret-file").write_text(PLANTED["file"])
    inside = url.replace("://", f"://anomaly:{PLANTED['userinfo']}@") if how == "userinfo" else url
    hook = f"{url}/hooks/{PLANTED['hook']}?key={PLANTED['hook']}"
    credentials = CREDENTIALS[how].format(**PLANTED)
    text = PIPELINE.format(prometheus=inside, receiver=url, hook_url=hook, credentials=credentials, **PLANTED)
    return write(folder, text)


def shown_in(text: str | bytes) -> list[str]:
    """Which planted secrets stand in it, as they are or in base64 as HTTP carries them."""
    raw = text if isinstance(text, bytes) else text.encode()
    found = []
    for place, secret in PLANTED.items():
        forms = [secret.encode()]
        forms += [base64.b64encode(f"{user}:{secret}".encode()) for user in ("anomaly", "me")]
        found += [place for form in forms if form in raw]
    return found


def stored(folder: Path) -> dict[str, list[str]]:
    files = {path: shown_in(path.read_bytes()) for path in (folder / "var").rglob("*") if path.is_file()}
    return {str(path): found for path, found in files.items() if found}


@contextlib.contextmanager
def failing(how: str, folder: Path) -> Iterator[str]:
    if how == "refused":
        yield "http://127.0.0.1:9"
        return
    tls: ssl.SSLContext | None = server_context(*self_signed(folder)) if how == "tls" else None
    with backend(FAILURES.get(how, Reply()), tls=tls) as server:
        yield server.url


@pytest.mark.parametrize("credentials", CREDENTIALS)
@pytest.mark.parametrize("how", ["refused", "tls", *FAILURES])
def test_no_command_shows_a_secret(how: str, credentials: str, tmp_path: Path) -> None:
    with failing(how, tmp_path) as url:
        file = pipeline(tmp_path, url, credentials)
        for words in (("check", file), ("check", file, "--against"), ("collect", file), ("--debug", "collect", file)):
            result = anomaly(*words)
            assert shown_in(result.output) == [], (words, result.output)
            # A password in the URL itself is refused before anything is asked.
            codes = {3} if credentials == "userinfo" else {0} if words == ("check", file) else {0, 1, 4}
            assert result.exit_code in codes, result.output
    assert stored(tmp_path) == {}


def test_the_mistakes_in_a_file_are_named_without_its_secrets(tmp_path: Path) -> None:
    file = pipeline(tmp_path, "http://127.0.0.1:9", "basic_auth")
    right = file.read_text()
    for old, new in (
        ("password: ", "passwort: "),
        (f"password: {PLANTED['password']}", f"password: [{PLANTED['password']}]"),
        ("username: anomaly, password_file: secret-file", f"password: {PLANTED['password']}, password_file: f"),
        ("params: {token", "params: {5: 5, token"),
        ("secrets: [", "secret: ["),
        ("timeout: 2s", "timeout: 2 s"),
    ):
        assert old in right
        file.write_text(right.replace(old, new, 1))
        result = anomaly("check", file)
        assert (result.exit_code, shown_in(result.output)) == (3, []), result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "credentials"), [("500", "basic_auth"), ("fine", "authorization"), ("refused", "proxy")]
)
def test_the_service_logs_serves_and_stores_no_secret(how: str, credentials: str, tmp_path: Path) -> None:
    with failing(how, tmp_path) as url, anomaly_process(["run", pipeline(tmp_path, url, credentials)], tmp_path) as run:
        web = address(run)
        done = "job_done" if how == "fine" else "job_failed"
        wait_until(lambda: logged(run, done, job="data"), 90, "a run")
        served = [get(f"{web}{path}").text for path in ("/metrics", "/-/ready", "/-/healthy", "/")]
        assert run.terminate(20) == 0, run.errors()
        assert [shown_in(text) for text in [*served, run.output(), run.errors()]] == [[]] * 6, run.errors()
    assert (tmp_path / "var/anomaly.duckdb").is_file()
    assert stored(tmp_path) == {}


@pytest.mark.slow
def test_an_incident_that_cannot_be_delivered_shows_no_address(tmp_path: Path) -> None:
    """A webhook's address is its secret; whoever tries again and again may not say where."""
    origin, _ = origin_and_fault()
    hook = f"http://127.0.0.1:9/hooks/{PLANTED['hook']}?key={PLANTED['hook']}"
    (tmp_path / "secret-file").write_text(f"http://127.0.0.1:9/hooks/{PLANTED['file']}\n")
    webhooks = f'[{{url: "{hook}", timeout: 2s}}, {{url_file: secret-file, timeout: 2s}}]'
    file = write_pipeline(tmp_path, origin, "http://127.0.0.1:9", webhooks=webhooks, log="{level: debug}")
    with anomaly_process(["run", file], tmp_path) as run:
        web = address(run)
        wait_until(lambda: len(logged(run, "sink_failed")) == 3, 90, "three receivers that cannot be reached")
        served = [get(f"{web}{path}").text for path in ("/metrics", "/-/ready", "/")]
        assert run.terminate(20) == 0, run.errors()
        assert [shown_in(text) for text in [*served, run.output(), run.errors()]] == [[]] * 5, run.errors()
    assert stored(tmp_path) == {}
    for words in (("report",), ("incidents",), ("doctor", file), ("doctor", file, "--format", "json"), ("check", file)):
        assert shown_in(anomaly(*words).output) == [], words
