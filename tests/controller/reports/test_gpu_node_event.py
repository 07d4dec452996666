"""Events about GPUNodes are such as the API server takes, however long the words are."""

from datetime import UTC, datetime

from cotenant.controller.reports.gpu_node_event import NOTE_CHARS_MAX, gpu_node_event


def test_an_event_names_the_node_and_is_as_long_as_may_be() -> None:
    found = gpu_node_event("n1", "GPUReset", "x" * 5000, datetime(2026, 1, 1, tzinfo=UTC), warning=False)
    assert found["involvedObject"] == {"apiVersion": "cotenant.dev/v1alpha1", "kind": "GPUNode", "name": "n1"}
    assert (found["type"], found["reason"], found["firstTimestamp"]) == ("Normal", "GPUReset", "2026-01-01T00:00:00Z")
    assert len(found["message"]) == NOTE_CHARS_MAX
