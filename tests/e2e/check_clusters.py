"""Three clusters behind a real Prometheus, to be checked against: dcgm-exporter as it comes, everything on, real nodes.

`python -m tests.e2e.check_clusters NAME` prints what `anomaly check --against` says of one.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from anomaly.clock import HOUR, MINUTE, format_time, parse_time
from anomaly.source.simulated import Scenario, make_cluster, write_openmetrics
from tests import needs
from tests.e2e import harness, real_nodes

SHIPPED = Path(__file__).parents[2] / "pipelines" / "gpu-cluster.yaml"
START = parse_time("2026-03-02T09:30:00Z")

DEFAULT_COUNTERS = frozenset(
    """
    DCGM_FI_DEV_SM_CLOCK DCGM_FI_DEV_MEM_CLOCK DCGM_FI_DEV_MEMORY_TEMP DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_POWER_USAGE
    DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION DCGM_FI_DEV_PCIE_REPLAY_COUNTER DCGM_FI_DEV_GPU_UTIL
    DCGM_FI_DEV_MEM_COPY_UTIL DCGM_FI_DEV_ENC_UTIL DCGM_FI_DEV_DEC_UTIL DCGM_FI_DEV_XID_ERRORS DCGM_FI_DEV_FB_FREE
    DCGM_FI_DEV_FB_USED DCGM_FI_DEV_FB_RESERVED DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL DCGM_FI_DEV_VGPU_LICENSE_STATUS
    DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_ROW_REMAP_FAILURE
    DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_PIPE_TENSOR_ACTIVE DCGM_FI_PROF_DRAM_ACTIVE DCGM_FI_PROF_PCIE_TX_BYTES
    DCGM_FI_PROF_PCIE_RX_BYTES
    """.split()  # noqa: SIM905 - a list of words is easier to hold against the CSV
)
"""What is active in dcgm-exporter's etc/default-counters.csv: no ECC, no throttling, no NVLink errors."""

OFF_BY_DEFAULT = re.compile(r"node_ethtool_\w+|node_infiniband_(out_of_buffer|np_cnp)\w+|juicefs_\w+")
"""What node_exporter before 1.11 does not export without flags, and storage that nobody scrapes."""

ONE_NODE_LESS = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
"""On one node another profiler holds the counters."""

OWN_NAMES = {"train_step_seconds": "pretrain_iteration_time_ms", "train_global_step": "pretrain_steps"}
"""Training metrics have no standard name."""


@dataclass(frozen=True)
class Stage:
    """A cluster's Prometheus, the pipeline that asks it, and the moment it is asked about."""

    url: str
    pipeline: Path
    at: str


def told(stage: Stage, folder: Path) -> str:
    """Standard output of `anomaly check PIPELINE --against --at …`."""
    words = ["check", str(stage.pipeline), "--against", "--at", stage.at]
    with harness.anomaly_process(words, folder) as process:
        code = process.wait(120)
        if code:
            raise AssertionError(process.errors())
        return process.output()


@contextmanager
def default_dcgm(folder: Path) -> Iterator[Stage]:
    """dcgm-exporter's own set, an older node_exporter without flags, step time under a name of one's own."""

    def kept(line: str) -> str | None:
        name = re.split(r"[{ ]", line, maxsplit=1)[0]
        if (name.startswith("DCGM_") and name not in DEFAULT_COUNTERS) or OFF_BY_DEFAULT.fullmatch(name):
            return None
        if name == ONE_NODE_LESS and f'Hostname="{LAST_NODE}"' in line:
            return None
        for shipped, own in OWN_NAMES.items():
            line = line.replace(f"{shipped}{{", f"{own}{{")
        return line

    with _simulated(folder, kept) as stage:
        yield stage


@contextmanager
def everything_on(folder: Path) -> Iterator[Stage]:
    """Every exporter with every field that the shipped pipeline asks for."""
    with _simulated(folder, lambda line: line) as stage:
        yield stage


CLUSTER = make_cluster(5, nodes=12, gpus=4, jobs=2, rails=2)
LAST_NODE = CLUSTER.nodes[-1].name


@contextmanager
def _simulated(folder: Path, kept: Callable[[str], str | None]) -> Iterator[Stage]:
    scenario = Scenario(CLUSTER, (), START, START + HOUR // 2, seed=1)
    for path in write_openmetrics(scenario, folder / "om"):
        lines = (kept(line) for line in path.read_text().splitlines())
        path.write_text("\n".join(line for line in lines if line is not None) + "\n")
    harness.backfill(sorted((folder / "om").iterdir()), folder / "data")
    # As Prometheus ships, so that a node's silence shows as age.
    with harness.prometheus(folder / "data", flags=("--query.lookback-delta=5m",)) as url:
        pipeline = folder / "gpu-cluster.yaml"
        pipeline.write_text(SHIPPED.read_text().replace("http://127.0.0.1:9090", url))
        yield Stage(url, pipeline, format_time(START + 29 * MINUTE))


@contextmanager
def real(folder: Path) -> Iterator[Stage]:
    """Three production nodes in the middle of a day; samples lie ten minutes apart."""
    data, loader = needs.public_data("gwdg_gpu/open"), needs.public_tools("gwdg_openmetrics.py")
    segments = [str(next((data / "segments").glob(f"{name}*.parquet"))) for name in real_nodes.MARCH.segments]
    load = [sys.executable, str(loader), *segments, "--inventory", str(data / "gpu_inventory.csv")]
    span = ["--from", "2025-03-20", "--to", "2025-03-20 12:00"]
    subprocess.run([*load, "--out", str(folder / "om"), *span], check=True, capture_output=True)
    harness.backfill(sorted((folder / "om").glob("*.om")), folder / "data")
    with harness.prometheus(folder / "data", flags=("--query.lookback-delta=11m",)) as url:
        pipeline = folder / "gpu-cluster.yaml"
        text = SHIPPED.read_text().replace("http://127.0.0.1:9090", url)
        pipeline.write_text(text.replace("step: 15s ", "step: 10m "))
        yield Stage(url, pipeline, "2025-03-20T12:01:00Z")


CLUSTERS: Mapping[str, Callable[[Path], AbstractContextManager[Stage]]] = {
    "default-dcgm": default_dcgm,
    "everything-on": everything_on,
    "real-nodes": real,
}


def main() -> None:
    """Print what is said of the clusters named."""
    for name in sys.argv[1:] or CLUSTERS:
        with tempfile.TemporaryDirectory() as temporary, CLUSTERS[name](Path(temporary)) as stage:
            sys.stdout.write(told(stage, Path(temporary)))


if __name__ == "__main__":
    main()
