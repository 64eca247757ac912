"""Charts that an on-call engineer can read: an incident against its peers, all incidents in time, what jobs felt."""

import json
from typing import Any

import numpy as np

from anomaly.analyst.compared import Compared, compare, fellow_members, has_samples, incident_of, rank, worst_node
from anomaly.analyst.drawing import (
    BAND,
    CULPRIT,
    LEVELS,
    NUMBER,
    PEERS,
    WIDTH,
    Chart,
    altair,
    axis_of,
    finished,
    frame,
    furthest,
    gap_layers,
    interpolation,
    moment,
    number,
    quantiles,
    span_layers,
    thin,
    time_axis,
    value_axis,
    window_of,
)
from anomaly.analyst.frames import table_of
from anomaly.analyst.measured import measure, signal_of
from anomaly.analyst.peers import JOB_CARRIERS
from anomaly.analyst.state import State
from anomaly.clock import MINUTE, Ms, format_duration, to_ms
from anomaly.errors import StoreError, UsageError
from anomaly.records import Incident
from anomaly.store.published import read_incidents

MOST_SIGNALS = 6
HEIGHT = 90


def timeline(state: State[Any], incident: str | Incident, node: str | None = None) -> Chart:
    """The signals behind an incident on its node (of a group: on its worst member, or on `node`), one above the other.

    Each with its peers' median and 10-90 % band, the incident's span, its onset and when it was told. Raises
    UsageError for an unknown incident and StoreError when the samples of that time are not published (yet).
    """
    found = incident_of(state, incident)
    node = node or worst_node(state, found)
    start, end = window_of(found, state.scored_through)
    names = sorted(found.signals, key=lambda each: rank(found, each))
    measured = measure(state.directory, names[:MOST_SIGNALS], start, end, also=JOB_CARRIERS)
    shown = [
        compare(measured, found, name, node)
        for name in names[:MOST_SIGNALS]
        if has_samples(measured, name, node, found)
    ]
    if not shown:
        raise StoreError(f"none of the signals of {found.id} has samples of {node}", "look at state.series()")
    charts = [
        _against_band(each, found, node, start, end, first=each is shown[0], last=each is shown[-1]) for each in shown
    ]
    left = names[MOST_SIGNALS:]
    more = [f"left out: {', '.join(left)}"] if left else []
    title = found.summary.split("; since")[0]
    who = node if found.scope == "node" else f"{node}, one of {len(found.nodes)} nodes behind {found.entity.name}"
    return finished(altair().vconcat(*charts, spacing=12), title, [f"{who}, against its peers", *more])


def _against_band(
    each: Compared, incident: Incident, node: str, start: Ms, end: Ms, *, first: bool, last: bool
) -> Chart:
    alt = altair()
    times, own = thin(each.times, each.own, each.signal.bad, len(each.own))
    band_times, others = thin(each.times, each.others, each.signal.bad, len(each.own))
    low, median, high = quantiles(others, (0.1, 0.5, 0.9))
    lines = [
        {"time": at, "device": device, "value": number(value)}
        for device, row in zip(each.own_devices, own.tolist(), strict=True)
        for at, value in zip(times.tolist(), row, strict=True)
    ]
    band = [
        {"time": at, "low": number(a), "median": number(m), "high": number(b)}
        for at, a, m, b in zip(band_times.tolist(), low.tolist(), median.tolist(), high.tolist(), strict=True)
    ]
    legend = [node, "peers: median", "peers: 10–90 %"]
    colour = alt.Scale(domain=legend, range=[CULPRIT, PEERS, BAND])
    x = time_axis(start, end, titled=last)
    y_scale = alt.Scale(zero=each.signal.kind in ("counter", "state", "event"), nice=True)
    axis = value_axis(each.signal)
    y = alt.Y("value:Q", scale=y_scale, axis=axis)
    step = interpolation(each.signal)
    device = [alt.Tooltip("device:N", title="device")] if any(each.own_devices) else []
    shade = alt.Chart(frame(band)).encode(x=x, color=alt.Color("who:N", scale=colour))

    def named(who: str) -> dict[str, str]:
        return {"who": json.dumps(who)}  # a string literal in Vega's expressions too

    layers = [
        *span_layers(incident, start, end, words=first, titled=last),
        shade.transform_calculate(**named(legend[2]))
        .mark_area(opacity=0.6, interpolate=step)
        .encode(y=alt.Y("low:Q", scale=y_scale, axis=axis), y2="high:Q"),
        shade.transform_calculate(**named(legend[1]))
        .mark_line(strokeWidth=1.5, interpolate=step)
        .encode(
            y=alt.Y("median:Q", scale=y_scale, axis=axis),
            tooltip=[moment("time", "time"), alt.Tooltip("median:Q", title="peers' median", format=".4~g")],
        ),
        alt.Chart(frame(lines))
        .transform_calculate(**named(node))
        .mark_line(strokeWidth=1.5, opacity=0.85, interpolate=step)
        .encode(
            x=x,
            y=y,
            detail="device:N",
            color=alt.Color("who:N", scale=colour),
            tooltip=[moment("time", "time"), *device, alt.Tooltip("value:Q", title=each.unit, format=".4~g")],
        ),
        *gap_layers(times, own, x, HEIGHT),
    ]
    several = f"{len(each.own_devices)} devices" if len(each.own_devices) > 4 else ", ".join(each.own_devices)
    devices = f" ({several})" if several else ""
    words = alt.TitleParams(
        f"{each.signal.name}{devices}: {each.signal.about}",
        subtitle=f"peers: {each.common}",
        anchor="start",
        fontSize=11,
        subtitleFontSize=10,
        subtitleColor=PEERS,
        offset=16 if first else 4,
    )
    return alt.layer(*layers, width=WIDTH, height=HEIGHT, title=words)


