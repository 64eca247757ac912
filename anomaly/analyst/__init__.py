"""The analyst's door: published data as data frames and charts, for notebooks.

    from anomaly import analyst

    state = analyst.open("var")
    state.incidents()
    analyst.timeline(state, state.incidents()["id"].iloc[0])

Everything is read from the published Parquet files beside the database, so an analyst never gets in the way of a
running service. Importing this costs nothing: pandas, polars, Arrow and Altair come in when they are used.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from anomaly.analyst.charts import incident_overview, jobs_chart, peers_chart, timeline
    from anomaly.analyst.state import State

__all__ = ["State", "incident_overview", "jobs_chart", "open", "peers_chart", "timeline"]

_HOMES = {
    "State": "anomaly.analyst.state",
    "incident_overview": "anomaly.analyst.charts",
    "jobs_chart": "anomaly.analyst.charts",
    "peers_chart": "anomaly.analyst.charts",
    "timeline": "anomaly.analyst.charts",
}


def open(state: str | Path = "var") -> "State[pd.DataFrame]":  # noqa: A001 (read as `analyst.open`)
    """What a service (or the demo) has published in its state directory, as pandas frames.

    Raises StoreError when nothing is published there.
    """
    from anomaly.analyst.state import open_state

    return open_state(Path(state))


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
