"""A simulated GPU training cluster: seeded, with faults of known onset, as a source and as OpenMetrics files."""

from anomaly.source.simulated.faults import KINDS, Fault
from anomaly.source.simulated.layout import Cluster, make_cluster, topology_csv
from anomaly.source.simulated.noise import NOISE, Noise
from anomaly.source.simulated.openmetrics import write_openmetrics
from anomaly.source.simulated.place import place_faults
from anomaly.source.simulated.scenario import Scenario
from anomaly.source.simulated.source import LiveSimulatedSource, SimulatedSource
from anomaly.source.simulated.truth import truth

FAULT_TYPES: tuple[str, ...] = tuple(KINDS)
NOISE_TYPES: tuple[str, ...] = tuple(NOISE)

__all__ = [
    "FAULT_TYPES",
    "NOISE_TYPES",
    "Cluster",
    "Fault",
    "LiveSimulatedSource",
    "Noise",
    "Scenario",
    "SimulatedSource",
    "make_cluster",
    "place_faults",
    "topology_csv",
    "truth",
    "write_openmetrics",
]
