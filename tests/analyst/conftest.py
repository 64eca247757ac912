"""Two published hours of a small cluster: six nodes train together, two are idle, one GPU runs hot for 20 minutes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from anomaly.clock import HOUR, MINUTE, SECOND, Ms
from anomaly.records import Entity, Evidence, Floats, Ints, Phase, Samples, Severity
from anomaly.store import CollectedChunk, SignalChunk, Store, open_store
from anomaly.store.results import TickRecord
from tests.store.parts import T0, dropped, finding, incident

HOT = (T0 + 50 * MINUTE, T0 + 70 * MINUTE)
END = T0 + 2 * HOUR
TRAINING = [f"n{number}" for number in range(1, 7)]
IDLE = ["n7", "n8"]


@pytest.fixture(scope="session")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    state = tmp_path_factory.mktemp("analyst") / "var"
    with open_store(state / "anomaly.duckdb") as store:
        parts = [
            _gauge(store, "gpu_temp", _temperature),
            _gauge(store, "gpu_util", lambda node, device, ts: np.full(len(ts), 99.0)),
            _replays(store),
            _steps(store),
        ]
        store.commit_chunk(CollectedChunk(T0, END, tuple(parts)))
        store.commit_tick(_last_tick())
        store.publish(state / "published")
        store.roll_up(END)
        store.publish_closed_hours(state / "published", END)
        yield state


def grid(step: Ms) -> Ints:
    return np.arange(T0, END, step, dtype=np.int64)


def _temperature(node: str, device: int, ts: Ints) -> Floats:
    hot = (ts >= HOT[0]) & (ts < HOT[1]) & (node == "n3") & (device == 0)
    return 60.0 + device + np.where(hot, 25.0, 0.0)


def _gauge(store: Store, signal: str, value: Callable[[str, int, Ints], Floats]) -> SignalChunk:
    ts = grid(30 * SECOND)
    rows = []
    for node in TRAINING + IDLE:
        job = {"hpc_job": "llama"} if node in TRAINING else {}
        for device in (0, 1):
            labels = {"Hostname": node, "gpu": str(device), "modelName": "A100", **job}
            rows.append((signal, Entity("node", node), str(device), "", labels))
    ids = store.register(rows)
    values = [value(row[1].name, int(row[2]), ts) for row in rows]
    return _chunk(signal, ids, ts, np.array(values))


def _replays(store: Store) -> SignalChunk:
    """A counter that rises by two a second, told by two exporters; what they tell is the same thing."""
    ts = grid(30 * SECOND)
    rows = [
        ("pcie_replay", Entity("node", "n3"), "0", "", {"Hostname": "n3", "gpu": "0", "pod": pod}) for pod in ("a", "b")
    ]
    ids = store.register(rows)
    return _chunk("pcie_replay", ids, ts, np.array([(ts - T0) / 500.0, 10 + (ts - T0) / 500.0]))


def _steps(store: Store) -> SignalChunk:
    ts = grid(15 * SECOND)
    labels = {"job_name": "llama", "node": "n1"}
    ids = store.register([("iteration_seconds", Entity("job", "llama"), "", "", labels)])
    return _chunk("iteration_seconds", ids, ts, np.where((ts >= HOT[0]) & (ts < HOT[1]), 6.0, 5.0)[None, :])


def _chunk(signal: str, ids: NDArray[np.int32], ts: Ints, values: Floats) -> SignalChunk:
    wide = Samples(np.repeat(ids, len(ts)).astype(np.int32), np.tile(ts, len(ids)), values.ravel().astype(np.float64))
    return SignalChunk(signal, T0, END, wide)


def _last_tick() -> TickRecord:
    hot = incident(
        "5ca1ab1e",
        entity=Entity("node", "n3"),
        nodes=("n3",),
        victims=("n1", "n2", "n4", "n5", "n6"),
        jobs=("llama",),
        severity=Severity.CRITICAL,
        phase=Phase.RESOLVED,
        onset=HOT[0],
        fired_at=HOT[0] + 4 * MINUTE,
        updated_at=HOT[1],
        resolved_at=HOT[1] + 5 * MINUTE,
        evidence=(Evidence("gpu_temp", "0", 85.0, 60.0, "celsius", "peers", 2.5, HOT[0]),),
        summary="n3: GPU overheating; since then",
    )
    quiet = incident("0ddba11", phase=Phase.PENDING, fired_at=0, entity=Entity("node", "n7"), nodes=("n7",))
    found = [finding("n3", device="0", onset=HOT[0])]
    return TickRecord(END, "", findings=found, dropped=[dropped("settling", "n7")], incidents=[hot, quiet])
