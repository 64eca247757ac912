"""Publish and prune: results after every tick, closed hours for readers, and what is too old goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from anomaly.clock import Ms
from anomaly.config.pipeline import Pipeline
from anomaly.jobs.evidence import freeze_evidence
from anomaly.jobs.parts import PUBLISHED
from anomaly.store.files import sweep
from anomaly.store.retention import Keep, prune_published
from anomaly.store.store import Store


@dataclass(frozen=True, slots=True)
class Published:
    """What one publication brought: files of results replaced, files of closed hours added, roll-ups computed."""

    results: tuple[Path, ...] = ()
    hours: tuple[Path, ...] = ()
    rollups: int = 0


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went: rows by table, directories of published files."""

    rows: Mapping[str, int] = field(default_factory=dict)
    directories: int = 0


def published_dir(pipeline: Pipeline) -> Path:
    """Where readers find what is published."""
    return pipeline.state_dir / PUBLISHED


def publish(store: Store, pipeline: Pipeline, now: Ms) -> Published:
    """Everything there is to publish, at once, for commands that run once. Nothing is pruned."""
    clean_up(pipeline)
    freeze_evidence(store)
    results = publish_results(store, pipeline)
    hours = publish_hours(store, pipeline, now)
    return Published(results.results, hours.hours, hours.rollups)


def publish_results(store: Store, pipeline: Pipeline) -> Published:
    """The result tables (incidents, findings, scores, runs, coverage), as they stand after a tick."""
    return Published(results=tuple(store.publish(published_dir(pipeline))))


def publish_hours(store: Store, pipeline: Pipeline, now: Ms) -> Published:
    """Roll-ups of hours that have closed, then samples and roll-ups of closed hours as files that never change."""
    rollups = store.roll_up(now)
    return Published(hours=tuple(store.publish_closed_hours(published_dir(pipeline), now)), rollups=rollups)


def prune(store: Store, pipeline: Pipeline, now: Ms) -> Pruned:
    """Remove what is older than `store.keep`, in the database and among the published files.

    To be called after `publish_hours`, since samples go that may not be in a file yet, and never while a collect runs,
    since a series is registered before its first sample is stored.
    """
    keep = pipeline.store.keep
    limits = Keep(samples=keep.samples, archive=keep.archive, rollups=keep.rollups, findings=keep.findings)
    rows = store.prune(now, limits)
    return Pruned(rows, prune_published(published_dir(pipeline), now, limits))


def clean_up(pipeline: Pipeline) -> int:
    """Remove what killed writers left half written; for the process that owns the store, before it publishes."""
    directory = published_dir(pipeline)
    return sweep(directory) if directory.is_dir() else 0
