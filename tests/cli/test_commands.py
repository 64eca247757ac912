"""Commands on small simulated clusters and on a loopback Prometheus."""

import json
from pathlib import Path
from typing import Any

import pytest

from anomaly.cli.check_words import WIDTH
from anomaly.clock import system_clock
from tests.cli.parts import FROM_PROMETHEUS, SIMULATED, anomaly, paragraph, widest, write
from tests.source.loopback import Asked, Reply, backend

FROM, TO = "2026-06-01T08:20:00Z", "2026-06-01T09:25:00Z"
ALL_PACKS = SIMULATED.replace("[node]", "[dcgm, node, rdma, storage, training]").replace("[node_lost]", "1")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    return write(tmp_path, SIMULATED)


def truth_of(pipeline: Path) -> dict[str, Any]:
    """What the simulated cluster of SIMULATED really goes through."""
    from anomaly.clock import parse_time
    from anomaly.config.load import load_pipeline
    from anomaly.jobs.parts import assemble
    from anomaly.source.simulated import LiveSimulatedSource, Scenario, truth

    source = assemble(load_pipeline(pipeline), lambda: parse_time(TO)).source
    assert isinstance(source, LiveSimulatedSource)
    start, end = parse_time("2026-06-01T08:00:00Z"), parse_time(TO)
    return truth(Scenario(source.cluster, source.faults_until(end), start, end))


def test_a_backtest_shows_incidents_and_compares_them_with_the_truth(pipeline: Path, tmp_path: Path) -> None:
    truth = write(tmp_path, json.dumps(truth_of(pipeline)), "truth.json")
    result = anomaly("backtest", pipeline, "--from", FROM, "--to", TO, "--truth", truth, "--incidents", "out.jsonl")
    assert result.exit_code == 0, result.stderr
    head, *_ = result.stdout.splitlines()
    assert head == f"8 nodes from {FROM} to {TO}: 1 incident"
    assert "Against the truth: 1 of 1 faults found, no victim blamed, nothing false" in result.stdout
    assert "node_lost" in result.stdout
    assert widest(result.stdout) <= 110
    lines = [json.loads(text) for text in Path("out.jsonl").read_text().splitlines()]
    assert {line["id"] for line in lines} and lines[0]["severity"] == "critical"
    assert not Path("var").exists(), "the service's own store is left alone"


def test_a_backtest_as_json_is_one_object(pipeline: Path, tmp_path: Path) -> None:
    truth = write(tmp_path, json.dumps(truth_of(pipeline)), "truth.json")
    result = anomaly("backtest", pipeline, "--from", FROM, "--to", TO, "--truth", truth, "--format", "json")
    body = json.loads(result.stdout)
    assert (body["start"], body["end"], body["nodes"]) == (FROM, TO, 8)
    assert [incident["cause"] for incident in body["incidents"]] == ["node_lost"]
    assert (body["truth"]["recall"], body["truth"]["victims_blamed"]) == (1, 0)


def test_a_quiet_stretch_says_so(pipeline: Path) -> None:
    result = anomaly("backtest", pipeline, "--from", "2026-06-01T08:05:00Z", "--to", "2026-06-01T08:15:00Z")
    assert result.stdout == "8 nodes from 2026-06-01T08:05:00Z to 2026-06-01T08:15:00Z: no incidents\n"


def test_collect_then_score_then_incidents(pipeline: Path) -> None:
    collected = anomaly("collect", pipeline, "--from", "2026-06-01T08:00:00Z", "--to", TO)
    assert (collected.exit_code, collected.stdout) == (0, "")
    assert f"samples up to {TO}" in collected.stderr

    tried = anomaly("score", pipeline, "--from", FROM, "--to", TO, "--dry-run")
    [alert] = json.loads(tried.stdout)
    assert alert["labels"]["alertname"] == "NodeFault"
    assert not Path("incidents.jsonl").exists() and not Path("var/published").exists()

    scored = anomaly("score", pipeline, "--from", FROM, "--to", TO)
    assert (scored.exit_code, scored.stdout) == (0, ""), scored.stderr
    assert "65 ticks up to" in scored.stderr, "the dry run had not used them up"
    lines = [json.loads(text) for text in Path("incidents.jsonl").read_text().splitlines()]
    assert {line["id"] for line in lines} == {lines[0]["id"]}

    listed = anomaly("incidents")
    assert listed.exit_code == 0
    assert lines[0]["id"] in listed.stdout and "node_lost" in listed.stdout
    assert json.loads(anomaly("incidents", "--format", "json").stdout)[0]["id"] == lines[0]["id"]
    again = anomaly("score", pipeline, "--from", FROM, "--to", TO)
    assert "0 ticks" in again.stderr


