"""One-shot jobs over a fixed logical range, in lives that SIGKILL ends at any moment.

    python -m tests.jobs.random_kill_program ticks|house FOLDER RECEIVER_URL SEED KILLS SECONDS

`ticks` are collect, score, deliver and publish; `house` is train, publish and prune, on what `ticks` has left.

Every job opens the store anew, as cron would have it. Lives follow each other on the store in FOLDER, each killed
after a random time of at most SECONDS, until KILLS have struck or the range is done; a last one goes on to the end.
Children are forks: nothing of a store is open in the parent. Says, as JSON, how many kills struck and how many
seconds the last life took: without kills, what a whole one takes.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from anomaly.clock import MINUTE
from anomaly.jobs import models
from anomaly.jobs.carry import Live
from anomaly.jobs.deliver import deliver
from anomaly.jobs.parts import Parts, open_pipeline_store
from anomaly.jobs.publish import prune, publish
from anomaly.jobs.train import train
from tests.jobs.kill_program import END, EVERY, receivers, warm
from tests.jobs.parts import at, collect_to, score_to, small_cluster


def ticks(parts: Parts, url: str) -> None:
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


def house(parts: Parts, _url: str) -> None:
    """A model where there is none, then, two days later, what is too old goes."""
    pipeline = parts.pipeline
    later = at(END) + pipeline.store.keep.samples + EVERY * MINUTE
    if models.load(models.folder_of(parts.state_dir), parts.catalogue).model is None:
        with open_pipeline_store(pipeline) as store:
            told = train(parts, store, at(END))
        assert told.manifest is not None, told.words
    with open_pipeline_store(pipeline) as store:
        publish(store, pipeline, later)
    with open_pipeline_store(pipeline) as store:
        prune(store, pipeline, later)
        publish(store, pipeline, later)


LIVES = {"ticks": ticks, "house": house}


def born(live: Callable[[Parts, str], None], parts: Parts, url: str) -> int:
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
    live, folder, url = LIVES[sys.argv[1]], Path(sys.argv[2]), sys.argv[3]
    seed, kills, longest = int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
    rng = random.Random(seed)
    parts = small_cluster(folder, END)
    warm(parts)
    if live is house:
        import_module("sklearn.ensemble")
        import_module("skops.io")
    struck, alive = 0, True
    while alive and struck < kills:
        child = born(live, parts, url)
        time.sleep(rng.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        alive = ended(child) != 0
        struck += alive
    begun = time.monotonic()
    if alive:
        ended(born(live, parts, url))
    sys.stdout.write(json.dumps([struck, time.monotonic() - begun]))


if __name__ == "__main__":
    main()
