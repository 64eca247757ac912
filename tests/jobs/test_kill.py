"""SIGKILL at named points loses nothing and changes nothing: real processes, a real database, a loopback receiver."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from anomaly.jobs.parts import open_pipeline_store
from anomaly.records import Phase
from tests.deliver.parts import Receiver
from tests.jobs.kill_program import END
from tests.jobs.parts import conclusions, differences, identities, sample_digests, small_cluster, two_faults

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kill")]

Plan = Sequence[tuple[str, int]]

ROOT = Path(__file__).parents[2]

# Ten kills each. A life killed before its n-th commit keeps n - 1 of them, one killed after it keeps n.
PLANS: dict[str, Plan] = {
    "before the samples are committed": [("before_commit:collect", nth) for nth in (1, 2, 2, 3, 1, 2, 2, 3, 2, 1)],
    "before a tick is committed": [("before_commit:tick", nth) for nth in (1, 2, 2, 3, 1, 2, 2, 3, 2, 1)],
    "after a tick is committed": [("after_commit:tick", nth) for nth in (1, 1, 1, 2, 1, 1, 1, 2, 1, 1)],
    "after the POST, before the outbox is marked": [("after_post", nth) for nth in (1, 2, 1, 2, 1, 2, 1, 2, 1, 2)],
}


class Outcome:
    """One range lived through: what is in the store and what the receiver got."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        with Receiver() as receiver:
            done = subprocess.run(
                [sys.executable, "-m", "tests.jobs.kill_program", folder, receiver.url, json.dumps(plan)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            self.ends: list[int] = json.loads(done.stdout)
            assert self.ends[-1] == 0, done.stderr
            requests = list(receiver.requests)
        alerts = [alert for path, _, body in requests if path.endswith("/alerts") for alert in json.loads(body)]
        self.alerts = [(tuple(sorted(alert["labels"].items())), "ended" in alert["annotations"]) for alert in alerts]
        self.webhooks = [(headers["Idempotency-Key"], body) for path, headers, body in requests if path == "/hook"]
        parts = small_cluster(folder, END)
        with open_pipeline_store(parts.pipeline) as store:
            self.stored: dict[str, Any] = {
                "series": identities(store),
                "samples": sample_digests(store),
                **conclusions(parts, store),
            }
            self.late = store.late_samples(0, 2**62)
            self.backlog = store.backlog()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return Outcome(tmp_path_factory.mktemp("undisturbed"), [])


def test_undisturbed_both_faults_fire_and_resolve(undisturbed: Outcome) -> None:
    """Otherwise the comparisons below would compare little."""
    struck = {fault.nodes[0] for fault in two_faults()}
    incidents = undisturbed.stored["incidents"]
    assert {incident.entity.name for incident in incidents} == struck
    assert all(incident.phase is Phase.RESOLVED for incident in incidents)
    assert {ended for _, ended in undisturbed.alerts} == {False, True}
    assert undisturbed.late == []
    assert undisturbed.backlog == {}


@pytest.mark.parametrize("where", PLANS)
def test_ten_kills_change_nothing(where: str, undisturbed: Outcome, tmp_path: Path) -> None:
    """Same samples, same incidents with their ids and times, and no alert and no webhook event lost."""
    plan = PLANS[where]
    found = Outcome(tmp_path, plan)
    assert found.ends == [-signal.SIGKILL] * len(plan) + [0], "a life came to the end before its kill"
    assert differences(undisturbed.stored, found.stored) == []
    assert found.late == []
    assert found.backlog == {}

    assert set(found.alerts) == set(undisturbed.alerts)
    assert dict(found.alerts) == dict(undisturbed.alerts), "the last word on an alert is another one"
    assert set(found.webhooks) == set(undisturbed.webhooks)
    firsts = list(dict.fromkeys(found.webhooks))
    assert firsts == undisturbed.webhooks, "an event overtook another"
