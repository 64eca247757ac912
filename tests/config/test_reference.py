"""What is written about the pipeline file is generated from what it really accepts."""

import json
import subprocess
import sys

import yaml

from anomaly.config.http import HttpConfig
from anomaly.config.load import pipeline_from
from anomaly.config.pipeline import Pipeline
from anomaly.config.problems import sections
from anomaly.config.reference import HTTP_MEANING, INTRODUCTION, http_keys, json_schema, render
from anomaly.strict_yaml import parse
from tests.config.test_pipeline import PIPELINES


def test_the_readme_of_the_pipelines_is_up_to_date() -> None:
    """If not: `python -m anomaly.config.reference > pipelines/README.md`."""
    assert (PIPELINES / "README.md").read_text(encoding="utf-8") == render()


def test_every_key_says_what_it_means() -> None:
    own = [
        (place, name)
        for place, section in sections(Pipeline)
        for name, field in section.model_fields.items()
        if name not in HttpConfig.model_fields and not field.description
    ]
    http = {section for _, section in sections(HttpConfig)}
    inside = {place for place, section in sections(Pipeline) if section in http}
    assert [(place, name) for place, name in own if place not in inside] == []
    assert {path for path, _, _ in http_keys()} == set(HTTP_MEANING)


def test_the_example_in_the_readme_is_a_pipeline() -> None:
    example = INTRODUCTION.split("```yaml\n")[1].split("```")[0]
    assert pipeline_from(parse(example.encode(), "README.md")).cluster == "prod-a"


def test_the_example_pipeline_shows_every_section_one_needs_to_know() -> None:
    text = (PIPELINES / "gpu-cluster.yaml").read_text(encoding="utf-8")
    later = {"simulate", "stored", "jobs", "context", "catch_up", "log", "time_scale"}
    assert {name for name in Pipeline.model_fields if f"{name}:" not in text} <= later


def test_the_schema_writes_defaults_as_a_file_does_and_allows_no_null() -> None:
    schema = json_schema()
    assert schema["required"] == ["cluster", "packs"]
    assert schema["$defs"]["Schedule"]["properties"]["collect"]["default"] == "1m"
    assert schema["$defs"]["Schedule"]["properties"]["train"]["default"] == "03:15"
    assert schema["properties"]["topology"] == {
        "$ref": "#/$defs/Topology",
        "description": "What nodes share; without it no shared cause but jobs is seen",
    }
    assert '"null"' not in json.dumps(schema)
    known = set(schema["properties"])
    for path in PIPELINES.glob("*.yaml"):
        assert set(yaml.safe_load(path.read_text(encoding="utf-8"))) <= known


def test_the_module_prints_both() -> None:
    module = [sys.executable, "-m", "anomaly.config.reference"]
    told = subprocess.run(module, capture_output=True, check=True)
    assert told.stdout.decode() == render()
    schema = subprocess.run([*module, "--schema"], capture_output=True, check=True)
    assert json.loads(schema.stdout) == json_schema()
