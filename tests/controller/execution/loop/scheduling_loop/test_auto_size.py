"""`spec.gpu.autoSize` from one attempt, and from one job, to the next."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import TRAINING_JOBS
from tests.controller.execution.replica import Replica, new_kube, status
from tests.support.fake_kube import FakeKube

pytestmark = pytest.mark.looptime

SUGGESTION = {"memoryMiB": 12_288, "peakMiB": 9_000, "basis": "measured", "at": "2026-01-01T00:00:00Z"}


def put(kube: FakeKube, name: str, state: dict[str, Any] | None = None, *, auto: bool = True) -> None:
    gpu = {"memory": "32Gi", "computeFraction": "0.1"} | ({"autoSize": True} if auto else {})
    spec = {"queue": "red", "workers": 2, "gpu": gpu, "runtime": {"entrypoint": "train:main"}}
    document = {"apiVersion": names.API_VERSION, "kind": "TrainingJob", "metadata": {"name": name, "namespace": "red"}}
    kube.put(TRAINING_JOBS, document | {"spec": spec} | ({"status": state} if state else {}))


def held(kube: FakeKube, name: str) -> tuple[set[int], str | None]:
    """MiB that its ranks hold, and what its status says of it."""
    found = status(kube, name)
    grants = [
        grant["memoryMiB"] for node in found["placement"]["nodes"] for rank in node["ranks"] for grant in rank["gpus"]
    ]
    return set(grants), found.get("gpus")


async def test_the_next_attempt_takes_what_was_measured_to_do() -> None:
    kube = new_kube()
    put(kube, "again", {"phase": "Pending", "attempts": 1, "suggestion": SUGGESTION})
    put(kube, "fixed", {"phase": "Pending", "attempts": 1, "suggestion": SUGGESTION}, auto=False)
    await Replica(kube).run()
    assert held(kube, "again") == ({12_288}, "2 × 12Gi")
    assert held(kube, "fixed") == ({32_768}, "2 × 32Gi")


async def test_a_later_job_of_the_same_name_but_for_a_number_takes_it_at_its_first_attempt() -> None:
    kube = new_kube()
    put(kube, "train-1", {"phase": "Succeeded", "attempts": 1, "suggestion": SUGGESTION})
    put(kube, "train-2")
    put(kube, "other-2")
    await Replica(kube).run()
    assert held(kube, "train-2") == ({12_288}, "2 × 12Gi")
    assert status(kube, "train-2")["suggestion"]["basis"] == "measured of an earlier job of this name"
    assert held(kube, "other-2") == ({32_768}, "2 × 32Gi")