def peers_chart(
    state: State[Any], incident: str | Incident, signal: str | None = None, node: str | None = None
) -> Chart:
    """One signal of an incident's node among its peers: a line for every node, the culprit's in red.

    A line is the node's worst device. Without `signal` the one of the evidence that tells nodes apart best, a gauge
    before a counter. Errors as of `timeline`.
    """
    alt = altair()
    found = incident_of(state, incident)
    node = node or worst_node(state, found)
    start, end = window_of(found, state.scored_through)
    ranked = sorted(found.signals, key=lambda each: rank(found, each))
    ranked.sort(key=lambda each: (signal_of(each).kind != "gauge", not signal_of(each).asymmetric))
    name = signal or ranked[0]
    measured = measure(state.directory, [name], start, end, also=JOB_CARRIERS)
    each = compare(measured, found, name, node)
    members = fellow_members(measured, found, each, node)
    who, places = sorted(set(each.other_nodes)), np.array(each.other_nodes)
    parts = [each.own, *members.values(), *(each.others[places == other] for other in who)]
    table = np.vstack([furthest(part, each.signal.bad, 0) for part in parts])
    times, table = thin(each.times, table, each.signal.bad, len(table))
    groups = [node, f"the other members of {found.entity.name}", f"{len(who)} peers"]
    labels = [groups[0], *[groups[1]] * len(members), *[groups[2]] * len(who)]
    rows = [
        {"time": at, "node": one, "group": label, "value": number(value)}
        for one, label, line in zip([node, *members, *who], labels, table.tolist(), strict=True)
        for at, value in zip(times.tolist(), line, strict=True)
    ]
    hues = {group: hue for group, hue in zip(groups, (CULPRIT, "#e8a49b", BAND), strict=True) if group in labels}
    several = len(each.own_devices) > 1
    worst = "lowest" if each.signal.bad == "low" else "highest"
    data = frame(rows)
    base = alt.Chart(data).encode(
        x=time_axis(start, end),
        y=alt.Y("value:Q", scale=alt.Scale(zero=False), axis=value_axis(each.signal, 8)),
        detail="node:N",
        color=alt.Color("group:N", scale=alt.Scale(domain=list(hues), range=list(hues.values()))),
        tooltip=[moment("time", "time"), "node:N", alt.Tooltip("value:Q", title=each.unit, format=".4~g")],
    )
    crowd = base.transform_filter(alt.datum.group != groups[0]).mark_line(
        strokeWidth=1.2, interpolate=interpolation(each.signal)
    )
    culprit = base.transform_filter(alt.datum.group == groups[0]).mark_line(
        strokeWidth=2.5, interpolate=interpolation(each.signal)
    )
    chart = alt.layer(*span_layers(found, start, end), crowd, culprit, width=WIDTH, height=240)
    how = f"each line is a node; of several devices the {worst}" if several else "each line is a node"
    return finished(chart, f"{name} of {node} among its peers", [each.signal.about, f"peers: {each.common}; {how}"])


