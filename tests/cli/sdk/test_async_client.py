"""Verbs against the API server's rules, in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cotenant.controller.client import kube
from cotenant.sdk.async_client import AsyncClient
from cotenant.sdk.errors import MissingObjectError, RequestRefusedError
from cotenant.sdk.job import JobRequest
from tests.cli.sdk.served_kube import ServedKube


@pytest.fixture
def job(tmp_path: Path) -> JobRequest:
    (tmp_path / "train.py").write_text("print(1)")
    return JobRequest(tmp_path / "train.py", name="one")


def names_of(served: ServedKube, resource: kube.Resource) -> list[str]:
    return sorted(key[1] for key in served.kube._objects if key[0] == resource)


async def test_files_belong_to_the_job_that_needs_them(
    client: AsyncClient, served: ServedKube, job: JobRequest
) -> None:
    run = await client.submit(job)
    code = served.kube.stored(kube.CONFIG_MAPS, "one-code", "team-a")
    assert code is not None
    assert code["data"] == {"train.py": "print(1)"}
    assert [(one["kind"], one["uid"]) for one in code["metadata"]["ownerReferences"]] == [("TrainingJob", run.uid)]


async def test_a_job_whose_files_cannot_be_made_is_not_left_behind(
    client: AsyncClient, served: ServedKube, job: JobRequest
) -> None:
    served.kube.put(kube.CONFIG_MAPS, {"metadata": {"name": "one-code", "namespace": "team-a"}})
    with pytest.raises(RequestRefusedError, match="already exists"):
        await client.submit(job)
    assert names_of(served, kube.TRAINING_JOBS) == []


async def test_a_plan_is_the_operators_answer_and_makes_nothing(
    client: AsyncClient, served: ServedKube, job: JobRequest
) -> None:
    path = "/apis/query.cotenant.dev/v1alpha1/namespaces/team-a/whatifs"
    served.answers[path] = {
        "status": {
            "outcome": "Waits",
            "asks": "1 GPU",
            "reason": "WaitingForGPUs",
            "message": "None is free.",
            "estimatedStart": "2026-01-01T00:10:00Z",
            "wouldStartIf": "it took half a GPU",
            "delayed": [{"job": "(another)", "asks": "1 GPU", "why": "it is younger"}],
        }
    }
    plan = await client.plan(job)
    assert str(plan).splitlines() == [
        "team-a/one would wait for 1 GPU: WaitingForGPUs",
        "None is free.",
        "  delayed by it: (another), 1 GPU: it is younger",
        "Would start at about 2026-01-01 00:10:00+00:00.",
        "Would start now if it took half a GPU.",
    ]
    assert (plan.starts_now, plan.reason, plan.delayed) == (False, "WaitingForGPUs", ["(another)"])
    assert names_of(served, kube.TRAINING_JOBS) == []
    run = await client.submit(plan)
    assert names_of(served, kube.TRAINING_JOBS) == [f"team-a/{run.name}"]


async def test_a_map_is_made_whole_or_not_at_all(client: AsyncClient, served: ServedKube, job: JobRequest) -> None:
    runs = await client.map(job, [["--lr", 0.1], ["--lr", 0.2]])
    words: list[Any] = [(await run.document())["spec"]["runtime"]["command"] for run in runs]
    assert words == [["python", "train.py", "--lr", "0.1"], ["python", "train.py", "--lr", "0.2"]]
    for run in runs:
        await run.delete()
    served.kube.put(kube.TRAINING_JOBS, {"metadata": {"name": "one-2", "namespace": "team-a"}})
    with pytest.raises(RequestRefusedError):
        await client.map(job, [[0], [1], [2], [3]])
    assert names_of(served, kube.TRAINING_JOBS) == ["team-a/one-2"]


async def test_a_handle_is_of_one_job_not_of_its_name(client: AsyncClient, served: ServedKube, job: JobRequest) -> None:
    first = await client.submit(job)
    served.kube.remove(kube.CONFIG_MAPS, "one-code", "team-a")
    await first.delete()
    again = await client.submit(job)
    assert (await client.get("one")).uid == again.uid
    assert [run.name for run in await client.runs()] == ["one"]
    with pytest.raises(MissingObjectError, match="another TrainingJob has its name"):
        await first.status()
