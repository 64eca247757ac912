"""What all charts share: Altair when it is there, colours, axes, how an incident is marked, how data is kept small."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from anomaly.clock import HOUR, MINUTE, Ms, to_datetime, to_ms
from anomaly.errors import AnomalyError
from anomaly.records import Bad, Floats, Incident, Ints, Severity
from anomaly.signals.model import Signal

Chart = Any
"""An Altair chart; `.to_dict()` is its Vega-Lite spec with its data."""

MOST_ROWS = 5_000
"""Rows in one chart's data, which travel to the browser: more are thinned out in time."""

BEFORE: Ms = 20 * MINUTE
AFTER: Ms = 10 * MINUTE
LONGEST: Ms = 6 * HOUR

CULPRIT, PEERS, BAND, SPAN = "#c0392b", "#4a5560", "#b9c2cc", "#f6d7d2"
LEVELS = {"critical": ("page", "#c0392b"), "warning": ("ticket", "#e08e0b"), "info": ("note", "#7f9bb5")}
WIDTH = 680
NUMBER = ",~f"
"""Plain numbers, thousands apart, no trailing zeros."""

# Unit of the catalogue → (words on the axis for a level, for a counter's rate, factor from the value to what is drawn).
_UNITS: Mapping[str, tuple[str, str, float]] = {
    "celsius": ("°C", "°C/s", 1.0),
    "watts": ("W", "W/s", 1.0),
    "megahertz": ("MHz", "MHz/s", 1.0),
    "percent": ("%", "%/s", 1.0),
    "ratio": ("%", "%/s", 100.0),
    "mebibytes": ("GiB", "GiB/s", 1 / 1024),
    "nanoseconds": ("ns", "% of time", 1e-7),
    "bytes": ("GB", "GB/s", 1e-9),
    "seconds": ("seconds", "seconds/s", 1.0),
    "bool": ("1 = yes, 0 = no", "changes/s", 1.0),
}


def altair() -> Any:
    """The module. Raises AnomalyError when the optional dependency is missing."""
    try:
        import altair
    except ImportError:
        raise AnomalyError("charts need Altair, which is not installed", "pip install 'anomaly[notebook]'") from None
    return altair


def axis_of(signal: Signal) -> tuple[str, float]:
    """(what the axis is called, factor from the panel's value to what is drawn)."""
    level, rate, factor = _UNITS.get(signal.unit, (signal.unit, f"{signal.unit}/s", 1.0))
    return (rate if signal.kind == "counter" else level), factor


def window_of(incident: Incident, through: datetime | None) -> tuple[Ms, Ms]:
    """What is drawn around an incident: from a while before its onset to a while after its end, or to now."""
    last = to_ms(through) if through else incident.updated_at
    end = min((incident.resolved_at or last) + AFTER, last, incident.onset + LONGEST)
    return incident.onset - BEFORE, max(end, incident.onset + MINUTE)


