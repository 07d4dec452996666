"""Estimates of starts: played beside the cycles, published with the verdicts, measured when jobs start."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cotenant.controller.client.kube import TRAINING_JOBS
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.reports.start_estimates import StartEstimates
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit, Plan
from cotenant.core.policy import DEFAULT
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from tests.controller.builders import job_document
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

NOW = 1_000.0
PLACE = make_placement(("n1", [[0]]))


def moment(*waiting: Job, now: float = NOW) -> Snapshot:
    runs = replace(make_job("runs", placement=PLACE, expected_runtime_s=600), admitted_at=NOW)
    return make_snapshot(
        nodes=[make_node("n1", gpus=1)], queues=[make_queue("red", guaranteed=1)], jobs=[runs, *waiting], now=now
    )


async def played(reporter: StartEstimates, snapshot: Snapshot) -> Plan:
    """The plan of this moment as it is published when the plays are over."""
    plan = schedule(snapshot)
    reporter.on_plan(snapshot, plan)
    task = asyncio.create_task(reporter.run())
    await asyncio.sleep(2.0)
    task.cancel()
    return reporter.explained(plan, snapshot.now)


def reporter(leadership: Leadership | None = None) -> tuple[StartEstimates, Metrics]:
    metrics = Metrics()
    cache = ObjectCache(lambda: None)
    for job in WAITING:
        document = job_document(job.key.split("/")[1])
        document["metadata"]["uid"] = job.key
        cache.put(TRAINING_JOBS, document)
    return StartEstimates(cache, JobMemories(), metrics, DEFAULT, leadership or Leadership(lambda: True)), metrics


WAITING = [make_job(f"j{number}", at=float(number), expected_runtime_s=300) for number in range(2)]


@pytest.mark.looptime
async def test_each_of_two_equal_jobs_has_its_own_start_and_knows_who_is_before() -> None:
    estimates, _ = reporter()

    verdicts = (await played(estimates, moment(*WAITING))).verdicts

    assert [
        (
            verdicts[f"red/j{n}"].estimated_start_at,
            verdicts[f"red/j{n}"].latest_start_at,
            verdicts[f"red/j{n}"].position,
        )
        for n in range(2)
    ] == [(NOW + 600, NOW + 600, 1), (NOW + 900, NOW + 900, 2)]
    assert verdicts["red/j1"].ahead == "Expected to start before it: 1 job of its queue: red/j0 (it is older)."


@pytest.mark.looptime
async def test_the_error_is_measured_when_a_job_starts_against_what_it_was_first_given() -> None:
    estimates, metrics = reporter()
    await played(estimates, moment(*WAITING))
    estimates.on_plan(moment(*WAITING), schedule(moment(*WAITING)))

    started = Plan(actions=(Admit(job="red/j0", placement=PLACE),))
    estimates.on_plan(moment(*WAITING, now=NOW + 800), started)

    value = metrics.registry.get_sample_value
    assert value("cotenant_start_estimate_error_ratio_sum", {"queue": "red"}) == pytest.approx(200 / 800)
    assert value("cotenant_start_estimates_total", {"queue": "red", "came": "late"}) == 1


@pytest.mark.looptime
async def test_a_job_that_was_suspended_is_not_measured_against_what_it_was_given_before() -> None:
    estimates, metrics = reporter()
    await played(estimates, moment(*WAITING))
    estimates.on_plan(moment(*WAITING), schedule(moment(*WAITING)))
    estimates.on_plan(moment(WAITING[1]), schedule(moment(WAITING[1])))

    estimates.on_plan(moment(*WAITING, now=NOW + 800), Plan(actions=(Admit(job="red/j0", placement=PLACE),)))

    assert metrics.registry.get_sample_value("cotenant_start_estimate_error_ratio_count", {"queue": "red"}) is None


@pytest.mark.looptime
async def test_a_replica_that_leads_no_more_publishes_nothing() -> None:
    leadership = Leadership(lambda: True)
    estimates, _ = reporter(leadership)
    plan = await played(estimates, moment(*WAITING))
    leadership.changed(False)

    assert plan.verdicts["red/j0"].position == 1
    assert estimates.explained(schedule(moment(*WAITING)), NOW).verdicts["red/j0"].position is None


@pytest.mark.looptime
async def test_a_verdict_is_the_same_value_until_it_its_estimate_or_the_time_to_start_is_another() -> None:
    estimates, _ = reporter()
    snapshot = moment(*WAITING)
    plan = schedule(snapshot)
    first = await played(estimates, snapshot)
    again = estimates.explained(plan, NOW)
    assert again.verdicts == first.verdicts
    later = estimates.explained(plan, NOW + 599)
    assert all(later.verdicts[key] is again.verdicts[key] for key in again.verdicts)
    overdue = estimates.explained(plan, NOW + 700)
    assert [overdue.verdicts[f"red/j{n}"].estimated_start_at for n in range(2)] == [NOW + 700, NOW + 900]
    other = {"red/j0": replace(plan.verdicts["red/j0"], message="another")}
    assert estimates.explained(replace(plan, verdicts=other), NOW).verdicts["red/j0"].message == "another"
