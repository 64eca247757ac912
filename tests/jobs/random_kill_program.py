"""One-shot collect, score, deliver and publish over a fixed logical range, in lives that SIGKILL ends at any moment.

    python -m tests.jobs.random_kill_program FOLDER RECEIVER_URL SEED KILLS

Every job opens the store anew, as cron would have it. The first life is undisturbed, in `FOLDER/calm`, and says how
long one takes; then lives follow each other on the store in `FOLDER/killed`, each killed after a random time, until
KILLS have struck or the range is done; a last one goes on to the end. Children are forks: nothing of a store is open
in the parent. Says how many kills struck, as a number.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from anomaly.clock import MINUTE
from anomaly.jobs.carry import Live
from anomaly.jobs.deliver import deliver
from anomaly.jobs.parts import Parts, open_pipeline_store
from anomaly.jobs.publish import publish
from tests.jobs.kill_program import END, EVERY, receivers, warm
from tests.jobs.parts import at, collect_to, score_to, small_cluster

SHARE = 1 / 6
"""The longest time to a kill, of what a whole undisturbed life takes."""


def live(parts: Parts, url: str) -> None:
    """From wherever the last life ended to the end of the range."""
    targets = receivers(url)
    refs = [target.ref for target in targets]
    pipeline = parts.pipeline
    with open_pipeline_store(pipeline) as store:
        done = store.scored_through()
        deliver(store, targets, done or at(0))
    for end in range(at(EVERY), at(END) + 1, EVERY * MINUTE):
        if done is not None and end < done:
            continue
        with open_pipeline_store(pipeline) as store:
            collect_to(parts, store, end)
        with open_pipeline_store(pipeline) as store:
            score_to(parts, store, end, Live(), refs)
        with open_pipeline_store(pipeline) as store:
            deliver(store, targets, end)
        with open_pipeline_store(pipeline) as store:
            publish(store, pipeline, end)


def born(parts: Parts, url: str) -> int:
    """A child that lives; its process id."""
    child = os.fork()
    if child == 0:
        try:
            live(parts, url)
        except BaseException:  # noqa: BLE001 - a child must not go on as a second parent
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return child


def ended(child: int) -> int:
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, -signal.SIGKILL):
        sys.exit(f"a life ended with {code}")
    return code


def main() -> None:
    folder, url, seed, kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rng = random.Random(seed)
    calm, killed = small_cluster(folder / "calm", END), small_cluster(folder / "killed", END)
    warm(calm)
    warm(killed)
    begun = time.monotonic()
    ended(born(calm, f"{url}/calm"))
    whole = time.monotonic() - begun

    struck, alive = 0, True
    while alive and struck < kills:
        child = born(killed, f"{url}/killed")
        time.sleep(rng.uniform(0, whole * SHARE))
        os.kill(child, signal.SIGKILL)
        alive = ended(child) != 0
        struck += alive
    if alive:
        ended(born(killed, f"{url}/killed"))
    sys.stdout.write(str(struck))


if __name__ == "__main__":
    main()