def test_incidents_says_when_there_are_none_and_when_some_are_left_out(pipeline: Path) -> None:
    anomaly("collect", pipeline, "--from", "2026-06-01T08:00:00Z", "--to", TO)
    anomaly("score", pipeline, "--from", FROM, "--to", "2026-06-01T08:25:00Z")
    assert anomaly("incidents").stdout == "no incidents; scored up to 2026-06-01T08:25:00Z\n"
    assert anomaly("incidents", "--format", "json").stdout == "[]\n"
    anomaly("score", pipeline, "--to", TO)
    assert "no open incidents" in anomaly("incidents", "--open").stdout
    assert anomaly("incidents", "--limit", "0").exit_code == 2


def test_a_receiver_that_does_not_answer_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    text = SIMULATED + 'alertmanagers: [{url: "http://127.0.0.1:9", timeout: 1s}]\n'
    pipeline = write(tmp_path, text)
    anomaly("collect", pipeline, "--from", "2026-06-01T08:00:00Z", "--to", TO)
    result = anomaly("score", pipeline, "--from", FROM, "--to", TO)
    assert result.exit_code == 4
    assert "nothing is lost, the next run sends it" in result.stderr
    assert "Traceback" not in result.stderr
    assert Path("incidents.jsonl").exists(), "the other receiver got its lines"


def test_check_shows_the_file_as_understood_and_masks_secrets(tmp_path: Path) -> None:
    text = FROM_PROMETHEUS.replace("URL", "http://127.0.0.1:9").replace(
        "timeout: 5s", "basic_auth: {username: reader, password: hunter2}"
    )
    result = anomaly("check", write(tmp_path, text))
    assert result.exit_code == 0
    assert "password: <secret>" in result.stdout and "hunter2" not in result.stdout + result.stderr
    assert "is valid" in result.stderr


def test_check_as_json_holds_the_same_secrets_masked(tmp_path: Path) -> None:
    text = FROM_PROMETHEUS.replace("URL", "http://127.0.0.1:9").replace(
        "timeout: 5s", "basic_auth: {username: reader, password: hunter2}"
    )
    result = anomaly("check", write(tmp_path, text), "--format", "json")
    assert (result.exit_code, "hunter2" in result.output) == (0, False)
    body = json.loads(result.stdout)
    assert body["pipeline"]["prometheus"]["basic_auth"] == {"username": "reader", "password": "<secret>"}
    assert "storage_p99" in body["signals"]


def test_check_prints_the_schema_of_pipeline_files_without_one() -> None:
    result = anomaly("check", "--schema")
    assert result.exit_code == 0, result.stderr
    assert "cluster" in json.loads(result.stdout)["required"]


def test_check_against_a_cluster_with_everything_lists_every_signal(tmp_path: Path) -> None:
    result = anomaly("check", write(tmp_path, ALL_PACKS.replace(', start: "2026-06-01T08:00:00Z"', "")), "--against")
    assert result.exit_code == 0
    rows = result.stdout.splitlines()
    assert len(rows) <= 50 and widest(result.stdout) <= WIDTH
    assert rows[0].split() == ["SIGNAL", "METRIC", "SERIES", "ENTITIES", "EVERY", "AGE", "SEEN"]
    [last] = [i for i, row in enumerate(rows) if "signals are there" in row]
    assert rows[last].startswith(f"{last - 1} of {last - 1} signals are there: hardware 16/16, ")
    assert "Blind spots" not in result.stdout


