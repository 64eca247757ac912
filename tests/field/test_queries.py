"""What the packs' queries answer in Prometheus, by its own unit tests of rules."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from anomaly.signals.catalogue import load_catalogue, pack_names
from tests import needs

SIGNALS = {name: signal for pack in pack_names() for name, signal in load_catalogue([pack]).signals.items()}
STEP = 15_000


def answers(tmp_path: Path, signal: str, inputs: dict[str, str], wanted: dict[str, list[tuple[str, float]]]) -> str:
    """What `promtool test rules` finds wrong: `inputs` are series and their values a minute apart, `wanted` the
    answer to the signal's query at each time."""
    expected = [
        {
            "expr": SIGNALS[signal].promql(STEP),
            "eval_time": at,
            "exp_samples": [{"labels": labels, "value": value} for labels, value in samples],
        }
        for at, samples in wanted.items()
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in inputs.items()],
        "promql_expr_test": expected,
    }
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    found = subprocess.run(
        [needs.binary("promtool"), "test", "rules", path], capture_output=True, text=True, timeout=60, check=False
    )
    return "" if found.returncode == 0 else found.stdout + found.stderr


def xid_counted(code: str) -> str:
    window = '__name__="DCGM_EXP_XID_ERRORS_COUNT",Hostname="n",gpu="0",window_size_in_ms="300000"'
    return "{" + window + (f',xid="{code}"' if code else "") + "}"


@pytest.mark.e2e
def test_the_same_xid_again_is_seen_again(tmp_path: Path) -> None:
    """NVIDIA/dcgm-exporter#190: 48 at minute 2, and once more at minute 12; the series ends with its window."""
    labels = '{Hostname="n", gpu="0"}'
    inputs = {
        xid_counted(""): "0 0 _ _ _ _ 0 0 0 0 0 0 _ _ _ _",
        xid_counted("48"): "_ _ 1 1 1 1 stale _ _ _ _ _ 1 1 1 1",
    }
    wanted = {at: [(labels, value)] for at, value in (("1m", 0.0), ("3m", 1.0), ("7m", 0.0), ("13m", 1.0))}
    assert not answers(tmp_path, "xid_counted_memory", inputs, wanted)
    assert not answers(tmp_path, "xid_counted_lost", inputs, {"1m": [(labels, 0.0)], "7m": [(labels, 0.0)]})


@pytest.mark.e2e
def test_the_first_xid_of_a_series_is_seen(tmp_path: Path) -> None:
    """utkuozdemir/nvidia_gpu_exporter docs/METRICS.md: `increase(xid_total) > 0` misses a series' first event."""
    series = 'nvidia_smi_xid_last_timestamp_seconds{instance="n:9835",uuid="GPU-1",xid="79"}'
    labels = '{instance="n:9835", uuid="GPU-1", xid="79"}'
    wanted = {"4m": [], "5m": [(labels, 1.0)], "9m": [(labels, 1.0)], "12m": [(labels, 0.0)]}
    assert not answers(tmp_path, "nvidia_smi_xid_lost", {series: "_ _ _ _ _ 300 300x20"}, wanted)


BUCKET = (
    'juicefs_object_request_durations_histogram_seconds_bucket{instance="n:9567",vol_name="v",method="GET",le="%s"}'
)


@pytest.mark.e2e
def test_a_quantile_is_of_what_was_observed(tmp_path: Path) -> None:
    """prometheus/prometheus#6645, #4264, #13221: without traffic there is no quantile, and none is invented."""
    inputs = {BUCKET % "0.1": "0+60x10 600x10", BUCKET % "+Inf": "0+60x10 600x10"}
    labels = '{instance="n:9567", vol_name="v"}'
    busy = {"9m": [(labels, 0.099)]}
    assert not answers(tmp_path, "storage_p99", inputs, busy)
    idle = json.dumps(answers(tmp_path, "storage_p99", inputs, {"18m": [(labels, 0.099)]}))
    assert "NaN" in idle
