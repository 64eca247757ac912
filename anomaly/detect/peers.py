"""Peers: a row against the rows that do the same work at the same time.

Synchronous training makes every node's metrics fall together, so a node's own past finds the job; only the comparison
with peers finds the node. The residual is taken from the median of the best peer level that has enough members, less
the row's own usual residual where that is known: healthy GPUs differ by several degrees and per cent for ever.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from anomaly.clock import Ms
from anomaly.detect.groups import group_statistics
from anomaly.detect.habit import Habit, usual
from anomaly.detect.scored import bad_side
from anomaly.records import Floats
from anomaly.signals.model import Peers

LEAST_PEERS = 5
"""A row and at least four others."""

TINY = 1e-9
"""What a zero counts as on a logarithmic scale: a rail that carries nothing is the worst, not without a verdict."""


def to_scale(values: Floats, peers: Peers) -> Floats:
    """The scale on which deviations are additive."""
    if peers.scale == "linear":
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.log(np.maximum(values, 0.0 if peers.pseudo > 0.0 else TINY) + peers.pseudo)
    return np.where(np.isfinite(out), out, np.nan)


def from_scale(values: Floats, peers: Peers) -> Floats:
    return values if peers.scale == "linear" else np.maximum(np.exp(values) - peers.pseudo, 0.0)


def residuals(scaled: Floats, levels: list[NDArray[np.int64]], peers: Peers) -> tuple[Floats, Floats]:
    """(residual from the peers' median, robust sigma of the peers), from the first of `levels` with enough members.

    `scaled` is NaN for who may not be compared; `levels[k][i]` is row i's group at level k, negative for none.
    """
    centre = np.full(scaled.shape, np.nan)
    spread = np.full(scaled.shape, np.nan)
    unknown = ~np.isnan(scaled)
    for level, groups in enumerate(levels):
        missing = unknown & (groups >= 0)[:, None]
        rows = missing.any(axis=1)
        if not rows.any():
            continue
        wanted = groups if rows.all() else np.where(np.isin(groups, np.unique(groups[rows])), groups, -1)
        level_centre, level_spread = group_statistics(scaled, wanted, LEAST_PEERS)
        if level == 0 and missing.all():
            centre, spread = level_centre, level_spread
        else:
            centre, spread = np.where(missing, level_centre, centre), np.where(missing, level_spread, spread)
        unknown = unknown & np.isnan(centre)
    if peers.least > 0.0:
        centre = np.where(from_scale(centre, peers) >= peers.least, centre, np.nan)
    return scaled - centre, spread


def judge(
    residual: Floats, spread: Floats, habit: Habit, keys: tuple[str, ...], at: Ms, bucket: Ms, peers: Peers, bad: str
) -> tuple[Floats, Floats]:
    """(score, signed change from what the peers and the row's habit lead to expect).

    Score = the smaller of deviation / effect and deviation / (sigmas × robust sigma), where the deviation is the change
    from the row's usual residual; and it must also stand out by half the effect against the peers as they are now: a
    row that was better than its peers and became like them is not at fault.
    """
    offset = np.zeros(len(keys))
    effect = np.full(len(keys), peers.effect)
    sigma_own = np.zeros(len(keys))
    if peers.offset:
        known, own_spread = usual(habit, keys, at, bucket)
        cold = np.isnan(known)
        offset = np.where(cold, 0.0, known)
        effect = np.where(cold, peers.cold, peers.effect)
        sigma_own = np.nan_to_num(own_spread)
    change = residual - offset[:, None]
    worse = bad_side(change, bad)
    sigma = np.maximum(np.maximum(spread, sigma_own[:, None]), peers.floor)
    score = np.minimum(worse / effect[:, None], worse / (peers.sigmas * sigma))
    score = np.minimum(score, bad_side(residual, bad) / (0.5 * effect[:, None]))
    return np.maximum(score, 0.0), change


NOTHING, PLENTY = 0.01, 0.5
"""Shares of the peers' median below which a port carries next to nothing, and from which it carries its part."""


def dead(residual: Floats, entity_code: NDArray[np.int32]) -> Floats:
    """1 for rows (on a logarithmic scale) that carry next to nothing while another row of their node carries its part,
    0 for others, NaN without a comparison. A job that sends nothing, or a node that does not work, is no dead port."""
    with np.errstate(invalid="ignore"):
        plenty = residual >= np.log(PLENTY)
        nothing = residual <= np.log(NOTHING)
    size = int(entity_code.max(initial=-1)) + 1
    working = np.zeros((size, residual.shape[1]))
    for column in range(residual.shape[1]):
        working[:, column] = np.bincount(entity_code, weights=plenty[:, column], minlength=size)
    score = np.where(nothing & (working[entity_code] > 0), 1.0, 0.0)
    return np.where(np.isnan(residual), np.nan, score)


def segments(codes: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Column ranges over which no row's code changes."""
    if codes.shape[1] == 0:
        return []
    change = np.flatnonzero((codes[:, 1:] != codes[:, :-1]).any(axis=0)) + 1
    bounds = [0, *change.tolist(), codes.shape[1]]
    return list(itertools.pairwise(bounds))
