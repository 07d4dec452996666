"""Events about a job that holds GPUs: what a tenant has to see is a Warning."""

from __future__ import annotations

import pytest

from cotenant.api.resources.gpunodes import Violation
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.lifecycle.observation import EventToRecord, Observation
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, observed, pod, server

ONE = (("n1", 2),)
OVER = Violation(pod_uid="pod-1-0", uuid="GPU-n1-0", memory_mib=40_000, quota_mib=32_768, since=T0)


def event_of(o: Observation) -> EventToRecord:
    event = reconcile(o, Settings()).event
    assert event is not None
    return event


@pytest.mark.parametrize(
    ("o", "reason", "warning"),
    [
        (observed(admitted(Phase.STARTING, *ONE), pod(ready=True)), "Running", False),
        (observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), spec={"suspend": True}), "Suspended", False),
        (observed(TrainingJobStatus(phase=Phase.RUNNING, attempts=1), pod(ready=True)), "PlacementLost", True),
        (observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), error="is held"), "PlacementImpossible", True),
        (
            observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), violations={"pod-1-0": OVER}),
            "GPUMemoryQuotaExceeded",
            True,
        ),
        (observed(admitted(Phase.STARTING, *ONE), pod(), creation_delay="no quota"), "NotCreated", True),
    ],
    ids=["up", "suspended", "placement removed", "placement edited", "over its GPU memory", "pods cannot be made"],
)
def test_what_a_tenant_has_to_see_is_a_warning(o: Observation, reason: str, warning: bool) -> None:
    event = event_of(o)
    assert (event.reason, event.warning) == (reason, warning)


def test_servers_are_named_beside_the_workers_that_run() -> None:
    status = admitted(Phase.STARTING, *ONE, servers=1)
    event = event_of(observed(status, pod(ready=True), server(nodes=1, ready=True)))
    assert event.message == "2 workers running in 1 pod, 1 parameter server beside them"


def test_the_first_start_is_kept_over_later_ones() -> None:
    first = reconcile(observed(admitted(Phase.STARTING, *ONE), pod(ready=True), now=T0 + 5), Settings()).status
    assert first is not None
    assert first.started_at is not None
    assert first.started_at.timestamp() == T0 + 5
    again = admitted(Phase.STARTING, *ONE, started_at=first.started_at)
    later = reconcile(observed(again, pod(ready=True), now=T0 + 50), Settings()).status
    assert later is not None
    assert later.started_at == first.started_at
