"""A pipeline file becomes a spec: units, defaults, paths, scaling, masking, warnings."""

from pathlib import Path
from typing import Any

import pytest

from anomaly.clock import DAY, HOUR, MINUTE, SECOND
from anomaly.config.load import load_pipeline, pipeline_from
from anomaly.config.packs import pack_names
from anomaly.config.pipeline import Pipeline
from anomaly.errors import ConfigError
from anomaly.strict_yaml import parse

PIPELINES = Path(__file__).parents[2] / "pipelines"
SHORTEST = 'cluster: prod-a\npacks: [dcgm, node]\nprometheus: {url: "http://127.0.0.1:9090"}\n'
SIMULATED = "cluster: prod-a\npacks: [dcgm]\nsimulate: {seed: 1}\n"


def spec_of(text: str) -> Pipeline:
    return pipeline_from(parse(text.encode(), "pipelines/p.yaml"))


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        spec_of(text)
    return [f"{problem.key}: {problem.what}" for problem in caught.value.problems]


def test_three_keys_suffice() -> None:
    spec = spec_of(SHORTEST)
    assert spec.prometheus
    assert (spec.cluster, spec.packs, spec.prometheus.url) == ("prod-a", ("dcgm", "node"), "http://127.0.0.1:9090")
    assert (spec.step, spec.tick, spec.context, spec.catch_up) == (15 * SECOND, MINUTE, 2 * HOUR, 6 * HOUR)
    assert spec.prometheus.final_after == MINUTE
    assert spec.schedule.train == 3 * HOUR + 15 * MINUTE
    assert spec.store.keep.samples == 2 * DAY
    assert (spec.state_dir, spec.web.host, spec.web.port) == (Path("var"), "127.0.0.1", 9810)


