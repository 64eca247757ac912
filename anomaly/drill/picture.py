"""A picture of a drill: the struck device against its peers, the scores of its node, what was said and when."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anomaly.clock import MINUTE, SECOND, Ms, parse_time
from anomaly.drill.stage import Stage
from anomaly.errors import AnomalyError
from anomaly.records import Bools, Floats
from anomaly.source.simulated.limits import DUE

WIDTH, HEIGHT, MOST_LINES = 720, 80, 8
CULPRIT, PEERS, BAND, QUIET = "#c0392b", "#4a5560", "#b9c2cc", "#e3e7ea"
_LEVELS = {"critical": "#c0392b", "warning": "#e08e0b", "info": "#7f9bb5"}
Lines = Sequence[Mapping[str, Any]]

_COMPUTE = ("gpu.sm_clock", "gpu.power", "gpu.gpu_temp", "gpu.power_violation", "step")
_HANG = ("gpu.gpu_util", "gpu.tensor", "gpu.power", "nic.received", "step")
_ERRORS = ("nic.symbol", "nic.drops", "nic.pause_sent", "nic.received", "step")
_JOB = ("step", "gpu.tensor", "gpu.gpu_util", "gpu.power", "node.cpu_wait")
VIEWS: Mapping[str, tuple[str, ...]] = {
    "thermal_throttle": ("gpu.gpu_temp", "gpu.thermal_violation", "gpu.sm_clock", "gpu.power", "step"),
    "coolant_loss": ("gpu.gpu_temp", "gpu.thermal_violation", "gpu.sm_clock", "gpu.power", "step"),
    "pcie_degraded": ("gpu.pcie_replay", "nic.pause_sent", "nic.received", "gpu.tensor", "step"),
    "cpu_contention": ("node.cpu_busy", "node.load1", "gpu.gpu_util", "gpu.sm_clock", "step"),
    "ecc_storm": ("gpu.ecc_sbe", "gpu.remapped_rows", "gpu.xid", "gpu.sm_clock", "step"),
    "ecc_growth": ("gpu.ecc_sbe", "gpu.xid", "gpu.sm_clock", "step"),
    "ecc_uncorrectable": ("gpu.xid", "gpu.ecc_dbe", "gpu.fb_used", "gpu.power", "gpu.gpu_util"),
    "nvlink_link": ("gpu.nvlink_crc_flit", "gpu.nvlink_replay", "gpu.tensor", "step"),
    "nvlink_all": ("gpu.nvlink_crc_flit", "gpu.xid", "gpu.power", "gpu.gpu_util"),
    "nic_degradation": ("nic.symbol", "nic.discards", "nic.pause_sent", "nic.received", "step"),
    "link_down": ("nic.link_downed", "nic.received", "gpu.tensor", "step"),
    "link_flap": ("nic.link_downed", "nic.receive_errors", "nic.received", "step"),
    "pfc_storm": ("nic.pause_sent", "nic.pause_received", "nic.received", "step"),
    "wrong_pfc_threshold": ("nic.drops", "nic.discards", "nic.received", "step"),
    "leaf_congestion": ("nic.pause_received", "nic.marks", "nic.received", "gpu.sm_clock", "step"),
    "storage_latency": ("node.read_seconds", "gpu.gpu_util", "gpu.power", "step"),
    "data_stall": _JOB,
    "gradient_sync_slow": ("step", "gpu.tensor", "nic.received", "nic.pause_received", "gpu.sm_clock"),
    "software_drift": ("step", "gpu.tensor", "gpu.sm_clock", "gpu.power"),
    "memory_leak": ("gpu.fb_used", "node.memory_available", "step"),
    "memory_held": ("gpu.fb_used", "gpu.gpu_util", "gpu.power"),
    "oom_kills": ("node.oom_kill", "node.memory_available", "step"),
    "collective_hang": _HANG,
    "hung_rank": ("gpu.gpu_util", "gpu.power", "gpu.tensor", "node.cpu_busy", "nic.received"),
    "gpu_stuck": ("gpu.power", "gpu.gpu_temp", "gpu.gpu_util", "gpu.fb_used"),
    "gpu_lost": ("gpu.xid", "gpu.power", "gpu.gpu_util", "gpu.fb_used"),
    "node_lost": ("up.node-exporter", "up.dcgm-exporter", "gpu.power", "gpu.gpu_util"),
    "exporter_dead": ("up.dcgm-exporter", "up.node-exporter", "gpu.power", "step"),
    "telemetry_frozen": ("gpu.power", "gpu.gpu_temp", "gpu.gpu_util", "step"),
    "driver_mismatch": ("up.dcgm-exporter", "gpu.power", "gpu.sm_clock", "gpu.ecc_sbe"),
    "mig_lost": ("up.dcgm-exporter", "gpu.power", "gpu.fb_used"),
    "lost_packet": _ERRORS,
    "corrected_bit": ("gpu.ecc_sbe", "gpu.pcie_replay", "gpu.nvlink_crc_flit", "step"),
    "maintenance": ("up.node-exporter", "gpu.power", "gpu.gpu_util", "node.boot_time"),
    "sentinels": ("gpu.gpu_temp", "gpu.power", "step"),
}
"""What is worth looking at, by drill: `gpu.`, `nic.`, `node.` or `up.` and the field; `step` is the step time."""
_COUNTERS = frozenset({
    "thermal_violation", "power_violation", "ecc_sbe", "ecc_dbe", "pcie_replay", "nvlink_crc_flit", "nvlink_replay",
    "remapped_rows", "symbol", "drops", "discards", "receive_errors", "pause_sent", "pause_received", "marks",
    "received", "link_downed", "oom_kill",
})  # fmt: skip


def draw(made: Stage, lines: Lines, published: Path, file: Path) -> None:
    """Write the picture of a drill (PNG) to `file`. Raises AnomalyError where Altair or its renderer is missing."""
    alt = _altair()
    alt.data_transformers.disable_max_rows()
    window = (made.scenario.start, made.scenario.end)
    views = VIEWS.get(made.name, _COMPUTE)
    series = _Series(made)
    charts = [_signal(alt, series, view, window) for view in views]
    charts += [_scores(alt, made, published, window), _said(alt, lines, window)]
    marks = _marks(made)
    layered = [alt.layer(chart, *_rules(alt, marks, window)) for chart in charts]
    what = f"{made.name}, seed {made.seed}"
    if made.fault is not None:
        who = made.fault.group or ", ".join(made.fault.nodes)
        what += f": {who}, effect {made.fault.effect:.0%}" + (
            f", device {made.fault.device}" if made.fault.device else ""
        )
    legend = "red: struck; grey: median and 10-90 % of the others; dashed: onset and end; dotted: time limit"
    whole = alt.vconcat(*layered, spacing=6).properties(title={"text": what, "subtitle": legend})
    whole = whole.resolve_scale(color="independent")
    file.parent.mkdir(parents=True, exist_ok=True)
    whole.configure_view(stroke=QUIET).configure_axis(labelFontSize=9, titleFontSize=10).save(str(file))


def available() -> None:
    """Raises AnomalyError where Altair or its renderer is missing."""
    _altair()


def _altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        raise AnomalyError(
            "pictures need Altair and its renderer, which are not installed", "pip install 'anomaly[plot]'"
        ) from None
    return altair


class _Series:
    """The simulated readings of a drill as rows × steps, and which rows are struck."""

    def __init__(self, made: Stage) -> None:
        scenario = made.scenario
        simulation = scenario.simulation
        self.records = [simulation.block(k) for k in range(simulation.block_at(scenario.end) + 1)]
        self.times = np.concatenate([record.ts for record in self.records])
        self.keep = self.times <= scenario.end
        cluster = scenario.cluster
        happening = made.fault or made.noise
        assert happening is not None
        # Noise everywhere strikes nobody in particular.
        everyone = len(happening.nodes) == len(cluster.nodes)
        self.struck = np.zeros(len(cluster.nodes), bool)
        self.struck[[cluster.index[name] for name in happening.nodes]] = not everyone
        # Its fellows in the job; where all of them are struck, those of other jobs.
        busy = {name for job in cluster.jobs for name in job.nodes}
        mates = {name for job in cluster.jobs_of(happening.nodes) for name in job.nodes} - set(happening.nodes)
        others = mates or busy - set(happening.nodes) or busy
        self.peers = np.array([node.name in others for node in cluster.nodes]) & ~self.struck
        device = made.fault.device if made.fault else None
        self.device = None if device is None else int(device.removeprefix("mlx5_"))

    def rows(self, view: str) -> tuple[Floats, Bools, Bools]:
        """rows × steps, which are struck, which are their peers."""
        family, _, name = view.partition(".")
        parts = [self._field(record, family, name) for record in self.records]
        values = np.concatenate(parts, axis=-1)[..., self.keep]
        if name in _COUNTERS:
            # Boards are read every second scrape only.
            back = 2 if family == "gpu" else 1
            times = self.times[self.keep]
            grown = np.full(values.shape, np.nan)
            grown[..., back:] = (values[..., back:] - values[..., :-back]) / (times[back:] - times[:-back]) * SECOND
            values = np.where(grown < 0, np.nan, grown)
        values = np.where(np.abs(values) > 1e18, np.nan, values)
        if values.ndim == 2:
            return values, self.struck, self.peers
        devices = values.shape[1]
        struck = np.repeat(self.struck[:, None], devices, axis=1)
        if self.device is not None and self.device < devices:
            struck = struck & (np.arange(devices) == self.device)
        peers = np.repeat(self.peers[:, None], devices, axis=1)
        return values.reshape(-1, values.shape[-1]), struck.ravel(), peers.ravel()

    def _field(self, record: Any, family: str, name: str) -> Floats:
        if family == "step":
            return np.asarray(record.step_seconds[:, 0])
        if family == "up":
            return np.asarray(record.up[name])
        if name in ("cpu_busy", "cpu_wait"):
            spent = np.diff(record.cpu.mean(axis=1), axis=-1, prepend=np.nan)
            return np.asarray(
                (1 - spent[:, 0] / spent.sum(axis=1)) if name == "cpu_busy" else spent[:, 3] / spent.sum(axis=1)
            )
        if name == "read_seconds":
            return _mean_read(record)
        return np.asarray(getattr(record, family)[name])


def _mean_read(record: Any) -> Floats:
    """Mean latency of reads, from the histogram's buckets."""
    from anomaly.source.simulated.host import BUCKETS

    bounds = np.array([*BUCKETS, BUCKETS[-1]])
    counts = np.diff(np.diff(record.requests[:, 0], axis=1, prepend=0.0), axis=-1, prepend=np.nan).clip(0.0)
    total = counts.sum(axis=1)
    return np.asarray(np.where(total > 0, (counts * bounds[:, None]).sum(axis=1) / np.maximum(total, 1.0), np.nan))


