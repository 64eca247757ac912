"""One-shot collect, score and deliver over a fixed logical range, in lives that end by SIGKILL at a named point.

    python -m tests.jobs.kill_program FOLDER RECEIVER_URL '[["before_commit:tick", 2], …]'

Each pair is one life: a child process that kills itself when it comes to that point for the n-th time. Lives follow
each other on one store; a last one, without a kill, goes on to the end. Children are forks, so that ten of them take
no longer than one: nothing of the store is open in the parent. Says how each life ended, as a JSON list.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import requests

from anomaly.clock import MINUTE
from anomaly.deliver.entries import SinkRef
from anomaly.deliver.policy import FeedPolicy
from anomaly.deliver.sinks import AlertmanagerSink, WebhookSink
from anomaly.jobs.carry import Carried, Live, decode, encode
from anomaly.jobs.deliver import deliver
from anomaly.jobs.parts import Parts, Target, open_pipeline_store
from anomaly.pipeline import State
from anomaly.records import Query
from tests.jobs.parts import STEP, T0, at, collect_to, score_to, small_cluster

END = 60
EVERY = 5
"""Minutes of logical time."""

Hook = Callable[[str], None]


def killing(point: str, nth: int) -> Hook:
    seen = 0

    def hook(where: str) -> None:
        nonlocal seen
        seen += where == point
        if seen == nth and where == point:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


def receivers(url: str) -> list[Target]:
    """An Alertmanager and a webhook."""
    session = requests.Session()
    session.trust_env = False
    policy = FeedPolicy()
    return [
        Target(SinkRef("am", "alertmanager"), AlertmanagerSink(url, session, 5.0, policy), policy),
        Target(SinkRef("hook", "webhook"), WebhookSink(lambda: f"{url}/hook", session, 5.0), policy),
    ]


def live_once(parts: Parts, url: str, hook: Hook) -> None:
    """From wherever the last life ended to the end of the range."""
    targets = receivers(url)
    refs = [target.ref for target in targets]
    live = Live()
    with open_pipeline_store(parts.pipeline, hook) as store:
        done = store.scored_through()
        if done is not None:
            deliver(store, targets, done, hook)
        for end in range(at(EVERY), at(END) + 1, EVERY * MINUTE):
            if done is not None and end <= done:
                continue
            collect_to(parts, store, end)
            score_to(parts, store, end, live, refs)
            deliver(store, targets, end, hook)


def warm(parts: Parts) -> None:
    """What every child would do anew: imports that are lazy, the simulation, the codec of the state."""
    pa.array(["pyarrow imports pandas here"])
    decode(encode(Carried(State())))
    for each in parts.catalogue.signals.values():
        parts.source.pull(Query(each.name, each.promql(STEP), T0, at(END), each.native(STEP)))


def main() -> None:
    folder, url, plan = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    parts = small_cluster(folder, END)
    warm(parts)
    ends = []
    for point, nth in [*plan, ["never", 0]]:
        child = os.fork()
        if child == 0:
            try:
                live_once(parts, url, killing(point, nth))
            except BaseException:  # noqa: BLE001 - a child must not go on as a second parent
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        ends.append(os.waitstatus_to_exitcode(status))
    sys.stdout.write(json.dumps(ends))


if __name__ == "__main__":
    main()
