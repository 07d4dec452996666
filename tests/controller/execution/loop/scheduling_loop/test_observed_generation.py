"""A status says which version of the spec it is about, also if an edit changes nothing else of it."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.client.kube import TRAINING_JOBS
from tests.controller.execution.replica import Replica, new_kube, start_pods, status, submit

pytestmark = pytest.mark.looptime

ENDED = {"finishedAt": "2026-01-01T00:00:00Z", "attempts": 1}


@pytest.mark.parametrize(
    ("before", "edit"),
    [
        ({}, {"maxRuntime": "3h"}),
        ({"phase": "Suspended", "reason": "Suspended"}, {"suspend": True, "priority": 5}),
        ({"phase": "Succeeded", "reason": "Completed"} | ENDED, {"ttlAfterFinished": "1000h"}),
    ],
    ids=["it runs", "it is suspended", "it has finished"],
)
async def test_an_edit_that_changes_nothing_of_a_job_is_seen_as_observed(
    before: dict[str, Any], edit: dict[str, Any]
) -> None:
    kube = new_kube()
    document = submit(kube)
    if before:
        spec = document["spec"] | {name: value for name, value in edit.items() if name == "suspend"}
        kube.put(TRAINING_JOBS, document | {"spec": spec, "status": before})
    await Replica(kube).run()
    await start_pods(kube)
    await Replica(kube).run()
    edited = (await kube.patch(TRAINING_JOBS, "train", {"spec": edit}, namespace="red")).document
    await Replica(kube).run()
    assert edited["metadata"]["generation"] > 1
    assert status(kube)["observedGeneration"] == edited["metadata"]["generation"]
