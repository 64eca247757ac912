"""The packs: whole, sourced, written up in docs/signals.md, with names that real exporters have been seen to use."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anomaly.causes import FAMILIES
from anomaly.detect.profiles import detectors_of
from anomaly.errors import ConfigError
from anomaly.records import Labels, Severity
from anomaly.signals.catalogue import load_catalogue, pack_about, pack_names
from anomaly.signals.identity import Aliases, identify
from anomaly.signals.model import Signal
from anomaly.signals.reference import EXAMPLE, keys, render
from anomaly.signals.written import CodesYaml, EntityYaml, PeersYaml, ShiftYaml, SignalYaml, ThresholdYaml
from anomaly.strict_yaml import parse
from tests import needs
from tests.e2e import harness

DOCUMENT = Path(__file__).parents[2] / "docs" / "signals.md"
DEFAULT = {"dcgm": 16, "node": 7, "rdma": 11, "storage": 1, "training": 2}
"""What the example pipeline collects; more signals there are more load for everybody."""

PACKS = {pack: load_catalogue([pack]).signals for pack in pack_names()}
SIGNALS = [signal for signals in PACKS.values() for signal in signals.values()]
EXPOSITION, LIVE, TELEMETRY = "node_exporter text exposition", "node_exporter run live", "public A100 telemetry"
VERIFIED = {
    EXPOSITION,
    LIVE,
    TELEMETRY,
    "Prometheus itself",
    "exporter test data",
    "exporter source",
    "exporter documentation",
    "published alert rules",
    "",
}
UNITS = {
    *(
        "bits",
        "bool",
        "bytes",
        "bytes/s",
        "calls",
        "celsius",
        "code",
        "dbm",
        "devices",
        "entries",
        "errors",
        "events",
        "faults",
    ),
    *("frames", "gigabytes/s", "hertz", "kills", "mebibytes", "megabytes", "megabytes/s", "megahertz", "microseconds"),
    *(
        "milliamperes",
        "millijoules",
        "milliseconds",
        "milliwatts",
        "nanoseconds",
        "packets",
        "percent",
        "ratio",
        "replays",
    ),
    *("requests", "rows", "rpm", "samples", "seconds", "steps", "tasks", "teraflops", "ticks", "watts", "words"),
}
LAYERS = {"hardware", "system", "network", "storage", "training"}
SYMPTOMS = {"compute", "thermal", "memory", "nvlink", "network", "storage", "host", "training", "presence"}

by_name = [pytest.param(signal, id=signal.name) for signal in SIGNALS]


@pytest.mark.parametrize("signal", by_name)
def test_every_signal_says_what_it_is_and_where_that_comes_from(signal: Signal) -> None:
    assert signal.source
    assert signal.verified in VERIFIED
    assert signal.unit in UNITS
    assert signal.layer in LAYERS
    assert signal.symptom in SYMPTOMS
    assert signal.cause in FAMILIES
    assert signal.entity_kind in {"node", "job", "switch", "storage"}
    assert "$" not in signal.promql(15_000)


@pytest.mark.parametrize("signal", by_name)
def test_only_nodes_and_jobs_are_judged_and_only_in_a_bad_direction(signal: Signal) -> None:
    judged = set(detectors_of(signal)) & {"threshold", "peers", "shift", "codes"}
    assert bool(judged) <= (signal.bad != "none")
    if signal.entity_kind in ("switch", "storage"):
        assert not judged


def test_outside_the_default_packs_only_facts_may_be_loud_alone() -> None:
    extra = [signal for pack, signals in PACKS.items() if pack not in DEFAULT for signal in signals.values()]
    loud = {signal.name for signal in extra if detectors_of(signal) and signal.alone is not Severity.INFO}
    facts = {signal.name for signal in extra if signal.threshold and signal.threshold.hard}
    devices = {signal.name for signal in extra if signal.gate == "load" or signal.restless}
    assert loud - facts - devices == {"nvidia_smi_recovery_action"}, "the driver's own request for a reset"


def test_a_mean_is_called_a_mean() -> None:
    for pack in ("ceph", "nfs", "weka", "disk", "lustre"):
        assert "mean only" in pack_about(pack).lower()
        for signal in PACKS[pack].values():
            if "latency" in signal.name or "operation_time" in signal.name:
                assert "mean only" in signal.about, signal.name


def test_every_percentile_comes_from_a_histogram_and_nothing_else_is_called_one() -> None:
    for signal in SIGNALS:
        computed = "histogram_quantile" in (signal.query or "")
        told = signal.metrics and "P99" in signal.metrics[0], "some exporters compute it themselves"
        assert ("percentile" in signal.about) == (computed or bool(told[0])), signal.name
        if computed:
            assert " le)" in str(signal.query), f"{signal.name}: a percentile of what was averaged before is none"


def test_what_is_missing_can_be_switched_on() -> None:
    assert [signal.name for signal in SIGNALS if not signal.enable] == []


def test_the_default_packs_stay_as_small_as_they_are() -> None:
    assert {pack: len(PACKS[pack]) for pack in DEFAULT} == DEFAULT


def test_no_two_packs_use_one_name_for_different_things() -> None:
    names = [signal.name for signal in SIGNALS]
    assert len(names) == len(set(names))


def samples(text: str) -> Iterator[tuple[str, Labels]]:
    """(name, labels) of every sample of an exposition."""
    for line in text.splitlines():
        found = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+", line)
        if found and not line.startswith("#"):
            yield found[1], dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2] or ""))


def asked(signal: Signal) -> set[str]:
    """The names of node_exporter's metrics that the signal asks for."""
    return set(re.findall(r"\bnode_\w+", " ".join([*signal.metrics, signal.query or ""])))


