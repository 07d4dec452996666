"""Advice, followed word for word, starts the job: the next decision honours the edited document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.objects import Job, Node, Sharing, TenantQueue, TopologyMode
from cotenant.core.model.plan import Admit, Plan, Verdict
from cotenant.core.placement import BestFit, Packing
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from tests.core.worlds.test_properties import clusters
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue


def gpu(job: Job, **changes: Any) -> Job:
    return replace(job, gpu=replace(job.gpu, **changes))


def topology(job: Job, mode: str) -> Job:
    assert job.topology is not None
    return replace(job, topology=replace(job.topology, mode=TopologyMode(mode)))


def spread(job: Job, **changes: Any) -> Job:
    assert job.spread is not None
    return replace(job, spread=replace(job.spread, **changes))


def seconds(duration: str) -> int:
    """`1m50s` → 110."""
    units = {"h": 3_600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", duration))


EDITS: dict[str, Callable[[Job, Any], Job]] = {
    "spec.workers": lambda job, value: replace(job, workers_min=value, workers_max=value),
    "spec.minWorkers": lambda job, value: replace(job, workers_min=value),
    "spec.gpu.count": lambda job, value: gpu(job, count=value or 1),
    "spec.gpu.memory": lambda job, value: gpu(job, memory_mib=int(value.removesuffix("Mi"))),
    "spec.gpu.memoryFraction": lambda job, value: gpu(job, memory_milli=round(float(value) * 1000)),
    "spec.gpu.computeFraction": lambda job, value: gpu(job, compute_milli=round(float(value) * 1000)),
    "spec.gpu.classes": lambda job, value: gpu(job, classes=tuple(value or ())),
    "spec.gpu.zones": lambda job, value: gpu(job, zones=tuple(value or ())),
    "spec.gpu.sharing": lambda job, value: gpu(job, sharing=Sharing(value)),
    "spec.topology.mode": topology,
    "spec.spread.mode": lambda job, value: spread(job, mode=TopologyMode(value)),
    "spec.spread.maxWorkers": lambda job, value: spread(job, most=value or 1),
    "spec.runtime.collective": lambda job, value: replace(job, distinct_gpus=value != "gloo"),
    "spec.resources.cpu": lambda job, value: replace(job, cpu_milli=int(value.removesuffix("m"))),
    "spec.resources.memory": lambda job, value: replace(job, memory_mib=int(value.removesuffix("Mi"))),
    "spec.resources.scratch": lambda job, value: replace(job, scratch_mib=int(value.removesuffix("Mi"))),
    "spec.chief.resources.cpu": lambda job, value: replace(job, chief_cpu_milli=int(value.removesuffix("m"))),
    "spec.chief.resources.memory": lambda job, value: replace(job, chief_memory_mib=int(value.removesuffix("Mi"))),
    "spec.chief.resources.scratch": lambda job, value: replace(job, chief_scratch_mib=int(value.removesuffix("Mi"))),
    "spec.maxRuntime": lambda job, value: replace(job, max_runtime_s=seconds(value)),
    "spec.expectedRuntime": lambda job, value: replace(job, expected_runtime_s=seconds(value)),
    "spec.priority": lambda job, value: replace(job, priority=value),
    "spec.priorityClassName": lambda job, value: replace(job, priority_class=value or ""),
}


def edited(job: Job, change: tuple[tuple[str, str], ...]) -> Job:
    """The job after these fields of its document were written."""
    for path, text in change:
        job = EDITS[path](job, json.loads(text))
    return job


def with_job(snapshot: Snapshot, job: Job) -> Snapshot:
    """The same moment, with this job in its place."""
    jobs = tuple(job if one.key == job.key else one for one in snapshot.jobs)
    return replace(snapshot, jobs=jobs, accounting=None)


def is_started(plan: Plan, key: str) -> bool:
    return any(isinstance(action, Admit) and action.job == key for action in plan.actions)


def place_of(plan: Plan, key: str) -> str:
    """The only node on which the job starts."""
    (action,) = (one for one in plan.actions if isinstance(one, Admit) and one.job == key)
    (part,) = action.placement.nodes
    return part.node


def advised(snapshot: Snapshot, plan: Plan) -> Iterator[tuple[Job, Verdict]]:
    jobs = {job.key: job for job in snapshot.jobs}
    return ((jobs[key], verdict) for key, verdict in plan.verdicts.items() if verdict.change)


def check_advice(toy: ToyCluster) -> None:
    """Follow the advice in this cycle, and in the next one if nothing else happens."""
    before = toy.snapshot()
    plan = schedule(before, toy.policy)
    for job, verdict in advised(before, plan):
        changed = edited(job, verdict.change)
        assert is_started(schedule(with_job(before, changed), toy.policy), job.key), (verdict, changed)
    toy.state.assume(plan, toy.now)
    after = toy.state.snapshot(toy.now)
    again = schedule(after, toy.policy)
    for job, verdict in advised(after, again):
        changed = edited(job, verdict.change)
        assert is_started(schedule(with_job(after, changed), toy.policy), job.key), (verdict, changed)


@pytest.mark.parametrize("edit", [{"gpus": 1}, {"milli": 320, "workers": 300}], ids=str)
def test_an_edit_of_a_waiting_job_moves_no_other_job(edit: dict[str, Any]) -> None:
    """A share of 320 leaves the 350 that are free on n1 to jobs that ask for just that: 300 such workers arrived."""
    held = make_placement(("n1", [[0]]), milli=650, memory_mib=1_000)
    most = make_job("most", milli=650, placement=held, admitted_at=0.0)
    third, many = make_job("third", milli=320, at=1.0), make_job("many", milli=350, workers=300, at=2.0)
    nodes = [make_node("n1", gpus=1, memory_mib=1_000), make_node("n2", gpus=1, memory_mib=1_000)]
    before = ToyCluster(nodes, [make_queue("red", guaranteed=500)], [most, third, many]).snapshot()

    plans = [schedule(one) for one in (before, with_job(before, make_job("many", at=2.0, **edit)))]

    assert [place_of(plan, "red/third") for plan in plans] == ["n2", "n2"]


POLICIES = st.builds(
    Policy,
    placer=st.sampled_from((Packing(), Packing(), BestFit())),
    reserve_within_s=st.sampled_from((3_600, 0)),
    collect_after_s=st.sampled_from((1_800, 1, 0)),
    protected_runtime_s=st.sampled_from((300, 0)),
)


@given(clusters(), st.integers(0, 3), st.sets(st.integers(0, 9)), POLICIES)
def test_a_job_that_follows_its_advice_starts(
    world: tuple[list[Node], list[TenantQueue], list[Job]], cycles: int, ended: set[int], policy: Policy
) -> None:
    nodes, queues, jobs = world
    toy = ToyCluster(nodes, queues, jobs, policy=policy)
    for _ in range(cycles):
        toy.cycle()
        toy.finish_evictions()
    for number in ended:
        if number < len(jobs) and toy.jobs[jobs[number].key].placement is not None:
            toy.end(jobs[number].key)
    check_advice(toy)
