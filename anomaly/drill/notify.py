"""What a drill found, to a real Alertmanager, for the human exercise: labelled `drill="true"`, gone when it lapses."""

from collections.abc import Sequence
from dataclasses import replace

from anomaly.clock import Ms
from anomaly.config.pipeline import Pipeline
from anomaly.deliver.payload import alert_states, to_body
from anomaly.deliver.sinks import AlertmanagerSink
from anomaly.errors import UsageError
from anomaly.jobs.parts import targets
from anomaly.records import Incident, OutboxEntry

LABEL = {"drill": "true"}


def notify(pipeline: Pipeline, incidents: Sequence[Incident], now: Ms) -> int:
    """Send every incident as an alert of the pipeline's cluster that fires from `now` until its lease runs out.

    How many alerts were sent to each Alertmanager. Raises UsageError where the pipeline has none, DeliveryError where
    one cannot be reached or refuses.
    """
    sinks = [each.sink for each in targets(pipeline) if isinstance(each.sink, AlertmanagerSink)]
    if not sinks:
        raise UsageError("this pipeline has no Alertmanager to notify", "add `alertmanagers` to the pipeline file")
    entries = []
    for incident in incidents:
        ours = replace(incident, cluster=pipeline.cluster)
        for state in alert_states(ours, starts_at=now):
            marked = replace(state, labels={**state.labels, **LABEL})
            entries.append(OutboxEntry(0, "drill", marked.key, incident.id, to_body(marked), now, None))
    for sink in sinks:
        for first in range(0, len(entries), sink.batch):
            sink.send(entries[first : first + sink.batch], now)
    return len(entries)
