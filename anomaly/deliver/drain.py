"""Emptying the outbox into one sink: what waits first, then the leases that are due.

At least once: an entry is marked only after the sink took it, so a kill between the two sends it again. In order: a
sink that fails is left alone as a whole until its back-off is over, so nothing overtakes; where only the newest state
of a key counts, an older one is never sent after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from anomaly.clock import Ms
from anomaly.deliver.outbox import Outbox
from anomaly.deliver.policy import FeedPolicy
from anomaly.deliver.sinks import Sink
from anomaly.errors import AnomalyError, DeliveryRejected
from anomaly.records import OutboxEntry

Hooks = Callable[[str], None]
"""Called at named points, where tests kill the process. `after_post`: the sink has it, the outbox is not marked yet."""

_ANY_TIME: Ms = 253_402_300_799_000  # the end of year 9999


@dataclass(slots=True)
class DrainReport:
    """What one drain did, for metrics and the log. Counts are of outbox entries."""

    sink: str
    sent: int = 0
    superseded: int = 0
    """Never sent, because a newer state of the same alert was."""
    renewed: int = 0
    failed: int = 0
    """To be tried again, at `retry_at`."""
    rejected: list[tuple[int, str]] = field(default_factory=list)
    """Dead letters of this round: (seq, reason)."""
    retry_at: Ms | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Group:
    """One entry to send, and the older entries of its key that it makes unnecessary."""

    entry: OutboxEntry
    older: tuple[int, ...] = ()

    @property
    def seqs(self) -> tuple[int, ...]:
        return (*self.older, self.entry.seq)


def drain(
    outbox: Outbox,
    sink_name: str,
    sink: Sink,
    now: Ms,
    policy: FeedPolicy,
    *,
    jitter: float = 0.0,
    hooks: Hooks | None = None,
) -> DrainReport:
    """Send what waits for this sink at `now` (wall time), then renew its leases. Never raises a DeliveryError.

    A definite refusal splits the batch until the bad entry stands alone and becomes a dead letter, so its valid
    siblings still arrive. Anything else stops the round: the attempted entries wait `policy.wait(attempts, jitter)`.
    """
    report = DrainReport(sink_name)
    # All that is unsent, whatever its back-off: one entry that waits holds back those behind it.
    while waiting := outbox.pending(sink_name, _ANY_TIME, policy.limit):
        held = max(entry.next_attempt_at for entry in waiting)
        # (A wait longer than any we ask for means that the clock was set back.)
        if now < held <= now + policy.backoff_cap:
            report.retry_at = held
            return report
        groups = _newest(waiting) if sink.leased else [_Group(entry) for entry in waiting]
        if not _send(outbox, sink, groups, now, policy, jitter, hooks, report) or len(waiting) < policy.limit:
            break
    if sink.leased and not report.error:
        _renew(outbox, sink, now, policy, hooks, report)
    return report


def _newest(waiting: Sequence[OutboxEntry]) -> list[_Group]:
    """The newest entry of each key, in `seq` order."""
    by_key: dict[str, list[OutboxEntry]] = {}
    for entry in waiting:
        by_key.setdefault(entry.key, []).append(entry)
    groups = [_Group(same[-1], tuple(entry.seq for entry in same[:-1])) for same in by_key.values()]
    return sorted(groups, key=lambda group: group.entry.seq)


def _send(
    outbox: Outbox,
    sink: Sink,
    groups: Sequence[_Group],
    now: Ms,
    policy: FeedPolicy,
    jitter: float,
    hooks: Hooks | None,
    report: DrainReport,
) -> bool:
    """Send in batches and mark each as it goes. False where the sink could not be reached."""
    parts = _batches(groups, sink.batch)
    while parts:
        part = parts.pop(0)
        try:
            sink.send([group.entry for group in part], now)
        except DeliveryRejected as error:
            if len(part) > 1:
                parts[:0] = _batches(part, (len(part) + 1) // 2)
                continue
            outbox.mark_failed(part[0].seqs, now, None, str(error))
            report.rejected.append((part[0].entry.seq, str(error)))
            continue
        except AnomalyError as error:
            seqs = [seq for group in part for seq in group.seqs]
            attempts = 1 + max(group.entry.attempts for group in part)
            report.retry_at = now + policy.wait(attempts, jitter)
            report.error = str(error)
            report.failed += len(seqs)
            outbox.mark_failed(seqs, now, report.retry_at, str(error))
            return False
        if hooks is not None:
            hooks("after_post")
        outbox.mark_sent([seq for group in part for seq in group.seqs], now)
        report.sent += len(part)
        report.superseded += sum(len(group.older) for group in part)
    return True


def _renew(outbox: Outbox, sink: Sink, now: Ms, policy: FeedPolicy, hooks: Hooks | None, report: DrainReport) -> None:
    """Send again what the sink must not forget: firing alerts before their lease ends, resolved ones for a while.

    A failure here marks nothing: the entries were delivered once, and the next drain tries again.
    """
    live = sorted(outbox.live(report.sink, now, policy.resolved_retention), key=lambda entry: entry.seq)
    due = [group for group in _newest(live) if _is_due(group.entry, now, policy.resend)]
    parts = _batches(due, sink.batch)
    while parts:
        part = parts.pop(0)
        try:
            sink.send([group.entry for group in part], now)
        except DeliveryRejected as error:
            if len(part) > 1:
                parts[:0] = _batches(part, (len(part) + 1) // 2)
            else:
                report.rejected.append((part[0].entry.seq, str(error)))
            continue
        except AnomalyError as error:
            report.error = str(error)
            return
        if hooks is not None:
            hooks("after_renewal")
        outbox.mark_sent([group.entry.seq for group in part], now)
        report.renewed += len(part)


def _is_due(entry: OutboxEntry, now: Ms, resend: Ms) -> bool:
    """Last sent at least `resend` ago, or after `now`: a clock that was set back must not stop the renewals."""
    return entry.sent_at is None or not entry.sent_at <= now < entry.sent_at + resend


def _batches(groups: Sequence[_Group], size: int) -> list[list[_Group]]:
    return [list(groups[i : i + size]) for i in range(0, len(groups), size)]
