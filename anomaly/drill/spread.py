"""Several drills at once, in processes of their own: each is independent of the others."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path

from anomaly.drill.run import Drilled, drill


def drill_all(
    names: Sequence[str],
    seed: int,
    effect: float | None = None,
    *,
    export: Path | None = None,
    plot: Path | None = None,
    workers: int = 2,
    done: Callable[[int], None] = lambda _count: None,
) -> list[Drilled]:
    """All drills in the order of `names`, the same whatever the number of workers. `done` is told how many are over."""
    if workers < 2 or len(names) < 2:
        out = []
        for name in names:
            out.append(drill(name, seed, effect, export, plot))
            done(len(out))
        return out
    # Not forked: the parent may have threads.
    with ProcessPoolExecutor(min(workers, len(names)), mp_context=get_context("spawn"), initializer=_bound) as pool:
        found: dict[int, Drilled] = {}
        try:
            with _ctrl_c_waits():
                running = {pool.submit(drill, name, seed, effect, export, plot): at for at, name in enumerate(names)}
            for future in as_completed(running):
                found[running[future]] = future.result()
                done(len(found))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [found[at] for at in range(len(names))]


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Processes started meanwhile begin with Ctrl-C held back: in their imports it would end in a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _bound() -> None:
    """A worker ends at Ctrl-C without a word and never outlives its parent: a pool's workers wait for work for ever."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
