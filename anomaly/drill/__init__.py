"""Fault drills: a fault (or what only looks like one) in a small simulated cluster, through the production tick."""

from anomaly.drill.run import Drilled, Said, drill
from anomaly.drill.spread import drill_all
from anomaly.drill.stage import DRILLS, Stage, stage

__all__ = ["DRILLS", "Drilled", "Said", "Stage", "drill", "drill_all", "stage"]
