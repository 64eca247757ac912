"""What readers find beside the database, and what goes when it is old."""

from pathlib import Path

import pytest

from anomaly.clock import DAY, HOUR, MINUTE
from anomaly.jobs.parts import Parts, open_pipeline_store
from anomaly.jobs.publish import clean_up, prune, publish, publish_hours, published_dir
from anomaly.store.published import manifest, read_archive, read_incidents, read_table
from tests.jobs.parts import T0, MemorySource, at, collect_to, parts_of, pipeline_in, score_to

NODES = [{"job": "node-exporter", "instance": f"gpu-{number:02d}:9100"} for number in range(1, 5)]


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    source = MemorySource({"up": (NODES, lambda labels, ts: 1.0)})
    return parts_of(pipeline_in(tmp_path, packs=["node"]), source)


def test_results_and_closed_hours_are_there_for_readers(parts: Parts) -> None:
    directory = published_dir(parts.pipeline)
    with open_pipeline_store(parts.pipeline) as store:
        collect_to(parts, store, at(80))
        score_to(parts, store, at(80))
        done = publish(store, parts.pipeline, at(80))
        assert done.results and done.hours and done.rollups == len(NODES)
        # While the service has the file open, nobody needs it.
        assert manifest(directory)["scored_through"] == at(80)
        assert read_incidents(directory) == []
        assert len(read_table(directory, "ticks")) == 80
        assert len(read_archive(directory, ["up"], T0, at(80))) == len(NODES) * 4 * 60 - len(NODES)
        again = publish(store, parts.pipeline, at(80))
        assert (again.results, again.hours, again.rollups) == ((), (), 0)


def test_old_samples_go_after_their_hour_is_published(parts: Parts) -> None:
    with open_pipeline_store(parts.pipeline) as store:
        collect_to(parts, store, at(80))
        score_to(parts, store, at(80))
        publish_hours(store, parts.pipeline, at(80))
        kept = prune(store, parts.pipeline, at(80))
        assert sum(kept.rows.values()) == 0 and kept.directories == 0
        late = T0 + 48 * HOUR + 70 * MINUTE
        gone = prune(store, parts.pipeline, late)
        assert gone.rows["samples"] == len(NODES) * 4 * 60 - len(NODES)
        assert len(read_archive(published_dir(parts.pipeline), ["up"], T0, at(80))) == gone.rows["samples"]
        much_later = prune(store, parts.pipeline, T0 + 31 * DAY)
        assert much_later.directories > 0
        assert read_archive(published_dir(parts.pipeline), ["up"], T0, at(80)) is None


def test_what_a_killed_writer_left_is_removed(parts: Parts) -> None:
    assert clean_up(parts.pipeline) == 0
    left = published_dir(parts.pipeline) / "ticks" / ".ticks.parquet.0123abcd.aside"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half a file")
    assert clean_up(parts.pipeline) == 1
    assert not left.exists()
