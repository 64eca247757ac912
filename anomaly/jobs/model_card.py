"""The card of a trained model: what it is, in words, for whoever has to trust it."""

from anomaly.clock import format_duration, format_time
from anomaly.features.cube import FEATURES
from anomaly.jobs.models import Manifest


def card(manifest: Manifest, nodes: int) -> str:
    """Markdown."""
    expected = manifest.maxima * (1.0 - manifest.quantile)
    if manifest.calibrated:
        boundary = (
            f"The boundary is the {manifest.quantile:.2%} quantile of {manifest.maxima:,} hourly maxima of held-out nodes: "
            f"about {expected:.0f} of them lie beyond it."
        )
    else:
        boundary = (
            f"The boundary is a prior, not a calibration: {manifest.maxima:,} hourly maxima of held-out nodes would lead "
            f"one to expect only {expected:.1f} beyond the {manifest.quantile:.2%} quantile. It lies at the largest of "
            "them, or higher."
        )
    lines = [
        f"# node-forest {manifest.version}",
        "",
        "An isolation forest that looks for nodes which deviate from their peers in several ways at once. It is a second",
        "opinion: alone it makes a note and, after four hours, a ticket; with a statistical score just under its boundary",
        "in the same symptom class it completes that one. It does not see single large deviations better than small",
        "ones, and it cannot see what metrics do not show.",
        "",
        f"- Learnt from {manifest.rows:,} windows of {format_duration(manifest.window)} on {nodes} nodes, from "
        f"{format_time(manifest.trained_from)} to {format_time(manifest.trained_through)}; the newest "
        f"{manifest.held_out_rows:,} windows were held out for calibration.",
        f"- Left out: {manifest.left_out_rows:,} windows near findings.",
        f"- {boundary}",
        f"- Own score: {manifest.usual:.4f} usual, {manifest.boundary:.4f} at the boundary.",
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
