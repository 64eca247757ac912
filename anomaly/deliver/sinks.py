"""The receivers. Each sends one request's worth of outbox entries and says in two errors what went wrong.

`DeliveryUnavailable`: nothing about the payload, try the same later. `DeliveryRejected`: this payload, never.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

from anomaly.clock import Ms
from anomaly.deliver.payload import from_body
from anomaly.deliver.policy import FeedPolicy
from anomaly.deliver.wire import encode, wire_alerts
from anomaly.errors import DeliveryRejected, DeliveryUnavailable
from anomaly.records import OutboxEntry

if TYPE_CHECKING:
    import requests

Timeout = float | tuple[float, float]
"""Seconds, or (connect, read) seconds, as requests takes it."""

# Only these speak about the payload. 401, 403, 404, 405 … speak about credentials and addresses, which an operator
# puts right while the alerts wait: they must not turn every waiting alert into a dead letter.
_PAYLOAD_REFUSED = frozenset({400, 413, 422})

_TAIL_BYTES = 1 << 20


class Sink(Protocol):
    """Somewhere that outbox entries go."""

    @property
    def batch(self) -> int:
        """The most entries one `send` takes."""
        ...

    @property
    def leased(self) -> bool:
        """True where only the newest entry of a key counts and has to be renewed; False where every entry is an
        event of its own and their order matters."""
        ...

    def send(self, entries: Sequence[OutboxEntry], now: Ms) -> None:
        """Deliver all of them or raise a DeliveryError."""
        ...


class AlertmanagerSink:
    """One Alertmanager. Several of a cluster are several sinks: each gets everything, never through a balancer."""

    leased = True

    def __init__(self, url: str, session: "requests.Session", timeout: Timeout = 10.0,
                 policy: FeedPolicy | None = None) -> None:  # fmt: skip
        self.url = f"{url.rstrip('/')}/api/v2/alerts"
        self.session = session
        self.timeout = timeout
        self.policy = policy or FeedPolicy()

    @property
    def batch(self) -> int:
        return self.policy.batch

    def send(self, entries: Sequence[OutboxEntry], now: Ms) -> None:
        alerts = wire_alerts(
            (from_body(entry.body) for entry in entries),
            now=now,
            lease=self.policy.lease,
            skew_margin=self.policy.skew_margin,
        )
        _post(self.session, self.url, encode(alerts), {}, self.timeout, masked(self.url))


class WebhookSink:
    """A URL that gets each incident's JSON line as one POST, with the entry's key as `Idempotency-Key`.

    `url` is asked anew for every send: it may stand in a file that changes.
    """

    leased = False
    batch = 1

    def __init__(self, url: Callable[[], str], session: "requests.Session", timeout: Timeout = 10.0) -> None:
        self.url = url
        self.session = session
        self.timeout = timeout

    def send(self, entries: Sequence[OutboxEntry], now: Ms) -> None:
        url = self.url()
        for entry in entries:
            # The body may hold any text, so it travels as UTF-8; a header may not, and event keys are ASCII.
            body = entry.body.encode("utf-8", "replace")
            _post(self.session, url, body, {"Idempotency-Key": entry.key}, self.timeout, _host(url))


class JsonLinesSink:
    """A file that incidents are appended to, one JSON line each. Holds no file open, so it may be rotated.

    Every line is one write, on disk before `send` returns. A line that a kill tore is removed at the next send (its
    entry was not marked, so it comes again); a line that is there already is not written twice.
    """

    leased = False
    batch = 256

    def __init__(self, path: Path) -> None:
        self.path = path

    def send(self, entries: Sequence[OutboxEntry], now: Ms) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                written = _mend_and_read_tail(descriptor)
                for entry in entries:
                    line = entry.body.encode("utf-8", "replace") + b"\n"
                    if line in written:
                        continue
                    written.add(line)
                    _write_all(descriptor, line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise DeliveryUnavailable(
                f"cannot append to {self.path}: {error.strerror or error}", "free space or correct the path"
            ) from error


SinkKind = Literal["alertmanager", "jsonl", "webhook"]


def sink_name(kind: SinkKind, target: str) -> str:
    """A sink's name in the outbox: stable over restarts and reordering, without credentials.

    A webhook's path and query often are the credential, so only its host shows, and a digest tells two apart.
    """
    if kind == "webhook":
        return f"webhook:{_host(target)}#{hashlib.sha256(target.encode()).hexdigest()[:8]}"
    return f"{kind}:{masked(target)}"


def _post(
    session: "requests.Session", url: str, body: bytes, headers: dict[str, str], timeout: Timeout, where: str
) -> None:
    """POST JSON; return on any 2xx, raise a DeliveryError otherwise. `where` is the URL as it may be shown."""
    import requests

    try:
        response = session.post(
            url, data=body, headers={"Content-Type": "application/json", **headers}, timeout=timeout
        )
    except requests.Timeout as error:
        raise DeliveryUnavailable(f"{where} did not answer in time", "it is tried again by itself") from error
    except OSError as error:  # every requests error is one, and so is a credentials file that cannot be read
        why = _reason(error)
        raise DeliveryUnavailable(f"{where} cannot be reached: {why}", "check the URL and the network") from error
    status = response.status_code
    said = " ".join(response.text[:200].split())
    if response.request.method != "POST":
        # A 301, 302 or 303 turns the POST into a GET, whose 200 would pass for a delivery.
        raise DeliveryUnavailable(f"{where} redirects to {_host(response.url)}", "put that address into the URL")
    if 200 <= status < 300:
        return
    if status in _PAYLOAD_REFUSED:
        raise DeliveryRejected(f"{where} refused the payload with {status}: {said}", "see the dead letters")
    waits = status == 429 or status >= 500
    next_step = "it is tried again by itself" if waits else "check the URL, its path prefix and the credentials"
    raise DeliveryUnavailable(f"{where} answered {status}: {said}", next_step)


def masked(url: str) -> str:
    """The URL without user and password."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _reason(error: OSError) -> str:
    cause: BaseException = error
    while cause.__cause__ is not None or cause.__context__ is not None:
        cause = cause.__cause__ or cause.__context__ or cause
    return str(cause) or type(cause).__name__


def _write_all(descriptor: int, line: bytes) -> None:
    """One write where the system takes it whole (it does, short of a full disk or a signal)."""
    done = os.write(descriptor, line)
    while done < len(line):
        done += os.write(descriptor, line[done:])


def _mend_and_read_tail(descriptor: int) -> set[bytes]:
    """The lines at the end of the file, after completing or removing a last line that has no newline."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    start = max(0, size - _TAIL_BYTES)
    tail = os.pread(descriptor, size - start, start)
    body, newline, torn = tail.rpartition(b"\n")
    if torn:
        try:
            json.loads(torn)
        except ValueError:
            if newline or start == 0:
                os.ftruncate(descriptor, size - len(torn))
            else:  # no newline in sight: not a line of ours, so it is closed rather than cut
                os.write(descriptor, b"\n")
        else:
            os.write(descriptor, b"\n")
            body = tail
    lines = body.split(b"\n")
    return {line + b"\n" for line in (lines[1:] if start else lines)}