def incident_overview(state: State[Any]) -> Chart:
    """All incidents in time: a bar from onset to end, a tick where it was told; open ones reach to the last tick."""
    alt = altair()
    through = state.scored_through
    found = [each for each in read_incidents(state.directory) if each.fired_at]
    if not found or through is None:
        raise StoreError(
            "there are no incidents to show", "score more, or look at state.dropped() for what was set aside"
        )
    now = to_ms(through)
    rows = [_bar(each, now) for each in found[-200:]]
    order = [row["where"] for row in rows]
    start = min(row["time"] for row in rows)
    start -= max((now - start) // 12, MINUTE)
    # The words stand behind the bars: leave them room, at about 5.5 pixels a letter.
    room = [(row["until"] - start) * WIDTH / max(WIDTH - 5.5 * len(row["words"]) - 12, 100) for row in rows]
    levels = [LEVELS[key] for key in LEVELS]
    data = frame(rows)
    base = alt.Chart(data).encode(
        x=time_axis(start, start + max(int(max(room)), now - start)),
        y=alt.Y("where:N", sort=order, axis=alt.Axis(title=None, labelLimit=320, labelFontSize=11)),
    )
    bars = base.mark_bar(height=14, cornerRadius=2).encode(
        x2="until:T",
        color=alt.Color("level:N", scale=alt.Scale(domain=[w for w, _ in levels], range=[c for _, c in levels])),
        tooltip=[
            alt.Tooltip("summary:N", title="what"),
            moment("time", "onset"),
            moment("told", "alerted"),
            moment("until", "until"),
            alt.Tooltip("id:N", title="id"),
        ],
    )
    told = alt.Chart(data).mark_tick(color="black", thickness=2, height=20)
    told = told.encode(x=alt.X("told:T"), y=alt.Y("where:N", sort=order))
    words = base.mark_text(align="left", dx=6, fontSize=10, color=PEERS).encode(x="until:T", text="words:N")
    chart = alt.layer(bars, told, words, width=WIDTH, height=alt.Step(28))
    return finished(
        chart,
        f"{len(rows)} incidents",
        "bar: from onset to end, coloured by the loudest it became; black tick: when it was told",
    )


def _bar(incident: Incident, now: Ms) -> dict[str, Any]:
    until = incident.resolved_at or now
    slower = f", job {incident.impact_ratio:.0%} slower" if incident.impact_ratio else ""
    others = f", {len(incident.victims)} nodes suffer" if incident.victims else ""
    state = format_duration((until - incident.onset) // MINUTE * MINUTE) if incident.resolved_at else "still open"
    many = f" ×{len(incident.nodes)}" if len(incident.nodes) > 1 else ""
    return {
        "id": incident.id,
        "where": f"{incident.entity.name}{many} · {incident.cause.replace('_', ' ')}",
        "time": incident.onset,
        "told": incident.fired_at,
        "until": until,
        "level": LEVELS[incident.severity.value][0],
        "summary": incident.summary,
        "words": f"{state}{slower}{others}",
    }


def jobs_chart(state: State[Any], incident: str | Incident) -> Chart:
    """Time per training step of every job around an incident; those it slowed are coloured. Errors as of `timeline`."""
    alt = altair()
    found = incident_of(state, incident)
    start, end = window_of(found, state.scored_through)
    have = dict.fromkeys(table_of(state.directory, "series").column("signal").to_pylist())
    speeds = [each for each in map(signal_of, have) if each.entity_kind == "job" and each.kind == "gauge"]
    if not speeds:
        raise UsageError("no signal tells how fast the jobs are", "add the pack `training` to the pipeline")
    signal = speeds[0]
    panel = measure(state.directory, [signal.name], start, end).panel(signal.name)
    unit, factor = axis_of(signal)
    times, values = thin(panel.times, panel.values * factor, signal.bad, len(panel.rows))
    rows = [
        {"time": at, "job": entity.name, "value": number(value), "touched": entity.name in found.jobs}
        for entity, line in zip(panel.rows.entities, values.tolist(), strict=True)
        for at, value in zip(times.tolist(), line, strict=True)
    ]
    jobs = sorted({entity.name for entity in panel.rows.entities})
    hues = iter([CULPRIT, "#2e6da4", "#6b8e23", "#8e5ea2", "#d08c2f", "#2a9d8f"] * (1 + len(jobs) // 6))
    colours = [next(hues) if job in found.jobs else BAND for job in jobs]
    lines = (
        alt.Chart(frame(rows))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=time_axis(start, end),
            y=alt.Y("value:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title=f"{unit} per step", format=NUMBER)),
            color=alt.Color(
                "job:N",
                scale=alt.Scale(domain=jobs, range=colours),
                legend=alt.Legend(values=[job for job in jobs if job in found.jobs]),
            ),
            tooltip=[moment("time", "time"), "job:N", alt.Tooltip("value:Q", title=unit, format=".3~g")],
        )
    )
    chart = alt.layer(*span_layers(found, start, end), lines, width=WIDTH, height=200)
    touched = ", ".join(found.jobs) or "none"
    return finished(
        chart, f"What the jobs felt: {signal.about}", f"jobs on the nodes of this incident: {touched}; others in grey"
    )
