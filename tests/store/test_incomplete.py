"""Where readings were incomplete: noted with the samples, by the samples' rules."""

from pathlib import Path

from anomaly.clock import Ms
from anomaly.store import CollectedChunk, SignalChunk, Store, open_store
from tests.store.parts import STEP, T0, samples

WHY = ("a store did not answer",)


def put(store: Store, first: int, last: int, *why: str, scored: Ms = 0, signal: str = "up") -> None:
    """A reading of the steps `first` to `last` without any sample, incomplete if there is a `why`."""
    start, end = T0 + first * STEP, T0 + last * STEP
    store.commit_chunk(CollectedChunk(start, end, (SignalChunk(signal, start, end, samples([]), why),), (), scored))


def noted(store: Store, signal: str = "up") -> list[tuple[float, float]]:
    """Noted ranges, in steps."""
    found = store.incomplete(0, 2**62).get(signal, ())
    return [((first - T0) / STEP, (last - T0) / STEP) for first, last in found]


def test_the_newest_reading_of_a_range_counts() -> None:
    with open_store(Path("unused"), memory=True) as store:
        put(store, 0, 9, *WHY)
        put(store, 20, 29)
        assert noted(store) == [(0, 9)]
        put(store, 4, 6)
        ms = 1 / STEP
        assert noted(store) == [(0, 4 - ms), (6 + ms, 9)]
        put(store, 0, 29)
        assert noted(store) == []
        put(store, 5, 6, *WHY)
        assert noted(store, "gpu_temp") == []


def test_what_has_been_scored_keeps_its_note() -> None:
    with open_store(Path("unused"), memory=True) as store:
        put(store, 0, 9, *WHY)
        put(store, 0, 9, scored=T0 + 5 * STEP)
        assert noted(store) == [(0, 5)]
        put(store, 0, 4, *WHY, scored=T0 + 5 * STEP)
        assert noted(store) == [(0, 5)]


def test_only_what_lies_in_the_range_asked_for() -> None:
    with open_store(Path("unused"), memory=True) as store:
        put(store, 0, 9, *WHY)
        put(store, 0, 3, *WHY, signal="gpu_temp")
        assert store.incomplete(T0 + 5 * STEP, T0 + 7 * STEP) == {"up": ((T0 + 5 * STEP, T0 + 7 * STEP),)}