def test_check_against_says_what_is_not_there_and_what_names_no_node(tmp_path: Path) -> None:
    """As in NVIDIA/dcgm-exporter#310, NVIDIA/dcgm-exporter#317, 4n4nd/prometheus-api-client-python#222."""

    def answer(asked: Asked) -> Reply:
        [promql] = asked.form["query"]
        if "DCGM_FI_DEV_GPU_TEMP" not in promql:
            return Reply(body=b'{"status":"success","data":{"resultType":"matrix","result":[]}}')
        now = system_clock() // 1000 - 45
        gpus: list[dict[str, str]] = [
            {"Hostname": "gpu-01", "gpu": "0"},
            {"Hostname": "gpu-01", "gpu": "1"},
            {"gpu": "2"},
        ]
        series = [
            {"metric": {"__name__": "DCGM_FI_DEV_GPU_TEMP"} | labels, "values": [[now - 30, "50"], [now, "51"]]}
            for labels in gpus
        ]
        body = {"status": "success", "data": {"resultType": "matrix", "result": series}}
        return Reply(body=json.dumps(body, separators=(",", ":")).encode())

    with backend(by=answer) as prometheus:
        pipeline = write(tmp_path, FROM_PROMETHEUS.replace("URL", prometheus.url).replace("storage", "dcgm"))
        result = anomaly("check", pipeline, "--against")
        as_json = anomaly("check", pipeline, "--against", "--format", "json")
    assert result.exit_code == 0, result.stderr
    rows = {row.split()[0]: row for row in result.stdout.splitlines()}
    assert rows["gpu_temp"].split()[1:4] == ["DCGM_FI_DEV_GPU_TEMP", "3", "1"]
    assert "1 series name nobody" in rows["gpu_temp"]
    assert "xid" not in rows
    blind = " ".join(result.stdout[result.stdout.index("Blind spots") :].split())
    assert "xid, remapped_rows_uncorrectable, row_remap_failure, pcie_replay: dcgm-exporter's default set has" in blind
    assert "ecc_correctable, ecc_uncorrectable: enable DCGM_FI_DEV_ECC_*_VOL_TOTAL in dcgm-exporter's CSV" in blind
    assert "1 of 16 signals are there: hardware 1/16" in result.stdout
    told = {each["signal"]: each for each in json.loads(as_json.stdout)["signals"]}
    assert (told["gpu_temp"]["series"], told["gpu_temp"]["entities"], told["gpu_temp"]["unidentified"]) == (3, 1, 1)
    assert (told["xid"]["newest"], told["xid"]["error"]) == (None, None)
    assert any(text.startswith("Blind spots") for text in json.loads(as_json.stdout)["advice"])
    assert widest(result.stdout) <= WIDTH


def test_check_as_of_a_time_needs_a_source_to_ask(tmp_path: Path) -> None:
    result = anomaly("check", write(tmp_path, SIMULATED), "--at", FROM)
    assert result.exit_code == 2
    assert "--at goes with --against" in result.stderr


def test_check_against_does_not_ask_on_when_nobody_answers(tmp_path: Path) -> None:
    with backend(Reply(503, b"down\n")) as prometheus:
        pipeline = write(tmp_path, FROM_PROMETHEUS.replace("URL", prometheus.url).replace("storage", "node"))
        result = anomaly("check", pipeline, "--against")
        asked = {asked.form["query"][0] for asked in prometheus.asked}
    assert (result.exit_code, len(asked)) == (4, 1)
    assert "answered 503" in paragraph(result)


@pytest.mark.parametrize(
    ("env", "coloured"), [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)]
)
def test_colours_only_where_they_are_wanted(env: dict[str, str], coloured: bool, pipeline: Path) -> None:
    anomaly("collect", pipeline, "--from", "2026-06-01T08:00:00Z", "--to", TO)
    anomaly("score", pipeline, "--from", FROM, "--to", TO)
    assert ("\x1b[" in anomaly("incidents", env=env).stdout) == coloured
