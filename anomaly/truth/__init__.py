"""What really happened, and how what was said compares with it. Pure; above nothing but clock and errors."""

from anomaly.truth.facts import Decoy, Fault, Truth, read_truth
from anomaly.truth.figures import Alert, Outcome, Rate, Report, Wrong
from anomaly.truth.matching import judge

__all__ = ["Alert", "Decoy", "Fault", "Outcome", "Rate", "Report", "Truth", "Wrong", "judge", "read_truth"]