def seen(signal: Signal, names: set[str]) -> bool:
    """Whether one of its aliases, or everything its query needs, is among the names."""
    return asked(signal) <= names if signal.query else bool(asked(signal) & names)


def marked(word: str) -> list[Signal]:
    found = [signal for signal in SIGNALS if signal.verified == word]
    assert found
    return found


def test_what_is_called_seen_in_the_exposition_is_there_and_names_its_node_and_device() -> None:
    path = needs.public_data("format_samples") / "node_exporter_e2e-output.txt"
    found = list(samples(path.read_text(encoding="utf-8")))
    names = {name for name, _ in found}
    assert [signal.name for signal in marked(EXPOSITION) if not seen(signal, names)] == []
    checked = 0
    for signal in SIGNALS:
        for name, labels in found:
            if name not in asked(signal):
                continue
            identity = identify(signal, {"__name__": name, "instance": "gpu-17:9100", **labels}, Aliases())
            assert identity is not None
            entity, device, _ = identity
            assert entity.name == "gpu-17"
            grouped = signal.query is not None and " by (" in signal.query
            if signal.device_labels and not grouped:
                assert device in {labels.get(label) for label in signal.device_labels}, (signal.name, labels)
            checked += 1
    assert checked > 150


def test_rows_of_one_signal_differ_by_device_or_part() -> None:
    """Two sensors of one chip, two ports of one adapter: never mistaken for duplicates of one thing."""
    path = needs.public_data("format_samples") / "node_exporter_e2e-output.txt"
    found = list(samples(path.read_text(encoding="utf-8")))
    for signal in PACKS["node_health"].values():
        if signal.query:
            continue
        for metric in asked(signal):
            rows = [labels for name, labels in found if name == metric]
            keys = {identify(signal, {"__name__": metric, "instance": "n", **labels}, Aliases()) for labels in rows}
            assert len(keys) == len(rows), signal.name


def test_what_is_called_seen_in_public_telemetry_is_there() -> None:
    import pyarrow.parquet as pq

    files = (needs.public_data("gwdg_gpu/open") / "segments").glob("*.parquet")
    names = {column.split("|")[0] for file in files for column in pq.read_schema(file).names}
    for signal in marked(TELEMETRY):
        assert set(signal.metrics) & names, signal.name