def _signal(alt: Any, series: _Series, view: str, window: tuple[Ms, Ms]) -> Any:
    values, struck, peers = series.rows(view)
    times = series.times[series.keep]
    others = values[peers] if peers.any() else values[~struck]
    low, middle, high = _quantiles(others)
    band = _frame({"time": times, "low": low, "middle": middle, "high": high})
    name = view.partition(".")[2] or "step seconds"
    title = f"{name} /s" if name in _COUNTERS else name
    x = _x(alt, window)
    y = alt.Y("low:Q", title=title, scale=alt.Scale(zero=False))
    layers = [
        alt.Chart(band).mark_area(color=BAND, opacity=0.6).encode(x=x, y=y, y2="high:Q"),
        alt.Chart(band).mark_line(color=PEERS, strokeWidth=1).encode(x=x, y="middle:Q"),
    ]
    for row in np.flatnonzero(struck)[:MOST_LINES].tolist():
        own = _frame({"time": times, "value": values[row]})
        layers.append(alt.Chart(own).mark_line(color=CULPRIT, strokeWidth=1, opacity=0.8).encode(x=x, y="value:Q"))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _scores(alt: Any, made: Stage, published: Path, window: tuple[Ms, Ms]) -> Any:
    """The struck nodes' largest score of each symptom class at each tick; 1 is the boundary, cut off at 5."""
    import polars as pl

    happening = made.fault or made.noise
    assert happening is not None
    files = sorted(published.glob("node_scores/*/*.parquet"))
    x = _x(alt, window)
    frame = alt.Chart(pl.DataFrame({"time": list(window)})).mark_rule(opacity=0).encode(x=x)
    limit = alt.Chart(pl.DataFrame({"score": [1.0]})).mark_rule(color=PEERS, strokeDash=[2, 2]).encode(y="score:Q")
    layers = [frame, limit]
    told = pl.concat([pl.read_parquet(file) for file in files]) if files else pl.DataFrame({"node": []})
    told = told.filter(pl.col("node").is_in(list(happening.nodes)))
    if len(told):
        told = told.group_by("tick_at", "symptom").agg(pl.col("score").max().clip(0, 5))
        told = told.rename({"tick_at": "time"}).sort("time")
        y = alt.Y("score:Q", title="score", scale=alt.Scale(domain=[0, 5]))
        colour = alt.Color("symptom:N", legend=alt.Legend(title=None, orient="right", symbolSize=40))
        points = alt.Chart(told).mark_point(filled=True, size=14, opacity=0.8)
        layers.append(points.encode(x=x, y=y, color=colour))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _said(alt: Any, lines: Lines, window: tuple[Ms, Ms]) -> Any:
    """Each incident as a bar from its firing to its end, in the colour of its severity."""
    import polars as pl

    rows: list[dict[str, Any]] = []
    newest = {line["id"]: line for line in lines}
    for line in newest.values():
        until = parse_time(line["resolved_at"]) if line["resolved_at"] else window[1]
        where = f"{line['node'] or line['group']} {line['cause']}"
        rows.append({"time": parse_time(line["fired_at"]), "until": until, "what": where, "level": line["severity"]})
    data = pl.DataFrame(rows, schema={"time": pl.Int64, "until": pl.Int64, "what": pl.String, "level": pl.String})
    x = _x(alt, window, labels=True)
    layers = [alt.Chart(pl.DataFrame({"time": list(window)})).mark_rule(opacity=0).encode(x=x)]
    if rows:
        colour = alt.Color("level:N", scale=alt.Scale(domain=list(_LEVELS), range=list(_LEVELS.values())), legend=None)
        y = alt.Y("what:N", title="said")
        layers.append(alt.Chart(data).mark_bar(height=9).encode(x=x, x2="until:Q", y=y, color=colour))
    return alt.layer(*layers).properties(width=WIDTH, height=max(24, 16 * len({row["what"] for row in rows})))


