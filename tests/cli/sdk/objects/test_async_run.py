"""A submitted job followed to its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client import kube
from cotenant.sdk.errors import JobFailedError, JobTimeoutError, MissingObjectError
from cotenant.sdk.objects import async_run
from cotenant.sdk.objects.async_run import AsyncRun
from tests.cli.sdk.served_kube import ServedKube


@pytest.fixture
def served() -> ServedKube:
    return ServedKube()


def put(served: ServedKube, **status: Any) -> AsyncRun:
    document = {"metadata": {"name": "one", "namespace": "team-a", "uid": "u1"}, "spec": {}, "status": status}
    served.kube.put(kube.TRAINING_JOBS, document)
    return AsyncRun(served, "team-a", "one", "u1")  # type: ignore[arg-type]


async def test_the_result_is_awaited_through_watches_that_end(served: ServedKube) -> None:
    run = put(served, phase="Pending")
    waiting = asyncio.create_task(run.result())
    await asyncio.sleep(0)
    put(served, phase="Running")
    served.kube.end_watches()
    await asyncio.sleep(0)
    put(served, phase="Succeeded", results={"accuracy": 0.9})
    assert await asyncio.wait_for(waiting, 5) == {"accuracy": 0.9}


async def test_a_failure_carries_rank_exit_code_and_the_last_lines(served: ServedKube) -> None:
    ended = {"rank": 1, "code": 1, "reason": "ProgramFailed", "tail": ["Traceback", "ValueError: no"]}
    run = put(served, phase="Failed", reason="ProgramFailed", message="rank 1 raised ValueError", lastExit=ended)
    with pytest.raises(JobFailedError) as failed:
        await run.result()
    assert (failed.value.rank, failed.value.exit_code) == (1, 1)
    assert str(failed.value) == (
        "team-a/one, rank 1: ProgramFailed: rank 1 raised ValueError\n\nTraceback\nValueError: no"
    )


class LateOperator(ServedKube):
    """Its operator has not seen any job, the first times that it is asked."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def request(self, method: str, path: str, *more: Any, **others: Any) -> dict[str, Any]:
        if "/explanations/" not in path:
            return await super().request(method, path, *more, **others)
        self.times -= 1
        if self.times >= 0:
            raise MissingObjectError("not found")
        return {"status": {"standing": "Waiting"}}


async def test_why_waits_for_an_operator_that_has_not_seen_the_new_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_run, "ASKED_S", 0)
    assert await put(LateOperator(3), phase="Pending").why() == {"standing": "Waiting"}
    with pytest.raises(MissingObjectError, match="has not seen team-a/one yet: ask again"):
        await put(LateOperator(10_000), phase="Pending").why()
    gone = LateOperator(10_000)
    with pytest.raises(MissingObjectError, match="not found"):
        await AsyncRun(gone, "team-a", "nobody", "u1").why()  # type: ignore[arg-type]
    assert gone.times == 9_999, "a job that is not there is not asked about again"


class WaitingRun(AsyncRun):
    async def versions(self) -> AsyncIterator[dict[str, Any]]:
        yield {"status": {"phase": "Pending", "message": "Needs 2 GPUs."}}
        await asyncio.Event().wait()


async def test_a_wait_that_ends_too_early_says_what_the_job_waits_for(served: ServedKube) -> None:
    run = WaitingRun(served, "team-a", "a", "u1")  # type: ignore[arg-type]
    with pytest.raises(JobTimeoutError, match=r"^team-a/a has not ended after 0\.01 s; it is Pending: Needs 2 GPUs\.$"):
        await run.wait(0.01)


async def test_a_wait_has_an_end(served: ServedKube) -> None:
    run = put(served, phase="Running")
    with pytest.raises(JobTimeoutError, match=r"after 0\.01 s"):
        await run.wait(0.01)