@pytest.mark.e2e
def test_queries_over_the_exposition_answer_with_node_and_device(tmp_path: Path) -> None:
    """Joins and quotients find their partners, and what comes out still says whose it is."""
    queried = [signal for signal in marked(EXPOSITION) if signal.query]
    wanted = {name for signal in queried for name in asked(signal)}
    path = needs.public_data("format_samples") / "node_exporter_e2e-output.txt"
    rows = [
        (name, ",".join(f'{key}="{value}"' for key, value in {"instance": "gpu-17:9100", **labels}.items()))
        for name, labels in samples(path.read_text(encoding="utf-8"))
        if name in wanted
    ]
    end = 1_796_000_000
    lines = [
        f"{name}{{{labels}}} {1000 + 30 * before} {end - 30 * (9 - before)}"
        for name, labels in sorted(rows)
        for before in range(10)
    ]
    (tmp_path / "exposition.om").write_text("\n".join([*lines, "# EOF\n"]))
    harness.backfill([tmp_path / "exposition.om"], tmp_path / "data")
    with harness.prometheus(tmp_path / "data") as url:
        for signal in queried:
            answer = harness.instant_query(url, signal.promql(15_000), end)
            assert answer, signal.name
            for series in answer:
                identity = identify(signal, series["metric"], Aliases())
                assert identity is not None, signal.name
                assert identity[0].name == "gpu-17"
                assert bool(identity[1]) == bool(signal.device_labels), (signal.name, series["metric"])


@pytest.mark.e2e
def test_what_is_called_seen_live_is_there(tmp_path: Path) -> None:
    binary, port = needs.binary("node_exporter"), harness.free_port()
    (tmp_path / "a.prom").write_text("nccl_bus_bandwidth_gbs 1\n")
    flags = [f"--web.listen-address=127.0.0.1:{port}", f"--collector.textfile.directory={tmp_path}"]
    with harness.running([binary, *flags], tmp_path, name="node_exporter"):
        answer = harness.wait_until(lambda: harness.get(f"http://127.0.0.1:{port}/metrics"), 20, "node_exporter")
    names = {name for name, _ in samples(answer.text)}
    assert [signal.name for signal in marked(LIVE) if not seen(signal, names)] == []


def test_a_signal_of_ones_own_is_one_entry() -> None:
    document = parse(EXAMPLE.encode(), "docs/signals.md").data
    catalogue = load_catalogue(document["packs"], document["signals"])
    flow, leak = catalogue["coolant_flow"], catalogue["leak"]
    assert (flow.kind, flow.interval, flow.verified) == ("gauge", 15_000, "")
    assert flow.promql(15_000) == "cdu_secondary_flow_lpm"
    assert detectors_of(flow) == ("threshold",)
    assert leak.threshold is not None
    assert leak.threshold.hard
    assert [name for name in document["signals"] if detectors_of(catalogue[name])] == ["coolant_flow", "leak"]
    assert EXAMPLE in render()


def test_a_misspelt_key_of_a_signal_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        load_catalogue(["dcgm"], {"gpu_temp": {"verifed": "x"}})
    assert [str(problem) for problem in caught.value.problems] == [
        "signals: gpu_temp.verifed: unknown key; did you mean 'verified'?"
    ]


def test_what_a_signal_was_verified_against_is_no_part_of_what_a_model_learnt() -> None:
    changed = load_catalogue(["dcgm"], {"gpu_temp": {"verified": ""}})["gpu_temp"]
    assert repr(changed) == repr(PACKS["dcgm"]["gpu_temp"])


def test_the_reference_of_all_signals_is_up_to_date() -> None:
    """If not: `python -m anomaly.signals.reference > docs/signals.md`."""
    assert DOCUMENT.read_text(encoding="utf-8") == render()


def test_the_reference_has_every_signal_and_says_which_are_unverified() -> None:
    told = subprocess.run([sys.executable, "-m", "anomaly.signals.reference"], capture_output=True, check=True)
    text = told.stdout.decode()
    assert text == render()
    for signal in SIGNALS:
        assert text.count(f"\n| `{signal.name}` |") == 2, signal.name
    assert text.count("*unverified* |") == sum(not signal.verified for signal in SIGNALS)


def test_the_reference_says_what_every_key_means() -> None:
    for model in (SignalYaml, EntityYaml, ThresholdYaml, PeersYaml, ShiftYaml, CodesYaml):
        for name, field in model.model_fields.items():
            assert field.description, name
            assert f"\n| `{name}` |" in keys()
