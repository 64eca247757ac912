"""The outbox that delivery needs: a protocol, and an in-memory one that keeps its laws (demo, backtest, tests)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from anomaly.clock import Ms
from anomaly.records import OutboxEntry


class Outbox(Protocol):
    """What waits for delivery and what was delivered. `seq` rises with every entry; each call is one transaction."""

    def pending(self, sink: str, now: Ms, limit: int, /) -> list[OutboxEntry]:
        """Unsent entries of the sink with `next_attempt_at` ≤ now, dead letters left out, lowest `seq` first."""
        ...

    def mark_sent(self, seqs: Sequence[int], now: Ms, /) -> None:
        """The sink has these; renews the moment of those sent before."""
        ...

    def mark_failed(self, seqs: Sequence[int], now: Ms, next_attempt_at: Ms | None, error: str, /) -> None:
        """One more attempt failed; without a next one they are dead letters."""
        ...

    def live(self, sink: str, now: Ms, resolved_retention: Ms, /) -> list[OutboxEntry]:
        """The newest entry of each key, where that one was sent and still matters: it fires, or it was resolved less
        than `resolved_retention` ago. A key whose newest entry is unsent or a dead letter is not live."""
        ...


class MemoryOutbox:
    """An outbox in a dictionary. `errors` keeps the last error of each entry, `dead` the dead letters."""

    def __init__(self) -> None:
        self.entries: dict[int, OutboxEntry] = {}
        self.errors: dict[int, str] = {}
        self.dead: set[int] = set()

    def enqueue(self, entries: Iterable[OutboxEntry]) -> list[int]:
        """Append entries in order; the `seq` each got."""
        seqs = []
        for entry in entries:
            seqs.append(len(self.entries) + 1)
            self.entries[seqs[-1]] = replace(entry, seq=seqs[-1])
        return seqs

    def pending(self, sink: str, now: Ms, limit: int, /) -> list[OutboxEntry]:
        due = [
            entry
            for entry in self.entries.values()
            if entry.sink == sink
            and entry.sent_at is None
            and entry.next_attempt_at <= now
            and entry.seq not in self.dead
        ]
        return due[:limit]

    def mark_sent(self, seqs: Sequence[int], now: Ms, /) -> None:
        for seq in seqs:
            self.entries[seq] = replace(self.entries[seq], sent_at=now)

    def mark_failed(self, seqs: Sequence[int], now: Ms, next_attempt_at: Ms | None, error: str, /) -> None:
        for seq in seqs:
            entry = self.entries[seq]
            when = entry.next_attempt_at if next_attempt_at is None else next_attempt_at
            self.entries[seq] = replace(entry, attempts=entry.attempts + 1, next_attempt_at=when)
            self.errors[seq] = error
            if next_attempt_at is None:
                self.dead.add(seq)

    def live(self, sink: str, now: Ms, resolved_retention: Ms, /) -> list[OutboxEntry]:
        newest = {entry.key: entry for entry in self.entries.values() if entry.sink == sink}
        return [
            entry
            for entry in newest.values()
            if entry.sent_at is not None and (entry.resolved_at is None or now - entry.resolved_at < resolved_retention)
        ]
