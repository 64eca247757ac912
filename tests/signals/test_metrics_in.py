"""Which metrics a query reads: what is missing can be named only by them."""

import pytest

from anomaly.signals.catalogue import load_catalogue, pack_names
from anomaly.signals.promql import metrics_in


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("up", ["up"]),
        ('1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))', ["node_cpu_seconds_total"]),
        ("node_load1 / on (instance) group_left () count by (instance) (x)", ["node_load1", "x"]),
        ("histogram_quantile(0.99, sum by (le) (rate(a:b_bucket[$window])))", ["a:b_bucket"]),
        ('abs(a{l="rate(b) by (c)"} offset 5m) > bool 1e9 and b', ["a", "b"]),
        ("max_over_time(a[1h:5m]) unless ignoring (x) b or a", ["a", "b"]),
        ('{__name__=~"a|b"}', []),
        ("vector(1)", []),
    ],
)
def test_names_are_told_from_functions_labels_and_numbers(query: str, names: list[str]) -> None:
    assert list(metrics_in(query)) == names


def test_every_query_of_every_pack_reads_a_metric_that_looks_like_one() -> None:
    for signal in load_catalogue(pack_names()).signals.values():
        if signal.query is not None:
            names = metrics_in(signal.query)
            assert names, signal.name
            assert all("_" in name or name[:2] == "if" for name in names), (signal.name, names)