@pytest.mark.parametrize("path", sorted(PIPELINES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_pipelines_that_ship_load(path: Path) -> None:
    assert load_pipeline(path).packs == ("dcgm", "node", "rdma", "storage", "training")


def test_the_demo_simulates_one_fault_of_each_kind_and_keeps_to_its_own_folder() -> None:
    spec = load_pipeline(PIPELINES / "demo.yaml")
    assert spec.simulate
    assert isinstance(spec.simulate.faults, tuple)
    assert (spec.simulate.seed, spec.simulate.nodes, len(spec.simulate.faults)) == (7, 32, 6)
    assert spec.state_dir == Path("var/demo")
    assert spec.jsonl and spec.jsonl.path == Path("var/demo/incidents.jsonl")


def test_every_pack_that_ships_can_be_named() -> None:
    assert set(pack_names()) >= {"dcgm", "node", "rdma", "storage", "training"}


def test_state_starts_at_the_working_directory_and_what_the_file_names_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "topology.csv").write_text("node,rack\n")
    path = tmp_path / "p.yaml"
    path.write_text(
        "cluster: prod-a\n"
        "packs: [dcgm]\n"
        "prometheus:\n"
        '  url: "https://127.0.0.1:9090"\n'
        "  basic_auth: {username: anomaly, password_file: secrets/pw}\n"
        "  tls_config: {ca_file: /etc/ca.pem}\n"
        "topology: {file: topology.csv}\n"
        'alertmanagers: [{url: "http://127.0.0.1:9093", authorization: {credentials_file: token}}]\n'
    )
    spec = load_pipeline(path)
    assert spec.prometheus and spec.prometheus.basic_auth and spec.topology
    assert spec.prometheus.basic_auth.password_file == tmp_path / "secrets/pw"
    assert spec.prometheus.tls_config.ca_file == Path("/etc/ca.pem")
    assert spec.topology.file == tmp_path / "topology.csv"
    assert spec.alertmanagers[0].authorization
    assert spec.alertmanagers[0].authorization.credentials_file == tmp_path / "token"
    assert spec.store.path == Path("var/anomaly.duckdb")


@pytest.mark.parametrize("factor", ['"1/15"', "0.0667"])
def test_time_scale_shortens_every_duration_but_time_outs_and_keeps_the_grid(factor: str) -> None:
    spec = spec_of(
        f'{SHORTEST}time_scale: {factor}\nalertmanagers: [{{url: "http://127.0.0.1:9093"}}]\n'
        "schedule: {collect: 15s, score: 15s}\n"
    )
    assert spec.prometheus
    assert (spec.step, spec.prometheus.query_offset, spec.schedule.collect) == (SECOND, 2 * SECOND, SECOND)
    assert spec.alertmanagers[0].lease == 4 * spec.alertmanagers[0].resend == 16 * SECOND
    assert (spec.prometheus.timeout, spec.alertmanagers[0].timeout) == (60 * SECOND, 10 * SECOND)
    assert spec.schedule.train == 3 * HOUR + 15 * MINUTE
    assert spec.scale(3 * MINUTE) == 12 * SECOND
    assert spec.scaled() is spec
    assert spec.dump_masked()["prometheus"]["step"] == "15s"


def test_scaling_never_makes_a_duration_vanish() -> None:
    spec = spec_of(f"{SHORTEST}time_scale: 0.01\n")
    assert (spec.scale(10), spec.scale(0)) == (1, 0)


def test_a_sub_second_step_is_for_scaled_tests_only() -> None:
    text = 'cluster: a\npacks: [dcgm]\nprometheus: {url: "http://h", step: 500ms}\n'
    assert mistakes(text) == ["prometheus.step: must be at least 1s; only tests with a time_scale go lower"]
    assert spec_of(f"{text}time_scale: 0.5\n").step == 250


def test_secrets_are_masked_whenever_a_spec_is_printed() -> None:
    spec = spec_of(
        "cluster: prod-a\n"
        "packs: [dcgm]\n"
        "prometheus:\n"
        '  url: "http://127.0.0.1:9090"\n'
        "  basic_auth: {username: anomaly, password: swordfish}\n"
        '  proxy_url: "http://me:swordfish@127.0.0.1:3128"\n'
        "  http_headers: {X-Key: {secrets: [swordfish]}}\n"
        "  params: {api_token: swordfish, dedup: 'true'}\n"
        'webhooks: [{url: "http://127.0.0.1/hook?token=swordfish"}]\n'
    )
    shown = spec.dump_masked()
    assert shown["prometheus"]["basic_auth"] == {"username": "anomaly", "password": "<secret>"}
    assert shown["prometheus"]["params"] == {"api_token": "<secret>", "dedup": "true"}
    assert shown["webhooks"][0]["url"] == "<secret>"
    for printed in (repr(spec), str(spec), repr(spec.prometheus), repr(spec.webhooks), repr(shown)):
        assert "swordfish" not in printed
    assert spec.prometheus and spec.prometheus.basic_auth and spec.prometheus.basic_auth.password
    assert spec.prometheus.basic_auth.password.get_secret_value() == "swordfish"


@pytest.mark.parametrize("text", [SHORTEST, SIMULATED, f'{SHORTEST}time_scale: "1/15"\nlog: {{level: debug}}\n'])
def test_what_is_printed_can_be_loaded_again(text: str) -> None:
    spec = spec_of(text)
    again = spec_of(written(spec.dump_masked()))
    assert again.dump_masked() == spec.dump_masked()


def written(data: Any) -> str:
    """Plain data as strict YAML: every text in quotes."""
    if isinstance(data, dict):
        return "{" + ", ".join(f'"{key}": {written(value)}' for key, value in data.items()) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(written(value) for value in data) + "]"
    return f'"{data}"' if isinstance(data, str) else str(data).lower()


def test_signals_stay_as_written_for_the_catalogue_and_know_their_lines() -> None:
    spec = spec_of(f"{SHORTEST}signals:\n  iteration_seconds:\n    query: train_step_seconds\n    bad: null\n")
    assert spec.signals == {"iteration_seconds": {"query": "train_step_seconds", "bad": None}}
    problem = spec.problem(("signals", "iteration_seconds", "bad"), "must be high, low, both or none")
    assert str(problem) == "pipelines/p.yaml:7: signals.iteration_seconds.bad: must be high, low, both or none"


def test_a_spec_cannot_be_changed() -> None:
    spec = spec_of(SHORTEST)
    with pytest.raises(ValueError, match="frozen"):
        spec.cluster = "other"


def test_what_is_allowed_but_odd_is_said() -> None:
    spec = spec_of(f"{SHORTEST}context: 1h\ncatch_up: 1h\nstore: {{keep: {{samples: 6h, rollups: 7d}}}}\n")
    assert [(problem.line, problem.key) for problem in spec.warnings] == [
        (6, "store.keep.samples"),
        (6, "store.keep.rollups"),
        (1, ""),
        (1, ""),
    ]


def test_all_misfits_between_parts_are_told_at_once() -> None:
    found = mistakes(
        f"{SHORTEST}context: 3d\ncatch_up: 4d\nschedule: {{deliver: 2m}}\n"
        'alertmanagers: [{url: "http://a"}, {url: "http://a/"}]\n'
    )
    assert [line.partition(":")[0] for line in found] == [
        "context", "catch_up", "schedule.deliver", "schedule.deliver", "alertmanagers[1].url",
    ]  # fmt: skip


def test_a_misspelt_source_is_not_also_a_missing_one() -> None:
    assert mistakes('cluster: a\npacks: [dcgm]\npromethus: {url: "http://h"}\n') == [
        "promethus: unknown key; did you mean prometheus?"
    ]


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://127.0.0.1:9090/", "http://127.0.0.1:9090"),
        ("https://thanos.example/prefix/", "https://thanos.example/prefix"),
        ("http://[::1]:9090", "http://[::1]:9090"),
    ],
)
def test_a_url_keeps_its_path_prefix_and_loses_its_last_slash(url: str, kept: str) -> None:
    spec = spec_of(f'cluster: a\npacks: [dcgm]\nprometheus: {{url: "{url}"}}\n')
    assert spec.prometheus and spec.prometheus.url == kept