async def test_a_job_that_is_deleted_ends_its_wait(served: ServedKube) -> None:
    run = put(served, phase="Running")
    waiting = asyncio.create_task(run.wait())
    await asyncio.sleep(0)
    served.kube.remove(kube.TRAINING_JOBS, "one", "team-a")
    with pytest.raises(MissingObjectError, match="deleted before it ended"):
        await asyncio.wait_for(waiting, 5)


async def test_events_come_once_for_each_change_that_a_person_would_see(served: ServedKube) -> None:
    run = put(served)  # no operator has seen it yet
    seen: list[str] = []

    async def follow() -> None:
        seen.extend([one["phase"] + (one.get("progress") or {}).get("summary", "") async for one in run.events()])

    following = asyncio.create_task(follow())
    for status in (
        {"phase": "Pending", "reason": "WaitingForGPUs"},
        {"phase": "Pending", "reason": "WaitingForGPUs", "attempts": 0},
        {"phase": "Running"},
        {"phase": "Running", "progress": {"summary": " 1/2"}},
        {"phase": "Succeeded"},
    ):
        await asyncio.sleep(0)
        put(served, **status)
    await asyncio.wait_for(following, 5)
    assert seen == ["Pending", "Running", "Running 1/2", "Succeeded"]


async def test_stop_and_resume_write_what_a_person_would(served: ServedKube) -> None:
    run = put(served, phase="Running")
    await run.stop()
    assert (await run.document())["spec"] == {"suspend": True}
    await run.resume()
    assert (await run.document())["spec"] == {"suspend": False}
    await run.delete()
    await run.delete()
    with pytest.raises(MissingObjectError):
        await run.phase()


def pod(served: ServedKube, name: str, ranks: dict[str, Any], attempt: int = 2) -> None:
    labels = {names.LABEL_JOB_UID: "u1", names.LABEL_ATTEMPT: str(attempt)}
    annotations = {names.ANNOTATION_PLACEMENT: json.dumps({"ranks": ranks})}
    metadata = {"name": name, "namespace": "team-a", "labels": labels, "annotations": annotations}
    served.kube.put(kube.PODS, {"metadata": metadata, "spec": {}, "status": {}})
    served.printed[name] = [f"from {name}"]


async def test_logs_are_of_the_newest_attempt_in_the_order_of_ranks(served: ServedKube) -> None:
    run = put(served, phase="Running", attempts=2)
    pod(served, "one-2-1", {"2": {}, "3": {}})
    pod(served, "one-2-0", {"0": {}, "1": {}})
    pod(served, "one-1-0", {"0": {}}, attempt=1)
    assert [line async for line in run.logs()] == ["from one-2-0", "from one-2-1"]
    assert [line async for line in run.logs(rank=3, follow=True, tail=5)] == ["from one-2-1"]
    assert served.asked[-1] == (
        "GET /api/v1/namespaces/team-a/pods/one-2-1/log",
        {"container": names.CONTAINER, "tailLines": "5", "follow": "true"},
    )
    with pytest.raises(ValueError, match="name one of their ranks"):
        _ = [line async for line in run.logs(follow=True)]


async def test_logs_of_a_job_on_another_cluster_are_asked_of_the_operator(served: ServedKube) -> None:
    run = put(served, phase="Running", cluster={"name": "west", "namespace": "far", "job": "one-1", "attempts": 2})
    there = "/apis/query.cotenant.dev/v1alpha1/namespaces/team-a/remotejobs/one"
    served.answers[f"{there}/pods"] = {"items": [{"metadata": {"name": "one-1-2-0", "annotations": {}}}]}
    served.printed["log"] = ["from there"]
    assert [line async for line in run.logs()] == ["from there"]
    assert served.asked[-1][0] == f"GET {there}/log/one-1-2-0"


async def test_of_pods_that_are_gone_the_status_has_the_last_lines(served: ServedKube) -> None:
    run = put(served, phase="Failed", attempts=1, lastExit={"tail": ["a", "b"]})
    assert [line async for line in run.logs()] == ["a", "b"]
