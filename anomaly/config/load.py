"""From a pipeline file to a spec, or to every mistake in it at once."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from anomaly import strict_yaml
from anomaly.config.checks import SOURCES, oddities, source_misfit
from anomaly.config.packs import pack_names
from anomaly.config.pipeline import Origin, Pipeline
from anomaly.config.problems import explain, nearest
from anomaly.errors import Problem
from anomaly.strict_yaml import Document, KeyPath

Found = list[tuple[KeyPath, Problem]]


def load_pipeline(path: Path | str) -> Pipeline:
    """The validated spec of a pipeline file, `time_scale` applied.

    Paths to what the file names (topology, secrets) are relative to the file, state to the working directory.
    Raises ConfigError with every problem found, each with file, line, key and what would be right.
    """
    return pipeline_from(strict_yaml.read(Path(path)))


def pipeline_from(document: Document) -> Pipeline:
    """The spec in a document that has been read already. Raises as `load_pipeline`."""
    if not isinstance(document.data, dict):
        what = "must hold keys and values; the shortest pipeline has cluster, packs and prometheus"
        raise strict_yaml.failure(document.file, (*document.problems, document.problem((), what)))
    found: Found = []
    data = _without_empty(document.data, (), document, found)
    empty = {path for path, _ in found}
    found += _unknown_packs(data, document)
    if not any(get_close_matches(key, SOURCES, cutoff=0.7) for key in document.data if key not in SOURCES):
        found += [(path, document.problem(path, what)) for path, what in source_misfit(set(document.data))]
    spec: Pipeline | None = None
    try:
        spec = Pipeline.model_validate(data)
    except ValidationError as error:
        found += explain(error, document, Pipeline, told=document.suspect | empty)
    found += _missing_topology(data, document)
    problems = tuple(dict.fromkeys((*document.problems, *(problem for _, problem in found))))
    if spec is None or problems:
        raise strict_yaml.failure(document.file, problems)
    spec = _anchored(spec, Path(document.file).parent)
    spec._origin = Origin(document, oddities(spec, document))
    return spec.scaled()


def _without_empty(value: Any, path: KeyPath, document: Document, found: Found) -> Any:
    """The data without keys that have no value, each of which is a problem; signals judge their own entries."""
    if isinstance(value, dict):
        out = {}
        for key, item in value.items():
            here = (*path, key)
            if item is None and not (path[:1] == ("signals",) and len(path) > 1):
                found.append((here, document.problem(here, "has no value; give it one or remove the line")))
            else:
                out[key] = _without_empty(item, here, document, found)
        return out
    if isinstance(value, list):
        return [_without_empty(item, (*path, index), document, found) for index, item in enumerate(value)]
    return value


def _anchored(spec: Pipeline, folder: Path) -> Pipeline:
    """The spec with the paths of files that it names (topology, secrets) starting at the file's own folder."""
    update: dict[str, Any] = {
        "alertmanagers": tuple(manager.relative_to(folder) for manager in spec.alertmanagers),
        "webhooks": tuple(webhook.relative_to(folder) for webhook in spec.webhooks),
    }
    if spec.prometheus:
        update["prometheus"] = spec.prometheus.relative_to(folder)
    if spec.topology and spec.topology.file:
        update["topology"] = spec.topology.model_copy(update={"file": folder / spec.topology.file})
    return spec.model_copy(update=update)


def _unknown_packs(data: dict[str, Any], document: Document) -> Found:
    given, known = data.get("packs"), pack_names()
    if not isinstance(given, list) or not known:
        return []
    found: Found = []
    for index, name in enumerate(given):
        if isinstance(name, str) and name and name not in known:
            path: KeyPath = ("packs", index)
            hint = nearest(name, known) or f"; there are {', '.join(known)}"
            found.append((path, document.problem(path, f"no signal pack has this name{hint}")))
    return found


def _missing_topology(data: dict[str, Any], document: Document) -> Found:
    topology = data.get("topology")
    name = topology.get("file") if isinstance(topology, dict) else None
    if not isinstance(name, str) or not name.strip():
        return []
    file = Path(document.file).parent / name
    try:
        there = file.is_file()
    except OSError:  # a name longer than the file system takes
        there = False
    path: KeyPath = ("topology", "file")
    what = f"there is no file {file}; a relative path starts at the folder of this file"
    return [] if there else [(path, document.problem(path, what))]