def thin(times: Ints, values: Floats, bad: Bad, rows: int) -> tuple[Ints, Floats]:
    """As many neighbouring times taken together as it needs for `rows` lines to stay within MOST_ROWS points.

    What is kept of them is the value furthest in the bad direction, so that no peak disappears; of `both`, the highest.
    """
    together = -(-len(times) * max(rows, 1) // MOST_ROWS)
    if together < 2:
        return times, values
    width = -(-len(times) // together) * together
    padded = np.pad(values, ((0, 0), (0, width - len(times))), constant_values=np.nan)
    return times[::together], furthest(padded.reshape(len(values), -1, together), bad, axis=2)


def furthest(values: Floats, bad: Bad, axis: int) -> Floats:
    """The value furthest in the bad direction along an axis, ignoring NaN; NaN where there is nothing else."""
    reduced: Floats = (np.fmin if bad == "low" else np.fmax).reduce(values, axis=axis)
    return reduced


def quantiles(values: Floats, shares: Sequence[float]) -> Floats:
    """shares × columns: quantiles over the rows, ignoring NaN; NaN where a column has nothing."""
    out = np.full((len(shares), values.shape[1]), np.nan)
    some = ~np.isnan(values).all(axis=0) if len(values) else np.zeros(values.shape[1], bool)
    if some.any():
        out[:, some] = np.nanquantile(values[:, some], shares, axis=0)
    return out


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as the data of a chart; a frame is handed on as it is, where plain values are copied and checked often."""
    import polars as pl

    return pl.DataFrame(rows, infer_schema_length=None)


def number(value: float) -> float | None:
    """For JSON: short, and null for NaN."""
    return None if np.isnan(value) else float(f"{value:.5g}")


def value_axis(signal: Signal, ticks: int = 4) -> Any:
    """The vertical axis of a signal, named after its unit."""
    alt = altair()
    if signal.unit == "bool":
        return alt.Axis(title=axis_of(signal)[0], format=NUMBER, values=[0, 1])
    return alt.Axis(title=axis_of(signal)[0], format=NUMBER, tickCount=ticks)


def interpolation(signal: Signal) -> str:
    """How a line gets from one sample to the next: states and codes hold until they change."""
    return "step-after" if signal.kind in ("state", "event") else "linear"


def time_axis(start: Ms, end: Ms, *, titled: bool = True) -> Any:
    """The horizontal axis in UTC from `start` to `end`; data has milliseconds under `time`."""
    alt = altair()
    day = to_datetime(start).strftime("%d %B %Y").lstrip("0")
    return alt.X(
        "time:T",
        scale=alt.Scale(type="utc", domain=[start, end], nice=False),
        axis=alt.Axis(title=f"time on {day} (UTC)" if titled else None, format="%H:%M", labels=titled, grid=False),
    )


def moment(field: str, title: str) -> Any:
    """A time in a tooltip."""
    return altair().Tooltip(f"{field}:T", title=title, format="%H:%M:%S", formatType="utc")


def span_layers(incident: Incident, start: Ms, end: Ms, *, words: bool = True, titled: bool = True) -> list[Chart]:
    """The incident behind a chart: its span, its onset, and when it was told (for `words`, with labels)."""
    alt = altair()
    until = min(incident.resolved_at or end, end)
    axis = time_axis(start, end, titled=titled)
    data = frame([{"time": max(incident.onset, start), "until": until}])
    layers = [alt.Chart(data).mark_rect(color=SPAN, opacity=0.55).encode(x=axis, x2="until:T")]
    marks = [(incident.onset, "onset", [6, 3], "right")]
    if incident.fired_at:
        word = "noted" if incident.severity is Severity.INFO else "alerted"
        marks.append((incident.fired_at, word, [1, 0], "left"))
    for at, word, dash, side in marks:
        point = alt.Chart(frame([{"time": at, "word": f"{word} {to_datetime(at):%H:%M}"}]))
        layers.append(point.mark_rule(color=CULPRIT, strokeDash=dash, opacity=0.8).encode(x=axis))
        if words:
            text = point.mark_text(
                color=CULPRIT, align=side, dx=4 if side == "left" else -4, y=-7, baseline="middle", fontSize=10
            )
            layers.append(text.encode(x=axis, text="word:N"))
    return layers


def gap_layers(times: Ints, own: Floats, x: Any, height: int) -> list[Chart]:
    """Where none of `own` has a sample for three grid times or longer: a bar at the foot of the chart, in words."""
    alt = altair()
    missing = np.isnan(own).all(axis=0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]])))
    gaps = [
        {"time": int(times[a]), "until": int(times[min(b, len(times) - 1)]), "word": "no samples"}
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        if b - a >= 3
    ]
    if not gaps:
        return []
    base = alt.Chart(frame(gaps)).encode(x=x)
    bar = base.mark_rule(color=CULPRIT, strokeWidth=5, opacity=0.45).encode(x2="until:T", y=alt.value(height - 3))
    words = base.mark_text(color=CULPRIT, align="right", dx=-2, fontSize=10)
    x_end = alt.X("until:T", scale=alt.Scale(type="utc"))
    return [bar, words.encode(x=x_end, y=alt.value(height - 13), text="word:N")]


def finished(chart: Chart, title: str, subtitle: str | Sequence[str]) -> Chart:
    """The chart itself with its title and the house style. (Altair's own methods would copy all of it each time.)"""
    alt = altair()
    lines = [subtitle] if isinstance(subtitle, str) else list(subtitle)
    chart.title = alt.TitleParams(title, subtitle=lines, anchor="start", fontSize=14, subtitleColor=PEERS, offset=18)
    chart.config = alt.Config(
        view=alt.ViewConfig(stroke="#dde2e7", continuousWidth=WIDTH),
        axis=alt.AxisConfig(titleFontWeight="normal", labelColor=PEERS, titleColor=PEERS),
        legend=alt.LegendConfig(orient="top", title=None, labelLimit=400, symbolStrokeWidth=3, symbolOpacity=1),
    )
    return chart