def _marks(made: Stage) -> list[tuple[Ms, list[int]]]:
    if made.fault is not None:
        limit = made.fault.onset + DUE[made.name].limit_s * SECOND
        return [(made.fault.onset, [5, 3]), (made.fault.end, [5, 3]), (limit, [1, 2])]
    assert made.noise is not None
    return [(made.noise.start, [5, 3]), (made.noise.end, [5, 3])]


def _rules(alt: Any, marks: Sequence[tuple[Ms, list[int]]], window: tuple[Ms, Ms]) -> list[Any]:
    return [
        alt.Chart(_frame({"time": np.array([at])})).mark_rule(strokeDash=dash, opacity=0.6).encode(x=_x(alt, window))
        for at, dash in marks
        if window[0] < at <= window[1] + MINUTE
    ]


def _x(alt: Any, window: tuple[Ms, Ms], *, labels: bool = False) -> Any:
    axis = alt.Axis(title=None, format="%H:%M", labels=labels, grid=False)
    return alt.X("time:T", scale=alt.Scale(type="utc", domain=list(window), nice=False), axis=axis)


def _quantiles(values: Floats) -> Floats:
    out = np.full((3, values.shape[1]), np.nan)
    some = ~np.isnan(values).all(axis=0)
    if some.any():
        out[:, some] = np.nanquantile(values[:, some], (0.1, 0.5, 0.9), axis=0)
    return out


def _frame(columns: Mapping[str, Any]) -> Any:
    import polars as pl

    return pl.DataFrame(dict(columns)).with_columns(pl.selectors.float().fill_nan(None))
