"""Doctor: what stands in the way of a service, asked in the order in which one thing needs another."""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anomaly.clock import MINUTE, SECOND, Clock, Ms, format_time
from anomaly.config.http import HttpConfig
from anomaly.config.load import load_pipeline
from anomaly.config.pipeline import Pipeline
from anomaly.config.session import session_for
from anomaly.errors import AnomalyError, ConfigError, StoreError
from anomaly.jobs.parts import INBOX, PUBLISHED
from anomaly.store.health import NEWEST_VERSION, Health, look_at
from anomaly.store.published import manifest

Verdict = Literal["ok", "problem", "skipped"]

STALE: Ms = 10 * MINUTE
"""Published data, and notes in the inbox, are not older where a service runs."""

CLOCK_OFF: Ms = 5 * SECOND
LEAST_FREE_BYTES, LEAST_FREE_SHARE = 1 << 30, 0.05
PATIENCE_SECONDS = (3.0, 10.0)


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer; a problem has a next step."""

    name: str
    verdict: Verdict
    said: str
    next_step: str = ""


def examine(file: Path | None, state: Path, clock: Clock) -> Iterator[Check]:
    """The checks one after the other, each as soon as it is done. Reads and asks only.

    With a pipeline file, its state directory and everything that it talks to; without one, the state directory alone.
    """
    pipeline: Pipeline | None = None
    if file is not None:
        try:
            pipeline = load_pipeline(file)
            warned = f"; warning: {'; '.join(map(str, pipeline.warnings))}" if pipeline.warnings else ""
            yield Check("pipeline file", "ok", f"{file} is valid{warned}")
        except ConfigError as error:
            yield Check("pipeline file", "problem", _flat(error), "correct the file; `anomaly check` shows it again")
    path = pipeline.store.path if pipeline else state / "anomaly.duckdb"
    directory = path.parent
    yield _directory(directory)
    health = look_at(path)
    yield _permissions(path)
    yield _database(path, health)
    yield _published(directory / PUBLISHED, clock())
    yield _inbox(directory / INBOX, clock())
    yield _disk(directory)
    door = _door(pipeline, health) if pipeline else Check("service", "skipped", "give a PIPELINE to ask it")
    yield _outbox(pipeline, health, door.verdict == "ok")
    yield door
    if pipeline is None:
        yield _clock(directory / PUBLISHED, clock())
        return
    yield from _prometheus(pipeline, clock)
    for manager in pipeline.alertmanagers:
        yield _alertmanager(manager.url, manager)


# ── on this machine ───────────────────────────────────────────────────────────────────────────────────


def _directory(directory: Path) -> Check:
    name = "state directory"
    if not directory.exists():
        return Check(name, "problem", f"{directory} is not there", "name it with --state, or start the service once")
    if not directory.is_dir():
        return Check(name, "problem", f"{directory} is not a directory", "give store.path a directory of its own")
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return Check(name, "problem", f"{directory} cannot be written by this user", "run as the service's user")
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o022:
        return Check(name, "problem", f"{directory} may be written by others ({mode:04o})", f"chmod 700 {directory}")
    return Check(name, "ok", f"{directory}, mode {mode:04o}")


def _permissions(path: Path) -> Check:
    name = "permissions"
    if not path.exists():
        return Check(name, "skipped", "there is no database yet")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        said = f"{path} is open to others ({mode:04o}); it holds names of nodes and jobs"
        return Check(name, "problem", said, f"chmod 600 {path}")
    return Check(name, "ok", f"{path}, mode {mode:04o}")


def _database(path: Path, health: Health) -> Check:
    name = "database"
    if not health.there:
        return Check(name, "problem", f"{path} is not there", "start the service (`anomaly run`); it is made then")
    if health.locked and health.trouble is not None:
        return Check(name, "ok", f"{health.trouble.what}, as it is while a service runs")
    if health.trouble is not None:
        return Check(name, "problem", health.trouble.what, health.trouble.next_step)
    if not health.version:
        return Check(name, "problem", f"{path} holds nothing yet", "start the service (`anomaly run`)")
    if health.version > NEWEST_VERSION:
        said = f"{path} has schema version {health.version}, this program knows {NEWEST_VERSION}"
        return Check(name, "problem", said, "use the newer program")
    older = "" if health.version == NEWEST_VERSION else f" (brought to {NEWEST_VERSION} at the next start)"
    return Check(name, "ok", f"{path}, schema version {health.version}{older}, in use by nobody")


def _published(directory: Path, now: Ms) -> Check:
    name = "published data"
    try:
        through = manifest(directory)["scored_through"]
    except (StoreError, ValueError, KeyError) as error:
        step = error.next_step if isinstance(error, StoreError) else "remove it; it is published anew"
        said = error.what if isinstance(error, StoreError) else f"{directory} is damaged"
        return Check(name, "problem", said, step)
    if through is None:
        return Check(name, "problem", "nothing has been scored yet", "wait for the first tick; see the service's log")
    age = now - through
    if age > STALE:
        step = "start the service, or look in its log for what fails"
        return Check(name, "problem", f"scored up to {format_time(through)}, {_span(age)} ago", step)
    return Check(name, "ok", f"scored up to {format_time(through)}, {_span(age)} ago")


def _inbox(directory: Path, now: Ms) -> Check:
    name = "inbox"
    waiting = sorted(directory.glob("*.json")) if directory.is_dir() else []
    bad = sorted(directory.glob("*.bad")) if directory.is_dir() else []
    if bad:
        said = f"{len(bad)} notes could not be read, such as {bad[0].name}"
        return Check(name, "problem", said, f"look at the .bad files in {directory} and remove them")
    if not waiting:
        return Check(name, "ok", "empty")
    age = now - round(waiting[0].stat().st_mtime * 1000)
    said = f"{len(waiting)} waiting, the oldest for {_span(age)}"
    if age > STALE:
        return Check(name, "problem", said, "nobody takes them in: start the service or run `anomaly score`")
    return Check(name, "ok", said)


def _disk(directory: Path) -> Check:
    name = "disk space"
    if not directory.exists():
        return Check(name, "skipped", f"{directory} is not there")
    usage = shutil.disk_usage(directory)
    said = f"{usage.free / (1 << 30):.1f} GiB free of {usage.total / (1 << 30):.1f}"
    if usage.free < LEAST_FREE_BYTES or usage.free < LEAST_FREE_SHARE * usage.total:
        return Check(name, "problem", said, "make room, or lower store.keep")
    return Check(name, "ok", said)


def _clock(published: Path, now: Ms) -> Check:
    try:
        through = manifest(published)["scored_through"] or 0
    except (StoreError, ValueError, KeyError):
        through = 0
    if through > now + MINUTE:
        said = f"data reaches to {format_time(through)}, but it is {format_time(now)} here"
        return Check("clock", "problem", said, "set this machine's clock (NTP)")
    return Check("clock", "ok", f"{format_time(now - now % 1000)}; give a PIPELINE to compare it with Prometheus'")


# ── who is talked to ──────────────────────────────────────────────────────────────────────────────────


def _outbox(pipeline: Pipeline | None, health: Health, answers: bool) -> Check:
    name = "outbox"
    if health.dead:
        said = "; ".join(f"{sink}: {what}" for sink, what in health.dead.items())
        return Check(name, "problem", said, "see what the receiver did not like; these are not sent again")
    if health.locked:
        waiting = _waiting_by_metrics(pipeline) if pipeline and answers else None
        if waiting is None:
            return Check(name, "skipped", "the service has it; ask its /metrics (anomaly_outbox_pending)")
        return _waiting(name, waiting)
    if health.trouble is not None or not health.version:
        return Check(name, "skipped", "the database cannot be read")
    return _waiting(name, sum(health.waiting.values()), "".join(f", {k}: {v}" for k, v in health.waiting.items()))


def _waiting(name: str, count: int, detail: str = "") -> Check:
    if count > 100:
        step = "see below whether the receivers answer; nothing is lost meanwhile"
        return Check(name, "problem", f"{count} entries wait to be sent{detail}", step)
    return Check(name, "ok", f"{count} entries wait to be sent{detail}" if count else "nothing waits to be sent")


def _waiting_by_metrics(pipeline: Pipeline) -> int | None:
    from prometheus_client.parser import text_string_to_metric_families

    answer = _get(f"{_service(pipeline)}/metrics", HttpConfig())
    if isinstance(answer, str) or answer[0] != 200:
        return None
    samples = [sample for family in text_string_to_metric_families(answer[1]) for sample in family.samples]
    return round(sum(sample.value for sample in samples if sample.name == "anomaly_outbox_pending"))


def _service(pipeline: Pipeline) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(pipeline.web.host, pipeline.web.host)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{pipeline.web.port}"


def _door(pipeline: Pipeline, health: Health) -> Check:
    name = "service"
    if not pipeline.web.port:
        return Check(name, "skipped", "web.listen has port 0: its log says where it listens")
    answer = _get(f"{_service(pipeline)}/-/ready", HttpConfig())
    if isinstance(answer, str):
        if health.locked:
            step = "see whether it hangs, or whether it runs with another web.listen"
            return Check(name, "problem", f"somebody has the database, but {answer}", step)
        return Check(name, "skipped", f"not running here: {answer}")
    status, body = answer
    if status == 200:
        return Check(name, "ok", f"ready at {_service(pipeline)}")
    return Check(name, "problem", f"{_service(pipeline)} answers {status}: {_first_line(body)}", "see its log")


def _prometheus(pipeline: Pipeline, clock: Clock) -> Iterator[Check]:
    from contextlib import suppress

    from anomaly.source.prometheus import PrometheusSource
    from anomaly.source.refusals import without_userinfo

    settings = pipeline.prometheus
    if settings is None:
        yield Check("Prometheus", "skipped", "this pipeline has another source")
        yield _clock(pipeline.state_dir / PUBLISHED, clock())
        return
    with session_for(settings, retries=0) as session:
        where = without_userinfo(settings.url)
        try:
            source = PrometheusSource(settings.url, session, timeout_seconds=PATIENCE_SECONDS)
            before = clock()
            (theirs, *_) = source.instant("time()").values.tolist()
            after = clock()
        except (AnomalyError, ValueError) as error:
            said = error.what if isinstance(error, AnomalyError) else f"{where} does not say what time it is"
            step = error.next_step if isinstance(error, AnomalyError) else ""
            yield Check("Prometheus", "problem", said, step or "check prometheus.url")
            yield Check("clock", "skipped", "there is no Prometheus to compare it with")
            return
        version = ""
        with suppress(AnomalyError):  # some backends know no build information
            version = source.buildinfo().get("version", "")
        yield Check("Prometheus", "ok", f"{where} answers{f', version {version}' if version else ''}")
        off = max(round(theirs * 1000) - after, before - round(theirs * 1000), 0)
        if off > CLOCK_OFF:
            said = f"{_span(off)} apart from Prometheus': here it is {format_time(after)}"
            yield Check("clock", "problem", said, "set both clocks (NTP): onsets and leases depend on them")
        else:
            yield Check("clock", "ok", "agrees with Prometheus'")


def _alertmanager(url: str, http: HttpConfig) -> Check:
    import json

    from anomaly.deliver.sinks import masked

    name, where = "Alertmanager", masked(url)
    answer = _get(f"{url.rstrip('/')}/api/v2/status", http)
    if isinstance(answer, str):
        return Check(name, "problem", answer, "check that it runs and that its URL is right; alerts wait meanwhile")
    status, body = answer
    if status != 200:
        step = "check the URL, its path prefix and the credentials"
        return Check(name, "problem", f"{where} answers {status}: {_first_line(body)}", step)
    try:
        version = json.loads(body)["versionInfo"]["version"]
    except (ValueError, KeyError, TypeError):
        return Check(name, "problem", f"{where} does not answer as an Alertmanager does", "check its URL")
    return Check(name, "ok", f"{where} answers, version {version}")


def _get(url: str, http: HttpConfig) -> tuple[int, str] | str:
    """(status, body) of an answer, or in words why there is none."""
    import requests

    from anomaly.errors import SourceError
    from anomaly.source.refusals import translated

    try:
        with translated(url), session_for(http, retries=0) as session:
            response = session.get(url, timeout=PATIENCE_SECONDS)
            return response.status_code, response.text
    except (SourceError, ConfigError) as error:
        return error.what
    except requests.RequestException:
        return "the connection broke"


def _first_line(body: str) -> str:
    first = body.strip().splitlines()[0] if body.strip() else ""
    return "" if first.startswith("<") else first[:200]


def _flat(error: ConfigError) -> str:
    return f"{error.what} {'; '.join(map(str, error.problems))}".strip()


def _span(duration: Ms) -> str:
    from anomaly.clock import format_duration

    rounded = duration // SECOND * SECOND
    return format_duration(rounded - rounded % MINUTE if rounded >= 10 * MINUTE else rounded)
