"""What a change of leader leaves and finds, in the loop."""

from __future__ import annotations

import re

import pytest

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import GPU_NODES, NODES, PODS, QUEUES, TRAINING_JOBS
from cotenant.controller.informers.changes import Changes
from cotenant.core.model.plan import Action, Admit, Plan
from cotenant.core.snapshot.snapshot import Snapshot
from tests.controller.builders import placement_on
from tests.controller.execution.replica import (
    SECRET,
    Replica,
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
        replica.kube.deliver(replica.operator.feed.on_event)
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
            operator.leadership.changed(False)
            operator.leadership.changed(True)
        return schedule(snapshot)

    listed: list[int] = []
    operator.loop.schedule = lose_and_regain
    submit(replica.kube)
    await replica.run()
    commit, lists = replica.kube.calls.index(COMMIT), [i for i, c in enumerate(replica.kube.calls) if c == "LIST pods"]
    assert (phase(replica.kube), listed, len(lists), lists[1] < commit) == ("Starting", [1], 2, True)


async def test_orphans_that_a_crash_left_behind_are_found_by_the_next_leader() -> None:
    kube = new_kube()
    submit(kube)
    await Replica(kube).run()
    await start_pods(kube)
    kube.remove(TRAINING_JOBS, "train", "red")
    await Replica(kube).run()
    assert await granted(kube) == {f"!{pod}": gpus for pod, gpus in ALL.items()}


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


async def planned(replica: Replica, *actions: Action) -> None:
    """Have the loop carry these actions out, and plan nothing after that."""
    plans = [Plan(actions=actions)]
    replica.operator.loop.schedule = lambda snapshot: plans.pop() if plans else Plan()
    del replica.kube.calls[:]
    await replica.run()


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
