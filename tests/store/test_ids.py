"""The label sets of a pull become ids without being looked at twice."""

from anomaly.records import Entity, Labels
from anomaly.store import Keep, Store
from tests.store.parts import T0

Found = tuple[Entity, str, str]


class Identifier:
    """Names the node by its `Hostname`, and counts how often it is asked."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix, self.asked = prefix, 0

    def __call__(self, labels: Labels) -> Found | None:
        self.asked += 1
        host = labels.get("Hostname")
        return (Entity("node", self.prefix + host), labels.get("gpu", ""), "") if host else None


def pull(*more: Labels) -> list[Labels]:
    return [{"Hostname": "a", "gpu": "0"}, {"job": "nobody"}, {"Hostname": "b", "gpu": "0"}, *more]


def test_a_label_set_is_identified_once(store: Store) -> None:
    who = Identifier()
    first = store.ids_of("gpu_temp", pull(), who, 1)
    again = store.ids_of("gpu_temp", pull(), who, 1)
    assert first.tolist() == again.tolist() == [1, -1, 2]
    assert who.asked == 3
    more = store.ids_of("gpu_temp", pull({"Hostname": "c"}), who, 1)
    assert more.tolist() == [1, -1, 2, 3]
    assert who.asked == 4
    assert store.ids_of("gpu_temp", [], who, 1).tolist() == []


def test_another_version_asks_again_and_moves_the_series(store: Store) -> None:
    store.ids_of("gpu_temp", pull(), Identifier(), 1)
    ids = store.ids_of("gpu_temp", pull(), Identifier("rack-"), 2)
    assert ids.tolist() == [1, -1, 2]
    assert [row.entity.name for row in store.series("gpu_temp")] == ["rack-a", "rack-b"]


def test_what_was_pruned_is_registered_anew(store: Store) -> None:
    who = Identifier()
    store.ids_of("gpu_temp", pull(), who, 1)
    store.prune(T0, Keep(samples=1, rollups=1, archive=1, findings=1))
    ids = store.ids_of("gpu_temp", pull(), who, 1)
    assert sorted(row.series_id for row in store.series("gpu_temp")) == sorted(ids[ids > 0].tolist())


def test_a_rollback_is_not_remembered(store: Store) -> None:
    who = Identifier()
    try:
        with store.transaction():
            store.ids_of("gpu_temp", pull(), who, 1)
            raise InterruptedError
    except InterruptedError:
        pass
    assert store.series("gpu_temp") == []
    ids = store.ids_of("gpu_temp", pull(), who, 1)
    assert len(store.series("gpu_temp")) == 2
    assert ids.tolist()[1] == -1
