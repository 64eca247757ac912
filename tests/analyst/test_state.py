"""Published data as data frames."""

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from anomaly import analyst
from anomaly.clock import to_datetime
from anomaly.errors import StoreError, UsageError
from anomaly.store import open_store
from tests.analyst.conftest import END, HOT

HOT_SINCE, HOT_UNTIL = map(to_datetime, HOT)

TABLES = ("incidents", "events", "findings", "dropped", "node_scores", "coverage", "ticks", "series", "rollups")


def test_importing_it_costs_nothing() -> None:
    heavy = "{'pandas', 'polars', 'pyarrow', 'altair', 'duckdb', 'numpy'}"
    code = f"import sys; import anomaly.analyst; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("table", TABLES)
def test_times_are_instants_in_utc_in_pandas_and_in_polars(state_dir: Path, table: str) -> None:
    state = analyst.open(state_dir)
    frame, twin = getattr(state, table)(), getattr(state.polars, table)()
    assert isinstance(frame, pd.DataFrame) and isinstance(twin, pl.DataFrame)
    assert list(frame.columns) == twin.columns and len(frame) == len(twin)
    for name in {"onset", "fired_at", "tick_at", "hour", "last", "confirmed"} & set(frame.columns):
        assert str(frame[name].dtype) == "datetime64[ms, UTC]"
        assert twin[name].dtype == pl.Datetime("ms", "UTC")


@pytest.mark.parametrize("table", TABLES)
def test_a_table_without_rows_still_has_its_columns(state_dir: Path, tmp_path: Path, table: str) -> None:
    with open_store(tmp_path / "anomaly.duckdb") as store:
        store.publish(tmp_path / "published")
    empty = getattr(analyst.open(tmp_path), table)()
    assert len(empty) == 0
    assert list(empty.columns) == list(getattr(analyst.open(state_dir), table)().columns)


def test_nothing_published_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nothing is published under .*; run `anomaly demo`"):
        analyst.open(tmp_path)


def test_incidents_tell_who_why_since_when_and_who_suffers(state_dir: Path) -> None:
    [row] = analyst.open(state_dir).incidents().to_dict("records")
    assert (row["id"], row["name"], row["cause"], row["severity"]) == ("5ca1ab1e", "n3", "thermal", "critical")
    assert row["onset"] == HOT_SINCE
    assert list(row["victims"]) == ["n1", "n2", "n4", "n5", "n6"]


def test_an_incident_that_never_fired_is_shown_on_demand(state_dir: Path) -> None:
    every = analyst.open(state_dir).incidents(pending=True)
    assert every["fired_at"].isna().tolist() == (every["id"] == "0ddba11").tolist()


def test_an_incident_is_found_by_the_beginning_of_its_id(state_dir: Path) -> None:
    state = analyst.open(state_dir)
    assert state.incident("5ca").entity.name == "n3"
    assert state.evidence("5ca")[["signal", "device", "observed"]].values.tolist() == [["gpu_temp", "0", 85.0]]
    for unknown in ("beef", ""):
        with pytest.raises(UsageError, match="no incident's id begins with"):
            state.incident(unknown)


def test_events_of_one_incident_end_with_its_resolution(state_dir: Path) -> None:
    state = analyst.open(state_dir)
    assert state.events("5ca")["phase"].tolist()[-1] == "resolved"


def test_samples_are_as_they_came_and_values_as_detectors_see_them(state_dir: Path) -> None:
    state = analyst.open(state_dir)
    came = state.samples("pcie_replay")
    assert came["series_id"].nunique() == 2 and came["value"].max() > 10_000
    seen = state.values("pcie_replay")
    assert set(seen["name"]) == {"n3"} and len(seen) == len(came) // 2
    assert seen["value"].dropna().between(1.999, 2.001).all(), "two a second, whoever tells it"


def test_a_range_is_closed_and_its_first_rate_is_known(state_dir: Path) -> None:
    state = analyst.open(state_dir)
    seen = state.values("pcie_replay", start=HOT_SINCE, end=HOT_UNTIL)
    assert (seen["time"].min(), seen["time"].max()) == (HOT_SINCE, HOT_UNTIL)
    assert not seen["value"].isna().any()


@pytest.mark.parametrize("zone", ["Z", "+00:00", ""])
def test_times_are_given_as_text_or_as_datetimes_utc_unless_they_say_otherwise(state_dir: Path, zone: str) -> None:
    state = analyst.open(state_dir)
    text = HOT_SINCE.strftime("%Y-%m-%dT%H:%M:%S") + zone
    naive: datetime = HOT_SINCE.replace(tzinfo=None)
    expected = len(state.samples("gpu_temp", "n3", start=HOT_SINCE))
    assert (
        expected
        == len(state.samples("gpu_temp", "n3", start=text))
        == len(state.samples("gpu_temp", "n3", start=naive))
    )
    with pytest.raises(UsageError, match="is not a time"):
        state.samples("gpu_temp", start="yesterday")


def test_what_cannot_be_had_is_said(state_dir: Path) -> None:
    state = analyst.open(state_dir)
    with pytest.raises(UsageError, match=r"no series of a signal 'gpu_tmp'.*state.signals\(\)"):
        state.samples("gpu_tmp")
    with pytest.raises(StoreError, match=r"gpu_temp on n99 are published; there are samples up to"):
        state.samples("gpu_temp", "n99")
    with pytest.raises(StoreError, match="published once their hour has closed; the next hour closes at"):
        state.samples("gpu_temp", start=to_datetime(END))
    with pytest.raises(UsageError, match="gpu_temp has no series of n99"):
        state.values("gpu_temp", "n99")


def test_signals_are_listed_with_what_they_mean(state_dir: Path) -> None:
    listed = analyst.open(state_dir).signals().set_index("signal")
    assert listed.loc["gpu_temp", "unit"] == "celsius"
    assert listed.loc["gpu_temp", "series"] == 16
    assert listed.loc["pcie_replay", "kind"] == "counter"


def test_peers_are_the_same_slot_on_the_nodes_of_the_same_job(state_dir: Path) -> None:
    peers = analyst.open(state_dir).peers("n3", "gpu_temp", HOT_SINCE)
    hot = peers[peers["device"] == "0"]
    assert set(hot["peer"]) == {"n1", "n2", "n4", "n5", "n6"}
    assert set(hot["peer_device"]) == {"0"}
    assert set(hot["group"]) == {"same GPU slot, same job"}
    assert set(hot["value"]) == {85.0} and set(hot["peer_value"]) == {60.0}


def test_a_node_without_a_job_is_compared_with_the_whole_cluster(state_dir: Path) -> None:
    peers = analyst.open(state_dir).peers("n7", "gpu_temp", HOT_SINCE)
    assert set(peers["group"]) == {"same GPU slot, whole cluster"}
    assert peers["peer"].nunique() == 7


def test_reading_keeps_nobody_waiting(state_dir: Path) -> None:
    """The fixture holds the database open for writing all the while."""
    assert len(analyst.open(state_dir).rollups()) == 2 * (16 + 16 + 2 + 1)
