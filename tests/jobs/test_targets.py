"""From a pipeline's receivers to sinks: whose time is scaled, and addresses that stand in files."""

from pathlib import Path

import pytest

from anomaly.clock import MINUTE, SECOND
from anomaly.config.load import load_pipeline
from anomaly.deliver.entries import outbox_entries
from anomaly.errors import ConfigError
from anomaly.jobs.parts import Target, targets
from tests.deliver.parts import T0, Receiver, hot_gpu

PIPELINE = """\
cluster: small
packs: [node]
simulate: {seed: 1}
alertmanagers: [{url: "http://127.0.0.1:9093"}]
webhooks: [{url_file: hook-url}]
jsonl: {path: incidents.jsonl}
"""


def targets_of(folder: Path, more: str = "") -> list[Target]:
    (folder / "pipeline.yaml").write_text(PIPELINE + more)
    return targets(load_pipeline(folder / "pipeline.yaml"))


def test_a_feed_in_scaled_time_is_patient_in_scaled_time(tmp_path: Path) -> None:
    for target in targets_of(tmp_path, 'time_scale: "1/15"\n'):
        policy = target.policy
        assert (policy.resend, policy.lease, policy.backoff_cap) == (4 * SECOND, 16 * SECOND, 4 * SECOND)
        assert policy.backoff_start == round(5 * SECOND / 15)
        assert policy.resolved_retention == MINUTE
    for target in targets_of(tmp_path):
        assert (target.policy.backoff_start, target.policy.resolved_retention) == (5 * SECOND, 15 * MINUTE)


def test_an_address_in_a_file_is_read_for_every_post(tmp_path: Path) -> None:
    (hook,) = [target for target in targets_of(tmp_path) if target.ref.kind == "webhook"]
    entries = outbox_entries(hot_gpu(), [hook.ref], T0, T0)
    with Receiver() as receiver:
        for path in ("/first", "/second?key=new"):
            (tmp_path / "hook-url").write_text(f"{receiver.url}{path}\n")
            hook.sink.send(entries, T0)
    assert [path for path, _, _ in receiver.requests] == ["/first", "/second?key=new"]


@pytest.mark.parametrize("held", [None, "", "swordfish", "ftp://h/swordfish", "http://me:swordfish@h/"])
def test_a_file_without_an_address_is_named_and_not_shown(held: str | None, tmp_path: Path) -> None:
    (hook,) = [target for target in targets_of(tmp_path) if target.ref.kind == "webhook"]
    if held is not None:
        (tmp_path / "hook-url").write_text(held)
    with pytest.raises(ConfigError, match=r"secret file .*hook-url") as caught:
        hook.sink.send(outbox_entries(hot_gpu(), [hook.ref], T0, T0), T0)
    assert "swordfish" not in str(caught.value)
    assert caught.value.next_step
