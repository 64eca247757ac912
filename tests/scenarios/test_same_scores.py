"""Properties of the tick: how samples are labelled, ordered, cut and doubled on their way changes nothing said."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anomaly.clock import MINUTE, Ms
from anomaly.features.panel import SENTINEL
from anomaly.records import Ints, Labels, Samples, SeriesRow
from anomaly.signals.identity import Aliases, identify
from tests.scenarios.cluster import ORIGIN, JobPlan, minute
from tests.scenarios.export import Exported
from tests.scenarios.play import Scenario, Service, service

pytestmark = pytest.mark.slow

NODES = tuple(f"node-{i}" for i in range(1, 7))
MINUTES = 36
CASE = Scenario(
    about="a GPU overheats, another one loses memory, a third one its bus",
    minutes=MINUTES,
    nodes=6,
    gpus=4,
    rails=1,
    jobs=(JobPlan("train-a", NODES),),
    timeline=(
        {"at": 14, "until": 30, "happens": "gpu overheats", "node": "node-2", "gpu": 3, "heat": 15, "clock": 0.75},
        {"at": 20, "happens": "xid", "node": "node-4", "gpu": 0, "code": 48},
    ),
)


@functools.cache
def original() -> Service:
    return service(CASE)


few = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
"""Each example plays half an hour of a cluster: few of them, and none made smaller."""


@dataclass(frozen=True)
class Series:
    """One underlying series with its samples, to be changed and put back."""

    signal: str
    labels: Labels
    ts: Ints
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def taken_apart(exported: Exported) -> list[Series]:
    out = []
    for name, rows in exported.series.items():
        samples = exported.samples[name]
        for row in rows:
            own = samples.series_id == row.series_id
            out.append(Series(name, row.labels, samples.ts[own], samples.values[own]))
    return out


def put_together(series: Sequence[Series], order: Callable[[Series], object] | None = None) -> Exported:
    """As the store would hold it: numbered by first sample; `order` breaks ties (the order in which answers come)."""
    given = [piece for piece in series if len(piece.ts)]
    given.sort(key=lambda piece: (int(piece.ts[0]), order(piece) if order else piece.signal))
    rows: dict[str, list[SeriesRow]] = {}
    born: dict[str, list[Ms]] = {}
    columns: dict[str, list[tuple[np.ndarray, Ints, np.ndarray]]] = {}
    for number, piece in enumerate(given, 1):
        found = identify(original().spec.catalogue[piece.signal], piece.labels, Aliases())
        assert found is not None
        rows.setdefault(piece.signal, []).append(SeriesRow(number, piece.signal, *found, piece.labels))
        born.setdefault(piece.signal, []).append(int(piece.ts[0]))
        columns.setdefault(piece.signal, []).append((np.full(len(piece.ts), number, np.int32), piece.ts, piece.values))
    return Exported(
        {name: tuple(known) for name, known in rows.items()},
        {name: np.array(times, np.int64) for name, times in born.items()},
        {
            name: Samples(*(np.concatenate(part) for part in zip(*parts, strict=True)))
            for name, parts in columns.items()
        },
    )


@functools.cache
def pieces() -> tuple[Series, ...]:
    return tuple(taken_apart(original().exported))


def judged(exported: Exported, run: Callable[[Service], None] | None = None) -> Service:
    found = Service(original().spec, exported)
    if run is None:
        found.run(minute(MINUTES))
    else:
        run(found)
    return found


@functools.cache
def as_it_is() -> Service:
    return judged(put_together(pieces()))


def same(found: Service, expected: Service | None = None, *, besides: str = "") -> None:
    """Scores (of all symptoms `besides` one), findings, incidents and coverage of every tick, to the bit."""
    expected = expected or as_it_is()
    assert [tick.at for tick in found.ticks] == [tick.at for tick in expected.ticks]
    for ours, theirs in zip(found.ticks, expected.ticks, strict=True):
        scores, due = ([item for item in tick.node_scores if item.symptom != besides] for tick in (ours, theirs))
        assert scores == due, (ours.at - ORIGIN) / MINUTE
        assert sorted(map(repr, ours.findings)) == sorted(map(repr, theirs.findings)), (ours.at - ORIGIN) / MINUTE
        assert ours.denoised.changed == theirs.denoised.changed
        assert ours.coverage.ratios() == theirs.coverage.ratios()


def test_something_is_found_and_scored_at_all() -> None:
    fired = {incident.entity.name for tick in as_it_is().ticks for incident in tick.denoised.changed}
    assert fired >= {"node-2", "node-4"}
    assert sum(len(tick.node_scores) for tick in as_it_is().ticks) > 50


def is_gauge(piece: Series) -> bool:
    return original().spec.catalogue[piece.signal].kind != "counter"


@few
@given(st.integers(0, 2**32 - 1))
def test_labels_that_come_and_go_change_nothing(seed: int) -> None:
    """A pod begins or ends: one series ends, another begins, of the same GPU."""
    random = np.random.default_rng(seed)
    changed: list[Series] = []
    for piece in pieces():
        if is_gauge(piece) and random.random() < 0.3:
            cut = int(random.integers(1, len(piece.ts)))
            other = {**piece.labels, "exported_pod": "", "pod_uid": f"u{cut}", "DCGM_FI_DRIVER_VERSION": "575.1"}
            changed.append(replace(piece, ts=piece.ts[:cut], values=piece.values[:cut]))
            changed.append(replace(piece, labels=other, ts=piece.ts[cut:], values=piece.values[cut:]))
        else:
            changed.append(piece)
    same(judged(put_together(changed)))


def test_other_names_of_the_same_labels_change_nothing() -> None:
    """`hostname` for `Hostname`, another exporter's port, another job name of the scrape, another UUID label."""

    def renamed(labels: Labels) -> Labels:
        changed = {"hostname" if name == "Hostname" else name: value for name, value in labels.items()}
        if "instance" in changed and "Hostname" in labels:
            changed["instance"] = f"10.0.0.{len(changed)}:19400"
        return {**changed, "cluster": "prod-a", "endpoint": "metrics"}

    same(judged(put_together([replace(piece, labels=renamed(piece.labels)) for piece in pieces()])))


