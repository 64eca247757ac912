"""Hourly roll-ups: long memory at a thousandth of the samples."""

from collections.abc import Sequence

from anomaly.clock import HOUR, Ms, align_down
from anomaly.records import Floats
from anomaly.store.connect import Session
from anomaly.store.marks import set_watermark, watermark
from anomaly.store.samples import SCORED

ROLLED_UP = "rolled_up"


def closed_through(session: Session, now: Ms) -> Ms:
    """The instant before which hours are closed: past, and scored to their end, so that nothing changes in them."""
    scored = watermark(session, SCORED)
    return 0 if scored is None else align_down(min(scored + 1, now), HOUR)


def roll_up(session: Session, now: Ms) -> int:
    """Compute the roll-ups of hours that have closed since the last time; how many rows came.

    Per series and hour, over finite samples: count, median, spread (1.4826 × the median absolute deviation, the
    standard deviation of a normal distribution: Rousseeuw & Croux, JASA 88, 1993), lowest, highest.
    """
    closed = closed_through(session, now)
    start = watermark(session, ROLLED_UP) or 0
    if closed <= start:
        return 0
    # Closed hours do not change, so the long part keeps nobody waiting.
    with session.aside() as beside:
        columns = beside.columns(
            """SELECT series_id, ts - ts % 3600000 AS hour, count(*)::INTEGER AS samples, median(value) AS median,
                      1.4826 * mad(value) AS spread, min(value) AS lowest, max(value) AS highest
               FROM samples WHERE ts >= ? AND ts < ? AND isfinite(value) GROUP BY ALL""",
            [start, closed],
        )
    with session.transaction():
        session.insert("rollups", columns)
        set_watermark(session, ROLLED_UP, closed)
    return len(columns["hour"])


def read_rollups(session: Session, signals: Sequence[str], start: Ms, end: Ms) -> dict[str, Floats]:
    """Roll-ups of signals whose hour begins in [start, end], as columns sorted by nothing in particular.

    `series_id, hour (ms), samples, median, spread, lowest, highest`; all but the first three in the signal's unit.
    """
    with session.given("wanted", {"signal": list(signals)}):
        return session.columns(
            """SELECT series_id, hour, samples, median, spread, lowest, highest FROM rollups
               SEMI JOIN (SELECT series_id FROM series SEMI JOIN wanted USING (signal)) USING (series_id)
               WHERE hour BETWEEN ? AND ?""",
            [start, end],
        )
