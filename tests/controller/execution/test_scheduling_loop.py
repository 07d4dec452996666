"""The scheduling loop with everything behind it, where calls fail: nothing is handed out twice or left undone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import GPU_NODES, NODES, PODS, QUEUES, TRAINING_JOBS, Outcome, Reply, Resource
from cotenant.controller.execution.executor import RETRY_S
from cotenant.controller.informers.cache import Changes
from cotenant.core.model.plan import Action, Admit, Evict, EvictionKind, Plan
from cotenant.core.snapshot.snapshot import Snapshot
from tests.controller.builders import placement_on
from tests.controller.execution.replica import (
    SECRET,
    SETTINGS,
    Replica,
    collect_garbage,
    end_pods,
    granted,
    new_kube,
    phase,
    start_pods,
    status,
    submit,
    writes,
)
from tests.support.api_faults import Fault

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
        pytest.param({"answer": Reply(Outcome.REFUSED, message="exceeded quota", code=403)}, id="over a ResourceQuota"),
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


async def test_a_pod_that_the_api_server_will_never_take_ends_the_attempt_with_its_message() -> None:
    replica = Replica()
    refusal = Reply(Outcome.REFUSED, message="spec: Invalid value", code=422)
    replica.kube.faults.add(Fault(call="POST pods/train-1-1", answer=refusal))
    submit(replica.kube)
    await replica.run()
    assert "the API server does not take pods/train-1-1: spec: Invalid value" in status(replica.kube)["message"]


async def test_a_placement_without_pods_is_completed_by_the_next_leader() -> None:
    kube = new_kube()
    crashed = Replica(kube)
    kube.faults.add(*(Fault(call="POST *", lost="request") for _ in range(100)))
    submit(kube)
    await crashed.run(0.2)
    assert (phase(kube), await granted(kube), writes(kube)[0]) == ("Starting", {}, COMMIT)
    kube.faults.pending.clear()
    await Replica(kube).run()
    assert (status(kube)["attempts"], await granted(kube), writes(kube).count(COMMIT)) == (1, ALL, 1)


@pytest.mark.parametrize("call", [COMMIT, *SIDE_OBJECTS, *PODS_OF_ALL])
async def test_a_leader_that_is_replaced_in_the_middle_of_a_cycle_writes_no_more_and_the_next_one_goes_on(
    call: str,
) -> None:
    kube = new_kube()
    replaced = Replica(kube)
    kube.faults.add(Fault(call=call, first=replaced.lose))
    submit(kube)
    await replaced.run(0.3)
    written = writes(kube)
    await replaced.run(5.0)
    assert (call in written, writes(kube)) == (False, written)
    await Replica(kube).run()
    assert (phase(kube), status(kube)["attempts"], await granted(kube)) == ("Starting", 1, ALL)


async def test_a_replica_that_does_not_lead_writes_nothing() -> None:
    replica = Replica()
    replica.lose()
    submit(replica.kube)
    await replica.run(10.0)
    assert (phase(replica.kube), replica.kube.calls) == (None, [])


async def test_a_replica_that_does_not_lead_does_not_keep_what_has_changed() -> None:
    replica = Replica()
    replica.lose()
    for number in range(3):
        submit(replica.kube, f"short-{number}")
        replica.kube.deliver(replica.operator.on_event)
        replica.kube.remove(TRAINING_JOBS, f"short-{number}", "red")
    await replica.run()
    assert replica.operator.cache.pop_changes() == Changes()


async def test_a_leader_that_comes_back_knows_of_nothing_that_went_in_between() -> None:
    replica = Replica()
    submit(replica.kube, workers=2)
    await replica.run()
    replica.lose()
    replica.kube.remove(TRAINING_JOBS, "train", "red")
    for pod in (await replica.kube.list(PODS)).items:
        replica.kube.remove(PODS, pod["metadata"]["name"], "red")
    for resource in (NODES, GPU_NODES):
        replica.kube.remove(resource, "n1")
    replica.kube.remove(QUEUES, "red")
    await replica.run()
    replica.leads = True
    await replica.run()
    snapshot = replica.operator.cluster.snapshot(0.0)
    ready = [node.name for node in snapshot.nodes if node.ready]
    assert (ready, snapshot.queues, snapshot.jobs, len(replica.operator.memories)) == (["n2"], (), (), 0)


async def test_a_plan_that_was_made_across_a_loss_of_leadership_is_not_carried_out() -> None:
    replica = Replica()
    operator, schedule = replica.operator, replica.operator.loop.schedule

    def lose_and_regain(snapshot: Snapshot) -> Plan:
        if snapshot.jobs:
            operator.loop.schedule = schedule
            listed.append(replica.kube.calls.count("LIST trainingjobs"))
            operator.on_leadership(False)
            operator.on_leadership(True)
        return schedule(snapshot)

    listed: list[int] = []
    operator.loop.schedule = lose_and_regain
    submit(replica.kube)
    await replica.run()
    commit, lists = replica.kube.calls.index(COMMIT), [i for i, c in enumerate(replica.kube.calls) if c == "LIST pods"]
    assert (phase(replica.kube), listed, len(lists), lists[1] < commit) == ("Starting", [1], 2, True)


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


async def test_orphans_that_a_crash_left_behind_are_found_by_the_next_leader() -> None:
    kube = new_kube()
    submit(kube)
    await Replica(kube).run()
    await start_pods(kube)
    kube.remove(TRAINING_JOBS, "train", "red")
    await Replica(kube).run()
    assert await granted(kube) == {f"!{pod}": gpus for pod, gpus in ALL.items()}


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
    pod = (await replica.kube.list(TRAINING_JOBS)).items[0]
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
    call, refusal = "POST pods/train-1-0", Reply(Outcome.REFUSED, message="exceeded quota", code=403)
    # Two more tries come at once: the commit is a change of the job, and so is the message of the first refusal.
    replica.kube.faults.add(*(Fault(call=call, answer=refusal) for _ in range(3)))
    submit(replica.kube, workers=1)
    await replica.run(RETRY_S - 0.1)
    early = writes(replica.kube).count(call)
    await replica.run(0.5)
    assert (early, writes(replica.kube).count(call), len(await granted(replica.kube))) == (3, 4, 1)


async def test_the_log_counts_what_was_taken_over_and_what_was_decided(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    replica = Replica()
    submit(replica.kube)
    await replica.run()
    took_over = re.fullmatch(r"took over: 1 jobs, 2 nodes, (\d+\.\d\d) s", caplog.messages[0])
    cycle = "cycle: 1 jobs, 1 admitted, 0 asked to leave, 0 wait, "
    (decided,) = [message for message in caplog.messages if message.startswith("cycle")]
    assert took_over is not None
    assert float(took_over[1]) < 30.0
    assert decided.startswith(cycle)
    assert float(decided.removeprefix(cycle).removesuffix(" s")) < 30.0
    assert (replica.operator.metrics.registry.get_sample_value("cotenant_decision_seconds_sum") or 0.0) < 30.0


class SlowWrites:
    """Holds patches of one job back until they are let go, and counts how many are under way at once."""

    def __init__(self, replica: Replica, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.job, self.under_way, self.most = job, 0, 0
        self.go = asyncio.Event()
        self._patch = replica.kube.patch
        monkeypatch.setattr(replica.kube, "patch", self.patch)

    async def patch(self, resource: Resource, name: str, body: Mapping[str, Any], **where: str) -> Reply:
        if name != self.job:
            return await self._patch(resource, name, body, **where)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.go.wait()
        self.under_way -= 1
        return await self._patch(resource, name, body, **where)


async def test_what_a_plan_has_for_a_job_that_is_being_written_waits_for_that_write_and_is_planned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = Replica()
    replica.operator.loop.settings = SETTINGS.model_copy(update={"tick_s": 600.0})
    submit(replica.kube)
    await replica.run()
    slow = SlowWrites(replica, "second", monkeypatch)
    submit(replica.kube, "second")
    await replica.run()
    assert (slow.under_way, phase(replica.kube, "second")) == (1, None)
    replica.kube.remove(TRAINING_JOBS, "train", "red")
    await replica.run()
    assert (await granted(replica.kube), slow.under_way, slow.most) == ({}, 1, 1)
    slow.go.set()
    await replica.run()
    assert (phase(replica.kube, "second"), slow.most) == ("Starting", 1)


async def planned(replica: Replica, *actions: Action) -> None:
    """Have the loop carry these actions out, and plan nothing after that."""
    plans = [Plan(actions=actions)]
    replica.operator.loop.schedule = lambda snapshot: plans.pop() if plans else Plan()
    del replica.kube.calls[:]
    await replica.run()


async def test_an_eviction_is_carried_out_only_while_the_job_holds_gpus() -> None:
    replica = Replica()
    submit(replica.kube)
    await replica.run()
    await start_pods(replica.kube)
    evict = Evict(job="red/train", kind=EvictionKind.PREEMPTED, in_favour_of=None, message="for others")
    await planned(replica, evict)
    assert (status(replica.kube)["phase"], sorted(await granted(replica.kube))) == (
        "Evicting",
        ["!train-1-0", "!train-1-1"],
    )
    await end_pods(replica.kube)
    await planned(replica)
    assert phase(replica.kube) == "Pending"
    await planned(replica, evict)
    assert (phase(replica.kube), writes(replica.kube)) == ("Pending", [])


async def test_a_job_that_was_admitted_meanwhile_is_not_admitted_again() -> None:
    replica = Replica()
    submit(replica.kube, workers=1)
    await replica.run()
    placement = replica.operator.cache.jobs["red/train"].placement
    assert placement is not None
    await planned(replica, Admit(job="red/train", placement=placement))
    assert (phase(replica.kube), writes(replica.kube)) == ("Starting", [])


async def test_a_plan_for_a_job_that_is_gone_by_then_is_dropped() -> None:
    replica = Replica()
    submit(replica.kube, workers=1)
    await replica.run()
    placement = replica.operator.cache.jobs["red/train"].placement
    assert placement is not None
    await planned(replica, Admit(job="red/nobody", placement=placement))
    assert writes(replica.kube) == []


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


async def test_a_leader_that_comes_back_forgets_an_uncertain_commit_before_its_first_decision() -> None:
    kube = new_kube()
    replica = Replica(kube)
    kube.faults.add(Fault(call=COMMIT, lost="request"))
    submit(kube, workers=2)
    await replica.run(0.2)
    replica.lose()
    await replica.run(1.0)
    between = Replica(kube)
    elsewhere = placement_on(("n2", 2), memory_mib=81_920, compute_milli=1_000)
    await planned(between, Admit(job="red/train", placement=elsewhere))
    assert await granted(kube) == {"train-1-0": ["GPU-n2-0", "GPU-n2-1"]}
    between.lose()
    replica.leads = True
    kube.before_write = Fence(lambda: replica.leads).check
    submit(kube, "second", workers=2)
    await replica.run(5.0)
    assert (await granted(kube))["second-1-0"] == ["GPU-n1-0", "GPU-n1-1"]
    assert writes(kube).count("PATCH trainingjobs/second/status") == 1


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
    kube, seen = replica.kube, replica.operator.on_event
    # The watch of pods is behind, or cut: only the answer to the call could show the pod.
    without_pods = lambda resource, *event: seen(resource, *event) if resource != PODS else None  # noqa: E731
    monkeypatch.setattr(replica.operator, "on_event", without_pods)

    def deleted() -> None:
        kube.remove(TRAINING_JOBS, "train", "red")
        submit(kube, "next")
        kube.deliver(replica.operator.on_event)

    def bound() -> None:
        if pod := kube.stored(PODS, "train-1-0", "red"):
            kube.put(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n1"}})

    kube.faults.add(Fault(call="POST pods/train-1-0", lost=lost, first=deleted))
    kube.faults.add(Fault(call="GET pods/train-1-0", first=bound))
    submit(kube, workers=2)
    await replica.run(10.0)
    assert (phase(kube, "next"), await granted(kube)) == while_it_is_there
    monkeypatch.setattr(replica.operator, "on_event", seen)
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
