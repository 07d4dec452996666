"""What of a plan is carried out: only what still can be, and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cotenant.controller.client.kube import TRAINING_JOBS
from cotenant.controller.execution.loop.job_writes import JobWrites
from cotenant.controller.execution.loop.plan_executor import PlanExecutor
from cotenant.controller.execution.loop.verdict_throttle import VerdictThrottle
from cotenant.controller.execution.loop.work_queue import WorkQueue
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.quarantine import Stage
from cotenant.controller.leader.leadership import Leadership
from cotenant.core.model.plan import Action, Admit, Evict, EvictionKind, Plan, Reason, Verdict
from tests.controller.builders import placement_on
from tests.controller.execution.replica import Replica, end_pods, phase, start_pods, submit, writes

pytestmark = pytest.mark.looptime

PLACEMENT = placement_on(("n1", 1), memory_mib=81_920, compute_milli=1000)


def executor_of(replica: Replica) -> PlanExecutor:
    """An executor whose started writes are the keys in progress."""
    operator = replica.operator
    started = JobWrites(
        queue=WorkQueue(), memories=operator.memories, containment=operator.loop.containment,
        leadership=Leadership(lambda: replica.leads), clock=operator.clock, on_end=lambda: None,
    )  # fmt: skip
    return PlanExecutor(
        cache=operator.cache, cluster=operator.cluster, memories=operator.memories, executor=operator.loop.executor,
        action_executor=operator.loop.action_executor, writes=started,
        verdict_throttle=VerdictThrottle(operator.memories, rewrite_s=60.0),
    )  # fmt: skip


def id_of(replica: Replica, name: str) -> JobId:
    return replica.operator.cache.jobs[f"red/{name}"].id


def admit(name: str) -> Admit:
    return Admit(job=f"red/{name}", placement=PLACEMENT)


def evict(name: str) -> Evict:
    return Evict(job=f"red/{name}", kind=EvictionKind.PREEMPTED, in_favour_of=None, message="for others")


def verdict(name: str) -> Verdict:
    return Verdict(job=f"red/{name}", reason=Reason.NO_QUOTA, message="no quota")


async def running(workers: int = 4) -> Replica:
    """The job `train` runs, on both nodes where it has four workers."""
    replica = Replica()
    submit(replica.kube, workers=workers)
    await replica.run()
    await start_pods(replica.kube)
    replica.observe()
    del replica.kube.calls[:]
    return replica


async def test_a_plan_that_has_something_for_a_job_that_is_being_written_missed_it() -> None:
    replica = Replica()
    for name in ("acted", "told", "neither", "gone"):
        submit(replica.kube, name, workers=1)
    replica.observe()
    executor, jobs = executor_of(replica), {name: id_of(replica, name) for name in ("acted", "told", "neither", "gone")}
    del replica.operator.cache.jobs["red/gone"]
    for job in jobs.values():
        executor.writes.queue.start(job)
    plan = Plan(actions=(admit("acted"), admit("gone")), verdicts={"red/told": verdict("told")})
    assert executor.carry_out(plan, replica.operator.clock()) == ()
    missed = {name: replica.operator.memories[job].plan_missed for name, job in jobs.items()}
    assert missed == {"acted": True, "told": True, "neither": False, "gone": False}


async def test_what_is_started_is_what_can_be_carried_out_and_the_verdicts_of_the_others() -> None:
    replica = Replica()
    for name in ("one", "two"):
        submit(replica.kube, name, workers=1)
    replica.observe()
    executor = executor_of(replica)
    plan = Plan(actions=(admit("one"), evict("two"), admit("nobody")), verdicts={"red/two": verdict("two")})
    assert executor.carry_out(plan, replica.operator.clock()) == (admit("one"),)
    assert executor.writes.queue.processing == {id_of(replica, "one"), id_of(replica, "two")}
    await executor.writes.drain()
    assert (phase(replica.kube, "one"), phase(replica.kube, "two")) == ("Starting", "Pending")


async def some_leave(replica: Replica) -> None:
    """One of the two pods was asked to end."""
    pods = replica.operator.cache.pods_of(id_of(replica, "train"))
    await replica.operator.loop.executor.pod_deleter.delete([pods["train-1-0"]])
    replica.observe()


async def all_leave(replica: Replica) -> None:
    pods = replica.operator.cache.pods_of(id_of(replica, "train"))
    await replica.operator.loop.executor.pod_deleter.delete(list(pods.values()))
    replica.observe()


async def all_are_gone(replica: Replica) -> None:
    await all_leave(replica)
    await end_pods(replica.kube)
    replica.observe()


async def none_leaves(replica: Replica) -> None:
    replica.observe()


@pytest.mark.parametrize(
    ("action", "before", "ended"),
    [
        (evict("train"), none_leaves, ["DELETE pods/train-1-0", "DELETE pods/train-1-1"]),
        (evict("train"), some_leave, ["DELETE pods/train-1-1"]),
        (evict("train"), all_leave, None),
        (evict("train"), all_are_gone, None),
        (admit("train"), none_leaves, None),
        (evict("nobody"), none_leaves, None),
    ],
    ids=["all run", "one runs", "all leave", "all are gone", "an admission", "another job"],
)
async def test_pods_of_a_job_that_is_left_alone_end_where_a_plan_evicts_it(
    action: Action, before: Callable[[Replica], asyncio.Future[None]], ended: list[str] | None
) -> None:
    replica = await running()
    await before(replica)
    del replica.kube.calls[:]
    job, now = id_of(replica, "train"), replica.operator.clock()
    replica.operator.loop.containment.contain(job, Stage.RECONCILE, ValueError("odd"), now)
    executor = executor_of(replica)
    assert executor.carry_out(Plan(actions=(action,)), now) == ()
    assert (job in executor.writes.queue) is (ended is not None)
    await executor.writes.drain()
    assert writes(replica.kube) == (ended or [])


async def test_pods_of_a_job_that_is_being_written_are_not_ended_beside_that() -> None:
    replica = await running()
    job, now = id_of(replica, "train"), replica.operator.clock()
    replica.operator.loop.containment.contain(job, Stage.RECONCILE, ValueError("odd"), now)
    executor = executor_of(replica)
    executor.writes.queue.start(job)
    executor.carry_out(Plan(actions=(evict("train"),)), now)
    await executor.writes.drain()
    assert writes(replica.kube) == []


async def test_a_job_whose_placement_was_taken_from_its_status_is_not_asked_to_leave_by_a_plan() -> None:
    replica = await running()
    stored = replica.kube.stored(TRAINING_JOBS, "train", "red")
    assert stored is not None
    replica.kube.put(TRAINING_JOBS, stored | {"status": {"phase": "Running", "attempts": 1}})
    replica.observe()
    assert executor_of(replica).carry_out(Plan(actions=(evict("train"),)), replica.operator.clock()) == ()
