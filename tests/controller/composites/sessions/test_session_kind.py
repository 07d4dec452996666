"""A session on the double of the API server: the operator's own cache and reconciler, writes behind the fence."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.client.kube import SESSIONS, TRAINING_JOBS
from tests.controller.composites.sessions.builders import SessionStory
from tests.controller.execution.replica import Replica, phase, simulate_time, submit

pytestmark = pytest.mark.looptime
JOB = "nb-session"


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


async def reconcile(replica: Replica) -> None:
    """What the watch hands on is taken in, and the session has one step."""
    replica.kube.deliver(replica.operator.feed.on_event)
    (sessions,) = (one for one in replica.operator.composites if one.composite.kind == "Session")
    for resource in (SESSIONS, TRAINING_JOBS):
        sessions.replace(resource, await replica.kube.list(resource))
    await sessions.reconcile("red/nb")


def put(replica: Replica, **spec: Any) -> None:
    document = SessionStory(**spec).document
    metadata = {"name": "nb", "namespace": "red"}
    known = replica.kube.stored(SESSIONS, "nb", "red")
    replica.kube.put(SESSIONS, (known or {}) | document | {"metadata": known["metadata"] if known else metadata})


async def test_it_gets_a_place_in_the_line_of_its_queue_and_gives_it_back_when_it_is_stopped() -> None:
    replica = Replica()
    put(replica)
    await reconcile(replica)
    await replica.run()
    await reconcile(replica)
    assert phase(replica.kube, JOB) == "Starting"
    found = replica.kube.stored(SESSIONS, "nb", "red")
    assert found
    assert (found["status"]["phase"], found["status"]["job"]) == ("Starting", JOB)
    replica.kube.put(SESSIONS, found | {"spec": found["spec"] | {"suspend": True}})
    await reconcile(replica)
    job = replica.kube.stored(TRAINING_JOBS, JOB, "red")
    assert job
    assert job["spec"]["suspend"] is True


@pytest.mark.parametrize(("came", "first"), [("2026-01-02", True), ("2025-12-31", False)])
async def test_one_that_is_resumed_is_before_jobs_that_came_after_its_first_start(came: str, first: bool) -> None:
    replica = Replica()
    put(replica)
    await reconcile(replica)
    found = replica.kube.stored(SESSIONS, "nb", "red")
    assert found
    replica.kube.put(SESSIONS, found | {"spec": found["spec"] | {"suspend": True}})
    await reconcile(replica)
    submit(replica.kube, "other", workers=4, creationTimestamp=f"{came}T00:00:00Z")  # wants all that there is
    replica.kube.put(SESSIONS, found | {"spec": found["spec"] | {"suspend": False}})
    await reconcile(replica)
    await replica.run()
    placed = {name: phase(replica.kube, name) for name in (JOB, "other")}
    assert placed == {JOB: "Starting" if first else "Pending", "other": "Pending" if first else "Starting"}
