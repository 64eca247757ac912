"""The outbox: at least once, in order for each key, nothing forgotten that still fires."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.store import Keep, Store, TickRecord, open_store
from tests.store.parts import T0, entry

HOUR = 3_600_000


def test_entries_of_a_tick_are_numbered_in_order_and_belong_to_their_sink(store: Store) -> None:
    store.commit_tick(TickRecord(T0, "", outbox=[entry(key="a"), entry("jsonl", "b"), entry(key="c")]))
    assert [(one.seq, one.key) for one in store.pending("am", T0)] == [(1, "a"), (3, "c")]
    assert [one.seq for one in store.pending("jsonl", T0)] == [2]
    assert [one.seq for one in store.pending("am", T0, limit=1)] == [1]
    assert store.backlog() == {"am": 2, "jsonl": 1}


def test_what_is_sent_is_not_pending_and_lives_while_it_fires(store: Store) -> None:
    store.enqueue([entry(key="a"), entry(key="b")])
    store.mark_sent([1], T0 + 5)
    assert [one.seq for one in store.pending("am", T0 + 5)] == [2]
    (alive,) = store.live("am", T0 + 100 * HOUR, 0)
    assert (alive.key, alive.sent_at, alive.attempts) == ("a", T0 + 5, 1)


def test_the_newest_sent_state_counts_and_a_resolved_one_lives_for_its_retention(store: Store) -> None:
    store.enqueue([entry(), entry(resolved_at=T0)])
    store.mark_sent([1, 2], T0)
    assert [one.seq for one in store.live("am", T0 + HOUR, 2 * HOUR)] == [2]
    assert store.live("am", T0 + 3 * HOUR, 2 * HOUR) == []


def test_later_entries_of_a_key_wait_behind_one_that_failed(store: Store) -> None:
    store.enqueue([entry(key="a"), entry(key="b"), entry(key="a", resolved_at=T0)])
    store.mark_failed([1], T0, T0 + 30_000, "503")
    assert [one.seq for one in store.pending("am", T0)] == [2]
    assert [(one.seq, one.attempts) for one in store.pending("am", T0 + 30_000)] == [(1, 1), (2, 0), (3, 0)]


def test_what_a_sink_refuses_for_good_blocks_nobody(store: Store) -> None:
    store.enqueue([entry(key="a"), entry(key="a")])
    store.mark_failed([1], T0, None, "400: bad label")
    assert [one.seq for one in store.pending("am", T0)] == [2]
    assert store.backlog() == {"am": 1}


def test_pruning_spares_what_fires_and_what_is_unsent_and_numbers_never_return(store: Store) -> None:
    store.enqueue([entry(key="gone", resolved_at=T0), entry(key="fires"), entry(key="fires"), entry(key="unsent")])
    store.mark_sent([1, 2, 3], T0)
    store.prune(T0 + 100 * HOUR, Keep())
    assert [one.seq for one in store.live("am", T0 + 100 * HOUR, 0)] == [3]
    assert [one.seq for one in store.pending("am", T0)] == [4]
    store.mark_failed([4], T0, None, "no")
    store.prune(T0 + 200 * HOUR, Keep())
    assert store.enqueue([entry()]) == [5]


def test_a_refused_resolution_hides_what_fired_before_it_also_once_it_is_pruned(store: Store) -> None:
    """Otherwise an alert that ended would be renewed for ever."""
    store.enqueue([entry(), entry(resolved_at=T0)])
    store.mark_sent([1], T0)
    store.mark_failed([2], T0, None, "400")
    assert store.live("am", T0, HOUR) == []
    store.prune(T0 + 200 * HOUR, Keep())
    assert store.live("am", T0 + 200 * HOUR, HOUR) == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12), st.data())
def test_whatever_fails_each_key_is_sent_in_order_and_nothing_is_lost(
    given_entries: list[tuple[str, bool]], data: st.DataObject
) -> None:
    with open_store(Path("unused"), memory=True) as store:
        store.enqueue([entry(key=key, resolved_at=T0 if resolved else None) for key, resolved in given_entries])
        sent: list[int] = []
        now = T0
        while due := store.pending("am", now):
            for one in due:
                # A sink takes entries one by one; the first failure of a key stops that key for now.
                if data.draw(st.integers(0, 3)) == 0 and one.attempts < 2:
                    store.mark_failed([one.seq], now, now + 10, "503")
                    break
                store.mark_sent([one.seq], now)
                sent.append(one.seq)
            now += 10
        by_key: dict[str, list[int]] = {}
        for seq in sent:
            by_key.setdefault(given_entries[seq - 1][0], []).append(seq)
        assert sorted(sent) == list(range(1, len(given_entries) + 1))
        assert all(seqs == sorted(seqs) for seqs in by_key.values())
        newest = {key: seqs[-1] for key, seqs in by_key.items()}
        firing = sorted(seq for seq in newest.values() if not given_entries[seq - 1][1])
        assert [one.seq for one in store.live("am", now + HOUR, 0)] == firing
