"""`anomaly check pipelines/gpu-cluster.yaml --against` on three clusters: short, and right to the letter."""

from pathlib import Path

import pytest

from anomaly.cli.check_words import WIDTH
from tests.cli.parts import golden, widest
from tests.e2e import check_clusters

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MOST_LINES = 50


@pytest.mark.parametrize("name", check_clusters.CLUSTERS)
def test_what_is_said_fits_a_screen_and_is_right(name: str, tmp_path: Path) -> None:
    with check_clusters.CLUSTERS[name](tmp_path) as stage:
        told = check_clusters.told(stage, tmp_path)
    assert len(told.splitlines()) <= MOST_LINES
    assert widest(told) <= WIDTH
    golden(f"check/{name}.txt", told)


def test_what_is_proposed_can_be_pasted_and_opens_the_eye(tmp_path: Path) -> None:
    with check_clusters.default_dcgm(tmp_path) as stage:
        told = check_clusters.told(stage, tmp_path)
        assert "iteration_seconds (unverified), training_step (unverified): training jobs have no standard" in told
        proposed = told[told.index("signals:\n") + len("signals:\n") :].partition("\nstorage")[0]
        text = stage.pipeline.read_text()
        own = next(line for line in text.splitlines() if line.startswith("  iteration_seconds:"))
        stage.pipeline.write_text(text.replace(own, proposed))
        again = check_clusters.told(stage, tmp_path)
    rows = {line.split()[0]: line.split()[1:4] for line in again.splitlines() if line}
    assert rows["iteration_seconds"] == ["pretrain_iteration_time_ms", "12", "2"]
    assert rows["training_step"] == ["pretrain_steps", "12", "2"]
    assert "have no standard" not in again
