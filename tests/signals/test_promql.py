"""Every query of every pack is one that a real Prometheus understands."""

from collections.abc import Iterator

import pytest

from anomaly.clock import MINUTE, SECOND
from anomaly.signals.catalogue import load_catalogue, pack_names
from tests.e2e import harness

pytestmark = pytest.mark.e2e

SIGNALS = load_catalogue(pack_names()).signals


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with harness.prometheus(tmp_path_factory.mktemp("promql") / "data") as url:
        yield url


def test_every_query_of_every_pack_parses(prometheus: str) -> None:
    refused = {}
    for signal in SIGNALS.values():
        for step in (SECOND, 15 * SECOND, 10 * MINUTE):
            promql = signal.promql(step)
            assert "$" not in promql
            answer = harness.get(f"{prometheus}/api/v1/query", {"query": promql, "time": "1796000000"}).json()
            if answer["status"] != "success":
                refused[signal.name] = answer["error"]
            elif answer["data"] != {"resultType": "vector", "result": []}:
                refused[signal.name] = f"an empty server answers {answer['data']}"
    assert refused == {}


def test_a_broken_query_would_have_been_refused(prometheus: str) -> None:
    answer = harness.get(f"{prometheus}/api/v1/query", {"query": "rate(x[$window])"}).json()
    assert answer["status"] == "error"
