"""Charts: what they show, in which unit, and that they stay small."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anomaly import analyst
from anomaly.analyst.drawing import MOST_ROWS, quantiles, thin
from anomaly.errors import AnomalyError, StoreError, UsageError
from anomaly.store import open_store
from tests.analyst.conftest import HOT
from tests.analyst.specs import data_of, rows_with, views, words

HOT_AT = (HOT[0] + HOT[1]) // 2


def test_the_timeline_shows_the_node_above_its_peers_while_it_is_hot(state_dir: Path) -> None:
    spec = analyst.timeline(analyst.open(state_dir), "5ca").to_dict()
    own = {row["time"]: row["value"] for row in rows_with(spec, "device", "value")}
    band = {row["time"]: (row["low"], row["median"], row["high"]) for row in rows_with(spec, "low", "high")}
    assert own[HOT_AT] == 85.0 and band[HOT_AT] == (60.0, 60.0, 60.0)
    assert own[HOT[0] - 60_000] == 60.0
    assert {row["device"] for row in rows_with(spec, "device", "value")} == {"0"}, "the device that the evidence names"


def test_the_timeline_says_unit_peers_onset_and_when_it_was_told(state_dir: Path) -> None:
    spec = analyst.timeline(analyst.open(state_dir), "5ca").to_dict()
    told = words(spec)
    assert "n3: GPU overheating" in told and "°C" in told and "(UTC)" in told
    assert "same GPU slot, same job (5 nodes)" in told
    assert {row["word"].split()[0] for row in rows_with(spec, "word")} == {"onset", "alerted"}
    assert [row["time"] for row in rows_with(spec, "until")] == [HOT[0]]


def test_times_are_drawn_in_utc_wherever_the_browser_is(state_dir: Path) -> None:
    for draw in (analyst.timeline, analyst.peers_chart, analyst.jobs_chart):
        spec = draw(analyst.open(state_dir), "5ca").to_dict()
        scales = [view["encoding"]["x"].get("scale", {}) for view in views(spec) if "x" in view.get("encoding", {})]
        assert {scale.get("type") for scale in scales} == {"utc"}


def test_the_peers_chart_has_a_line_for_every_node_and_one_stands_out(state_dir: Path) -> None:
    spec = analyst.peers_chart(analyst.open(state_dir), "5ca").to_dict()
    rows = rows_with(spec, "node", "group")
    assert {row["node"] for row in rows} == {f"n{number}" for number in range(1, 7)}
    assert {row["node"] for row in rows if row["group"] == "n3"} == {"n3"}
    hottest = max(rows, key=lambda row: row["value"])
    assert hottest["node"] == "n3" and hottest["value"] == 85.0


def test_the_jobs_chart_shows_what_the_job_felt(state_dir: Path) -> None:
    spec = analyst.jobs_chart(analyst.open(state_dir), "5ca").to_dict()
    felt = {row["time"]: row["value"] for row in rows_with(spec, "job")}
    assert felt[HOT_AT] == 6.0 and felt[HOT[0] - 60_000] == 5.0
    assert "seconds per step" in words(spec)


def test_the_overview_has_one_bar_an_incident(state_dir: Path) -> None:
    spec = analyst.incident_overview(analyst.open(state_dir)).to_dict()
    [bar] = rows_with(spec, "where")
    assert bar["where"] == "n3 · thermal" and bar["level"] == "page"
    assert bar["words"] == "25m, job 18% slower, 5 nodes suffer"
    assert bar["time"] == HOT[0]


def test_without_incidents_the_overview_says_so(tmp_path: Path) -> None:
    with open_store(tmp_path / "anomaly.duckdb") as store:
        store.publish(tmp_path / "published")
    with pytest.raises(StoreError, match="no incidents to show"):
        analyst.incident_overview(analyst.open(tmp_path))


def test_a_signal_that_the_node_lacks_is_refused(state_dir: Path) -> None:
    with pytest.raises(UsageError, match="pcie_replay has no series of n4"):
        analyst.peers_chart(analyst.open(state_dir), "5ca", "pcie_replay", node="n4")


def test_every_data_set_stays_small(state_dir: Path) -> None:
    state = analyst.open(state_dir)
    for draw in (analyst.timeline, analyst.peers_chart, analyst.jobs_chart):
        spec = draw(state, "5ca").to_dict()
        assert data_of(spec) and all(0 < len(rows) <= MOST_ROWS for rows in data_of(spec))


def test_without_altair_it_says_what_to_install(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(AnomalyError, match=r"Altair.*pip install 'anomaly\[notebook\]'"):
        analyst.incident_overview(analyst.open(state_dir))


@given(
    lines=st.integers(1, 400), length=st.integers(1, 3000), seed=st.integers(0, 9), bad=st.sampled_from(["high", "low"])
)
def test_thinning_keeps_within_the_limit_and_loses_no_peak(lines: int, length: int, seed: int, bad: str) -> None:
    times = np.arange(length, dtype=np.int64) * 15_000
    shown = min(lines, 5)
    values = np.random.default_rng(seed).normal(size=(shown, length))
    values[:, ::7] = np.nan
    few, thinned = thin(times, values, bad, lines)  # type: ignore[arg-type]
    assert thinned.shape == (shown, len(few)) and len(few) * lines <= MOST_ROWS + lines
    if length > 1:
        worst = np.nanmax if bad == "high" else np.nanmin
        assert worst(thinned) == worst(values)


def test_a_band_has_holes_where_nobody_has_a_sample() -> None:
    values = np.array([[1.0, np.nan], [3.0, np.nan]])
    low, middle, high = quantiles(values, (0.0, 0.5, 1.0)).tolist()
    assert (low[0], middle[0], high[0]) == (1.0, 2.0, 3.0)
    assert np.isnan([low[1], middle[1], high[1]]).all()
    assert np.isnan(quantiles(np.empty((0, 2)), (0.5,))).all()
