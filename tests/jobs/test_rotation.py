"""Secrets in files change while the service runs: it goes on with the new ones, and says what is wrong meanwhile."""

from base64 import b64encode
from pathlib import Path

import pytest

from tests.e2e.harness import anomaly_process, wait_until
from tests.jobs.test_service import address, logged
from tests.source.loopback import Asked, Reply, backend

pytestmark = pytest.mark.slow

PIPELINE = """\
cluster: small
packs: [storage]
prometheus: {{url: "{url}", timeout: 5s, basic_auth: {{username: anomaly, password_file: password}}}}
store: {{path: var/anomaly.duckdb}}
jsonl: {{path: var/incidents.jsonl}}
web: {{listen: "127.0.0.1:0"}}
schedule: {{collect: 1s, score: 15s, deliver: 1s}}
"""


def test_a_password_that_is_changed_is_taken_up_without_a_restart(tmp_path: Path) -> None:
    wanted = ["first-4711"]

    def guarded(asked: Asked) -> Reply:
        allowed = f"Basic {b64encode(f'anomaly:{wanted[0]}'.encode()).decode()}"
        return Reply() if asked.headers.get("authorization") == allowed else Reply(401, b"Unauthorized\n")

    file = tmp_path / "password"
    file.write_text("first-4711\n")
    with backend(by=guarded) as prometheus:
        (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(url=prometheus.url))
        with anomaly_process(["run", tmp_path / "pipeline.yaml"], tmp_path) as service:
            address(service)
            wait_until(lambda: logged(service, "job_done", job="data"), 30, "a pull with the first password")

            wanted[0] = "second-4711"
            (line,) = wait_until(lambda: logged(service, "job_failed", job="data"), 30, "the refusal to be said")
            assert "answered 401" in line and "basic_auth" in line
            file.write_text("second-4711\n")
            wait_until(lambda: logged(service, "job_recovered", job="data"), 30, "a pull with the second password")

            file.unlink()
            wait_until(lambda: len(logged(service, "job_failed", job="data")) == 2, 30, "the missing file to be said")
            missing = logged(service, "job_failed", job="data")[1]
            assert f"{file} cannot be read" in missing
            file.write_text("second-4711\n")
            wait_until(lambda: len(logged(service, "job_recovered", job="data")) == 2, 30, "the file to be found")

            assert service.terminate(15) == 0, service.errors()
            assert "4711" not in service.errors() + service.output()
            assert "Traceback" not in service.errors()