@few
@given(st.integers(0, 2**32 - 1))
def test_the_order_in_which_series_are_first_seen_changes_nothing(seed: int) -> None:
    random = np.random.default_rng(seed)
    same(judged(put_together(pieces(), lambda _: random.random())))


@few
@given(st.integers(0, 2**32 - 1))
def test_a_second_exporter_of_the_same_device_changes_nothing(seed: int) -> None:
    random = np.random.default_rng(seed)
    doubled = list(pieces())
    for piece in pieces():
        if "gpu" in piece.labels and random.random() < 0.5:
            kept = random.random(len(piece.ts)) < 0.9 if is_gauge(piece) else np.ones(len(piece.ts), bool)
            other = {**piece.labels, "job": "gpu-metrics", "pod": "dcgm-exporter-x7k2p", "container": "exporter"}
            doubled.append(replace(piece, labels=other, ts=piece.ts[kept], values=piece.values[kept]))
    same(judged(put_together(doubled)))


@few
@given(st.lists(st.integers(1, MINUTES - 1), max_size=8, unique=True))
def test_pulls_of_any_length_change_nothing(cuts: list[int]) -> None:
    def run(found: Service) -> None:
        for cut in (*sorted(cuts), MINUTES):
            found.run(minute(cut), stretch=MINUTES * MINUTE)

    same(judged(put_together(pieces()), run))


@few
@given(st.lists(st.integers(1, MINUTES - 1), min_size=1, max_size=4, unique=True))
def test_restarts_at_any_time_change_nothing(times: list[int]) -> None:
    def run(found: Service) -> None:
        for at in sorted(times):
            found.run(minute(at))
            found.restart()
        found.run(minute(MINUTES))

    same(judged(put_together(pieces()), run))


IMPOSSIBLE = {"gpu_temp": 900.0, "gpu_power": SENTINEL, "sm_clock": 2147483632.0, "gpu_util": 4294967295.0}
IMPOSSIBLE |= {"pcie_replay": 9223372036854775808.0, "memory_available_ratio": 7.0, "cpu_busy_ratio": np.inf}


@few
@given(st.integers(0, 2**32 - 1))
def test_a_value_that_cannot_be_true_is_as_good_as_none_and_never_a_zero(seed: int) -> None:
    """Null in, null out: sentinels and impossible values say what a missing sample says. Only presence is another
    matter: a device that answers nonsense is there."""
    random = np.random.default_rng(seed)
    wrong, missing = [], []
    for piece in pieces():
        if piece.signal not in IMPOSSIBLE:
            wrong.append(piece)
            missing.append(piece)
            continue
        # Single ones, and not the first, by which a series is known: a device that says nothing for longer is missed.
        hit = np.zeros(len(piece.ts), bool)
        hit[int(random.integers(1, 9)) :: int(random.integers(5, 12))] = True
        wrong.append(replace(piece, values=np.where(hit, IMPOSSIBLE[piece.signal], piece.values)))
        missing.append(replace(piece, ts=piece.ts[~hit], values=piece.values[~hit]))
    same(judged(put_together(wrong)), judged(put_together(missing)), besides="presence")
