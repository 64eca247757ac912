"""The feed's timing, in one checked record."""

from dataclasses import dataclass

from anomaly.clock import MINUTE, SECOND, Ms, format_duration
from anomaly.errors import ConfigError


@dataclass(frozen=True, slots=True)
class FeedPolicy:
    """How often, how long and how patiently. Durations in milliseconds.

    Prometheus' own client does the same: resend after a minute, a lease of four times that, resolved alerts re-sent
    for a quarter of an hour, at most 256 alerts in a request. A lease below four resends would resolve and re-fire an
    alert after one late round, so it is refused with ConfigError.
    """

    resend: Ms = MINUTE
    lease: Ms = 4 * MINUTE
    resolved_retention: Ms = 15 * MINUTE
    skew_margin: Ms = 30 * SECOND
    backoff_start: Ms = 5 * SECOND
    backoff_cap: Ms = MINUTE
    batch: int = 256
    limit: int = 1024
    """The most outbox entries read at once."""

    def __post_init__(self) -> None:
        if self.resend <= 0 or self.lease < 4 * self.resend:
            raise ConfigError(
                f"lease {format_duration(self.lease)} is shorter than four resends of {format_duration(self.resend)}, "
                "so one late round would resolve an alert that still fires",
                f"set lease to at least {format_duration(4 * max(self.resend, SECOND))} or resend more often",
            )
        if not 0 < self.backoff_start <= self.backoff_cap:
            raise ConfigError("back-off must start above zero and not above its cap", "set backoff_start ≤ backoff_cap")
        if self.skew_margin < 0 or self.resolved_retention < 0 or self.batch < 1 or self.limit < self.batch:
            raise ConfigError("a margin is negative or a batch is empty", "use batch ≥ 1, limit ≥ batch, margins ≥ 0")

    def scaled(self, factor: float) -> "FeedPolicy":
        """Every duration times `factor` (tests that run minutes in seconds)."""

        def times(duration: Ms) -> Ms:
            return max(1, round(duration * factor))

        resend = times(self.resend)
        return FeedPolicy(
            resend=resend,
            lease=max(times(self.lease), 4 * resend),
            resolved_retention=times(self.resolved_retention),
            skew_margin=times(self.skew_margin),
            backoff_start=times(self.backoff_start),
            backoff_cap=times(self.backoff_cap),
            batch=self.batch,
            limit=self.limit,
        )

    def wait(self, attempts: int, jitter: float) -> Ms:
        """How long to wait after failed attempt number `attempts` (from 1).

        Doubles from `backoff_start` up to `backoff_cap`; `jitter` in [0, 1] takes up to half of it away, so that
        several senders do not come back at the same moment.
        """
        full = min(self.backoff_cap, self.backoff_start << min(max(attempts, 1) - 1, 32))
        return max(1, round(full * (1 - jitter / 2)))
