"""Deliver: empty the outbox into every sink, each for itself; one that fails or hangs never holds up another."""

import threading
from collections.abc import Sequence

from anomaly.clock import Ms
from anomaly.deliver.drain import DrainReport, drain
from anomaly.jobs.parts import Target
from anomaly.store.connect import Hooks, ignore
from anomaly.store.store import Store


def deliver(
    store: Store, targets: Sequence[Target], now: Ms, hooks: Hooks = ignore, *, jitter: float = 0.0
) -> list[DrainReport]:
    """Send what waits at `now` (wall time) and renew what fires; one report a sink, in the order of `targets`.

    A sink that cannot be reached says so in its report. What is not about delivery (the store cannot be written) is
    raised after every sink had its turn. `jitter` in [0, 1] spreads the next tries of several senders.
    """
    reports: dict[int, DrainReport] = {}
    errors: list[Exception] = []

    def serve(place: int) -> None:
        target = targets[place]
        try:
            reports[place] = drain(store, target.ref.name, target.sink, now, target.policy, jitter=jitter, hooks=hooks)
        except Exception as error:  # noqa: BLE001 - the others have their turn first
            errors.append(error)

    # Not a pool: its threads would hold up the end of the process while a receiver hangs.
    others = [
        threading.Thread(target=serve, args=(place,), name=f"deliver-{place}", daemon=True)
        for place in range(1, len(targets))
    ]
    for thread in others:
        thread.start()
    if targets:
        serve(0)
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
    return [reports[place] for place in sorted(reports)]