@pytest.mark.parametrize(
    "url", ["ftp://h", "http://", "http://[::1", "http://h:port", "http://h/?a=1", "http://u@h", "h"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    assert len(mistakes(f'cluster: a\npacks: [dcgm]\nprometheus: {{url: "{url}"}}\n')) == 1


@pytest.mark.parametrize(("faults", "kept"), [("0", 0), ("5", 5), ("[gpu_lost, node_lost]", ("gpu_lost", "node_lost"))])
def test_faults_are_counted_or_named(faults: str, kept: object) -> None:
    spec = spec_of(f"cluster: a\npacks: [dcgm]\nsimulate: {{seed: 1, faults: {faults}, start: 2026-11-30T10:00:00Z}}\n")
    assert spec.simulate
    assert spec.simulate.faults == kept
    assert spec.simulate.start == 1_796_032_800_000


@pytest.mark.parametrize("faults", ["true", "-1", "gpu_lost", "[gpu_lost, gpu_lost]", "[1]", "1.5", '[""]'])
def test_other_faults_are_refused(faults: str) -> None:
    assert len(mistakes(f"cluster: a\npacks: [dcgm]\nsimulate: {{seed: 1, faults: {faults}}}\n")) == 1


@pytest.mark.parametrize(
    ("listen", "host", "port"), [("127.0.0.1:0", "127.0.0.1", 0), (":9810", "", 9810), ("[::1]:9810", "::1", 9810)]
)
def test_the_service_listens_where_told(listen: str, host: str, port: int) -> None:
    spec = spec_of(f'{SHORTEST}web: {{listen: "{listen}"}}\n')
    assert (spec.web.host, spec.web.port) == (host, port)
