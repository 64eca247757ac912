"""The card of a trained model: what it is, in words, for whoever has to trust it."""

from anomaly.clock import format_duration, format_time
from anomaly.detect.forest import EFFECT, EFFECT_FEATURES
from anomaly.features.cube import FEATURES
from anomaly.jobs.models import Manifest


def card(manifest: Manifest, nodes: int) -> str:
    """Markdown."""
    expected = manifest.maxima * (1.0 - manifest.quantile)
    tail = f"{manifest.maxima:,} hourly maxima of held-out nodes"
    if manifest.calibrated:
        boundary = (
            f"The tail of the fleet is the {manifest.quantile:.2%} quantile of {tail}: {expected:.0f} lie beyond it."
        )
    else:
        boundary = (
            f"The tail of the fleet is a prior, not a calibration: of {tail} one expects only {expected:.1f} beyond "
            f"the {manifest.quantile:.2%} quantile, so the largest of them counts."
        )
    if manifest.boundary <= manifest.effect:
        boundary += " The boundary is the effect floor, which lies higher."
    constant = ", ".join(manifest.constant) or "none"
    lines = [
        f"# node-forest {manifest.version}",
        "",
        "An isolation forest that looks for nodes which deviate from their peers in several ways at once. It is a",
        "second opinion: alone it makes a note and, after four hours, a ticket; with a statistical score just under",
        "its boundary in the same symptom class it completes that one. Single large deviations it sees no better than",
        "small ones, and it cannot see what metrics do not show.",
        "",
        f"- Learnt from {manifest.rows:,} windows of {format_duration(manifest.window)} on {nodes} nodes, from "
        f"{format_time(manifest.trained_from)} to {format_time(manifest.trained_through)}; the newest "
        f"{manifest.held_out_rows:,} windows were held out for calibration.",
        f"- Left out: {manifest.left_out_rows:,} windows near findings.",
        f"- {boundary}",
        f"- The forest's own score: {manifest.usual:.4f} usual, {manifest.effect:.4f} for {EFFECT:g} spreads in "
        f"{EFFECT_FEATURES} features (the effect floor), {manifest.boundary:.4f} at the boundary.",
        f"- Features without any variation in this history, which take no part: {constant}.",
        f"- Made with scikit-learn {manifest.sklearn}, skops {manifest.skops}, NumPy {manifest.numpy}, "
        f"seed {manifest.seed}, at {format_time(manifest.trained_at)}. It is not used with another scikit-learn.",
        "",
        "| feature | unit | symptom class | usual in the fleet | spread |",
        "|---|---|---|---|---|",
    ]
    for name, centre, spread in zip(manifest.features, manifest.centre, manifest.spread, strict=True):
        feature = FEATURES[name]
        lines.append(f"| {name}: {feature.about} | {feature.unit} | {feature.symptom} | {centre:.4g} | {spread:.4g} |")
    return "\n".join(lines) + "\n"
