"""The loop on an API server in memory: commits, cycles, what is remembered of a job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cotenant.controller.client.kube import GPU_NODES, PODS, TRAINING_JOBS, Document, Outcome, Reply
from cotenant.controller.execution.writes.executor import RETRY_S
from tests.controller.execution.replica import (
    SECRET,
    SETTINGS,
    Replica,
    collect_garbage,
    end_pods,
    gpu_node,
    granted,
    phase,
    start_pods,
    status,
    submit,
    writes,
)
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

pytestmark = pytest.mark.looptime

ALL = {"train-1-0": ["GPU-n1-0", "GPU-n1-1"], "train-1-1": ["GPU-n2-0", "GPU-n2-1"]}
COMMIT = "PATCH trainingjobs/train/status"
SIDE_OBJECTS = ["POST networkpolicies/train", "POST services/train", f"POST secrets/{SECRET}"]
PODS_OF_ALL = ["POST pods/train-1-0", "POST pods/train-1-1"]


async def test_an_admission_is_one_commit_and_then_what_follows_from_it() -> None:
    replica = Replica()
    submit(replica.kube)
    await replica.run()
    assert (phase(replica.kube), await granted(replica.kube)) == ("Starting", ALL)
    assert writes(replica.kube) == [COMMIT, *SIDE_OBJECTS, *PODS_OF_ALL]


@pytest.mark.parametrize("lost", ["answer", "request"])
async def test_a_commit_without_an_answer_is_looked_up_and_its_gpus_are_nobody_elses(lost: Any) -> None:
    replica = Replica()
    replica.kube.faults.add(Fault(call=COMMIT, lost=lost))
    submit(replica.kube)
    submit(replica.kube, "wants-one", workers=1)
    await replica.run(5.0)
    assert (phase(replica.kube), phase(replica.kube, "wants-one"), await granted(replica.kube)) == (
        "Starting",
        "Pending",
        ALL,
    )
    assert (status(replica.kube)["attempts"], writes(replica.kube).count(COMMIT)) == (1, 1)


async def test_a_commit_that_another_write_was_faster_than_is_decided_anew_from_what_that_one_wrote() -> None:
    replica = Replica()
    replica.kube.faults.add(Fault(call=COMMIT, first=lambda: submit(replica.kube, workers=1)))
    submit(replica.kube)
    await replica.run()
    assert await granted(replica.kube) == {"train-1-0": ["GPU-n1-0"]}
    assert writes(replica.kube)[:2] == [COMMIT, COMMIT]


async def test_a_job_that_is_gone_at_its_commit_leaves_nothing_behind_and_its_gpus_free() -> None:
    replica = Replica()
    replica.kube.faults.add(Fault(call=COMMIT, first=lambda: replica.kube.remove(TRAINING_JOBS, "train", "red")))
    submit(replica.kube)
    await replica.run()
    assert (writes(replica.kube), await granted(replica.kube)) == ([COMMIT], {})
    submit(replica.kube, "other")
    await replica.run()
    assert phase(replica.kube, "other") == "Starting"


async def test_a_commit_that_is_refused_is_tried_again_and_holds_no_gpus_meanwhile() -> None:
    replica = Replica()
    refusal = Reply(Outcome.REFUSED, message="denied by a webhook", code=403)
    replica.kube.faults.add(*(Fault(call=COMMIT, answer=refusal) for _ in range(3)))
    submit(replica.kube)
    await replica.run(10.0)
    assert (phase(replica.kube), await granted(replica.kube)) == ("Starting", ALL)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"lost": "request"}, id="the request is lost"),
        pytest.param({"lost": "answer"}, id="the answer is lost"),
        pytest.param({"answer": Reply(Outcome.EXISTS, code=409)}, id="there and gone again"),
    ],
)
@pytest.mark.parametrize("call", [*SIDE_OBJECTS, *PODS_OF_ALL])
async def test_an_admission_of_which_one_create_fails_is_completed(call: str, fault: dict[str, Any]) -> None:
    replica = Replica()
    replica.kube.faults.add(Fault(call=call, **fault))
    submit(replica.kube)
    await replica.run(5.0)
    assert (phase(replica.kube), status(replica.kube)["attempts"], await granted(replica.kube)) == ("Starting", 1, ALL)


@pytest.mark.parametrize("call", [*SIDE_OBJECTS, *PODS_OF_ALL])
async def test_an_admission_over_a_quota_gives_its_gpus_back_and_is_tried_again_by_itself(call: str) -> None:
    replica = Replica()
    refusal = Reply(Outcome.REFUSED, message="exceeded quota", code=403)
    replica.kube.faults.add(Fault(call=call, answer=refusal))
    submit(replica.kube)
    await replica.run()
    assert (phase(replica.kube), status(replica.kube)["reason"]) in [
        ("Pending", "PodRefused"),
        ("Evicting", "PodRefused"),
    ]
    await end_pods(replica.kube)
    await replica.run(10.0)
    assert (phase(replica.kube), status(replica.kube)["attempts"]) == ("Starting", 2)


async def test_a_pod_that_the_api_server_will_never_take_ends_the_attempt_with_its_message() -> None:
    replica = Replica()
    refusal = Reply(Outcome.REFUSED, message="spec: Invalid value", code=422, fields=("spec.containers[0].image",))
    replica.kube.faults.add(Fault(call="POST pods/train-1-1", answer=refusal))
    submit(replica.kube)
    await replica.run()
    assert "the API server does not take pods/train-1-1: spec: Invalid value" in status(replica.kube)["message"]


async def test_a_job_that_was_made_to_wait_by_hand_starts_again_once_its_pods_have_ended() -> None:
    replica = Replica()
    submit(replica.kube, workers=1)
    await replica.run()
    await start_pods(replica.kube)
    await replica.run()
    edited = status(replica.kube) | {"phase": "Pending"}
    document = replica.kube.stored(TRAINING_JOBS, "train", "red")
    assert document is not None
    replica.kube.put(TRAINING_JOBS, document | {"status": edited})
    await replica.run(5.0)
    assert (status(replica.kube)["attempts"], await granted(replica.kube)) == (2, {"!train-1-0": ["GPU-n1-0"]})
    await end_pods(replica.kube)
    await replica.run()
    assert await granted(replica.kube) == {"train-2-0": ["GPU-n1-1"]}


def report(kube: FakeKube, *pods: Document) -> None:
    """The agent of n1 reports these pods as holders of its first GPU."""
    holders = [
        {"podUID": pod["metadata"]["uid"], "namespace": "red", "pod": pod["metadata"]["name"], "job": "train",
         "jobUID": pod["metadata"]["ownerReferences"][0]["uid"], "attempt": 1, "nodeRank": 0, "evidence": "Processes",
         "gpus": [{"uuid": "GPU-n1-0", "memoryMiB": 81_920, "computeMilli": 1000}], "since": "2026-01-01T00:00:00Z"}
        for pod in pods
    ]  # fmt: skip
    agent = gpu_node("n1")
    kube.put(GPU_NODES, agent | {"status": agent["status"] | {"holders": holders}})


async def reported(replica: Replica) -> None:
    """A job of one worker whose pod has started, and is reported by the agent."""
    submit(replica.kube, workers=1)
    await replica.run()
    await start_pods(replica.kube)
    pod = replica.kube.stored(PODS, "train-1-0", "red")
    assert pod is not None
    report(replica.kube, pod)


async def test_a_pod_that_is_deleted_by_force_is_made_again_once_the_agent_sees_nothing_of_it() -> None:
    replica = Replica()
    await reported(replica)
    replica.observe()
    replica.kube.remove(PODS, "train-1-0", "red")
    await replica.run(5.0)
    assert (status(replica.kube)["reason"], await granted(replica.kube)) == ("PodStillRuns", {})
    report(replica.kube)
    await replica.run()
    assert (status(replica.kube)["attempts"], await granted(replica.kube)) == (1, {"train-1-0": ["GPU-n1-0"]})


@pytest.mark.parametrize("changes_leader", [False, True], ids=["one operator", "another leader meanwhile"])
async def test_a_running_job_whose_pod_is_deleted_by_force_starts_again_once_the_agent_sees_nothing_of_it(
    changes_leader: bool,
) -> None:
    """Both could save to the same files."""
    replica = Replica()
    await reported(replica)
    await replica.run()
    assert phase(replica.kube) == "Running"
    replica.kube.remove(PODS, "train-1-0", "red")
    await replica.run(5.0)
    if changes_leader:
        replica = Replica(replica.kube)
        await replica.run(5.0)
    assert (phase(replica.kube), status(replica.kube)["reason"]) == ("Evicting", "PodLost")
    assert await granted(replica.kube) == {}
    report(replica.kube)
    await replica.run()
    assert (status(replica.kube)["attempts"], await granted(replica.kube)) == (2, {"train-2-0": ["GPU-n1-0"]})


async def test_pods_whose_job_is_gone_are_ended_and_hold_their_gpus_until_they_are_gone() -> None:
    replica = Replica()
    submit(replica.kube)
    await replica.run()
    await start_pods(replica.kube)
    replica.kube.remove(TRAINING_JOBS, "train", "red")
    submit(replica.kube, "other")
    await replica.run()
    going = {f"!{pod}": gpus for pod, gpus in ALL.items()}
    assert (await granted(replica.kube), phase(replica.kube, "other")) == (going, "Pending")
    await end_pods(replica.kube)
    await replica.run()
    assert await granted(replica.kube) == {pod.replace("train", "other"): gpus for pod, gpus in ALL.items()}


async def test_a_watch_that_lies_about_a_job_ends_none_of_its_pods() -> None:
    replica = Replica()
    submit(replica.kube)
    await replica.run()
    await start_pods(replica.kube)
    document = replica.kube.stored(TRAINING_JOBS, "train", "red")
    assert document is not None
    replica.operator.cache.remove(TRAINING_JOBS, "red", "train", "another-uid")
    await replica.run()
    assert await granted(replica.kube) == ALL


async def test_a_namesake_waits_until_the_objects_of_the_earlier_job_are_gone_and_has_its_own_then() -> None:
    replica = Replica()
    earlier = submit(replica.kube, workers=1)["metadata"]["uid"]
    await replica.run()
    await start_pods(replica.kube)
    replica.kube.remove(TRAINING_JOBS, "train", "red")
    later = submit(replica.kube, workers=1)["metadata"]["uid"]
    await replica.run()
    waiting = (phase(replica.kube), await granted(replica.kube))
    collect_garbage(replica.kube, earlier)
    await replica.run()
    pod = next(iter((await replica.kube.list(TRAINING_JOBS)).items))
    assert waiting == ("Starting", {"!train-1-0": ["GPU-n1-0"]})
    assert (pod["metadata"]["uid"], phase(replica.kube), await granted(replica.kube)) == (
        later,
        "Starting",
        {"train-1-0": ["GPU-n1-1"]},
    )


def decisions(replica: Replica) -> int:
    return int(replica.operator.metrics.registry.get_sample_value("cotenant_decision_seconds_count") or 0)


async def test_without_a_change_a_plan_is_made_once_in_a_tick() -> None:
    replica = Replica()
    counts = []
    for pause in (0.0, 0.5, 0.5, 0.25):
        await asyncio.sleep(pause)
        await replica.operator.loop.cycle()
        counts.append(decisions(replica))
    assert counts == [1, 1, 2, 2]


async def test_a_job_that_is_due_much_later_keeps_no_plan_waiting() -> None:
    replica = Replica()
    document = submit(replica.kube)
    replica.kube.put(TRAINING_JOBS, document | {"spec": document["spec"] | {"maxRuntime": "1h"}})
    await replica.run()
    await start_pods(replica.kube)
    await replica.run()
    before = decisions(replica)
    await replica.run(5.5)
    assert (phase(replica.kube), decisions(replica) - before >= 5) == ("Running", True)


async def test_a_job_that_is_due_sooner_is_not_kept_waiting_for_the_tick() -> None:
    replica = Replica()
    replica.operator.loop.settings = SETTINGS.model_copy(update={"tick_s": 600.0})
    call, refusal = "POST pods/train-1-0", Reply(Outcome.CONFLICT, message="the quota was modified", code=409)
    # Two more tries come at once, because the commit and the message of the first conflict both change the job.
    replica.kube.faults.add(*(Fault(call=call, answer=refusal) for _ in range(3)))
    submit(replica.kube, workers=1)
    await replica.run(RETRY_S - 0.1)
    early = writes(replica.kube).count(call)
    await replica.run(0.5)
    assert (early, writes(replica.kube).count(call), len(await granted(replica.kube))) == (3, 4, 1)


async def test_nothing_of_a_job_is_remembered_once_neither_it_nor_a_pod_of_it_is_there() -> None:
    replica = Replica()
    submit(replica.kube)
    await replica.run()
    await start_pods(replica.kube)
    replica.kube.remove(TRAINING_JOBS, "train", "red")
    await replica.run()
    with_pods = len(replica.operator.memories)
    await end_pods(replica.kube)
    await replica.run()
    assert (with_pods, len(replica.operator.memories)) == (1, 0)


async def test_a_job_that_goes_while_its_commit_is_uncertain_leaves_no_memory_and_its_gpus_free() -> None:
    replica = Replica()
    replica.kube.faults.add(Fault(call=COMMIT, lost="request"))
    submit(replica.kube)
    await replica.run(0.2)
    replica.kube.remove(TRAINING_JOBS, "train", "red")
    submit(replica.kube, workers=2)
    await replica.run()
    assert (phase(replica.kube), len(replica.operator.memories), writes(replica.kube).count(COMMIT)) == (
        "Starting",
        1,
        1,
    )


async def test_a_running_job_whose_spec_cannot_be_read_any_more_gives_way_to_a_higher_priority_and_is_invalid() -> None:
    replica = Replica()
    submit(replica.kube)
    await replica.run()
    await start_pods(replica.kube)
    await replica.run()
    running = replica.kube.stored(TRAINING_JOBS, "train", "red")
    assert running is not None
    replica.kube.put(TRAINING_JOBS, running | {"spec": running["spec"] | {"gracePeriod": "8760h"}})
    urgent = submit(replica.kube, "urgent")
    replica.kube.put(TRAINING_JOBS, urgent | {"spec": urgent["spec"] | {"priority": 5}})
    await replica.run()
    assert (phase(replica.kube), status(replica.kube)["eviction"]["kind"]) == ("Evicting", "Preempted")
    await end_pods(replica.kube)
    await replica.run()
    assert (phase(replica.kube), phase(replica.kube, "urgent")) == ("Invalid", "Starting")
    assert status(replica.kube)["usage"]["gpuMilliseconds"] > 0


@pytest.mark.parametrize(
    ("lost", "while_it_is_there"),
    [
        pytest.param("answer", ("Pending", {"!train-1-0": ["GPU-n1-0", "GPU-n1-1"]}), id="it was made"),
        pytest.param("request", ("Starting", {f"next{pod[5:]}": gpus for pod, gpus in ALL.items()}), id="it was not"),
    ],
)
async def test_a_job_is_deleted_while_its_pod_is_made_and_what_that_pod_may_hold_is_nobody_elses(
    monkeypatch: pytest.MonkeyPatch, lost: Any, while_it_is_there: tuple[str, dict[str, list[str]]]
) -> None:
    replica = Replica()
    kube, seen = replica.kube, replica.operator.feed.on_event
    # The watch of pods is behind, or cut: only the answer to the call could show the pod.
    without_pods = lambda resource, *event: seen(resource, *event) if resource != PODS else None  # noqa: E731
    monkeypatch.setattr(replica.operator.feed, "on_event", without_pods)

    def deleted() -> None:
        kube.remove(TRAINING_JOBS, "train", "red")
        submit(kube, "next")
        kube.deliver(replica.operator.feed.on_event)

    def bound() -> None:
        if pod := kube.stored(PODS, "train-1-0", "red"):
            kube.put(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n1"}})

    kube.faults.add(Fault(call="POST pods/train-1-0", lost=lost, first=deleted))
    kube.faults.add(Fault(call="GET pods/train-1-0", first=bound))
    submit(kube, workers=2)
    await replica.run(10.0)
    assert (phase(kube, "next"), await granted(kube)) == while_it_is_there
    monkeypatch.setattr(replica.operator.feed, "on_event", seen)
    await end_pods(kube)
    await replica.run(10.0)
    assert (phase(kube, "next"), [memory.id.name for memory in replica.operator.memories]) == ("Starting", ["next"])
    assert await granted(kube) == {f"next{pod[5:]}": gpus for pod, gpus in ALL.items()}


async def test_a_pod_that_may_have_been_made_holds_its_gpus_while_its_creation_is_tried_again() -> None:
    replica = Replica()
    cache = replica.operator.cache
    held: list[dict[str, list[str]]] = []

    def deleted() -> None:
        replica.kube.remove(TRAINING_JOBS, "train", "red")
        replica.kube.deliver(lambda resource, *event: cache.put(resource, *event) if resource != PODS else None)
        held.append(replica.held())

    replica.kube.faults.add(Fault(call="POST pods/train-1-0", first=deleted))
    submit(replica.kube, workers=2)
    await replica.run(0.5)
    assert held == [{"red/train#uid-7-1": ["GPU-n1-0", "GPU-n1-1"]}]
