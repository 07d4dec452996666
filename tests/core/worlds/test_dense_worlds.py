"""Single changes in random dense worlds: every GPU is held, and some hundred different jobs wait.

`bench.parts.single_changes` tries a whole catalogue of changes in small worlds, with no bound on the search. Here the
bound of a cycle has to be enough, and each change is applied.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cotenant.core.model.objects import Job, Sharing
from cotenant.core.model.plan import Admit, Plan
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from tests.core.scheduling.test_advice import edited, is_started, with_job
from tests.support.clusters import make_job, make_node, make_queue, make_snapshot

QUICK = Policy(advice=0, forecasts=0)
QUEUES = [make_queue("red", guaranteed=16), make_queue("blue", guaranteed=8)]
NODES = [make_node(f"n{number}", gpus=4) for number in range(12)]


def some_job(dice: random.Random, number: int) -> Job:
    """Whole GPUs or a share of one, with or without a declared run time."""
    job = make_job(
        f"j{number}",
        queue=dice.choice(("red", "blue")),
        gpus=dice.choice((1, 1, 2, 3, 4)),
        workers=dice.choice((1, 1, 1, 2, 4)),
        at=float(number),
        priority=dice.choice((0, 0, 0, 1)),
        expected_runtime_s=dice.choice((None, None, 300, 3_600)),
        max_runtime_s=dice.choice((None, None, 300, 900, 3_600, 20_000)),
    )
    if dice.random() < 0.5:
        return job
    share = replace(
        job.gpu,
        count=1,
        memory_milli=dice.choice((100, 250, 330, 500, 700)),
        compute_milli=dice.choice((None, 100, 250, 400, 600)),
        sharing=dice.choice(list(Sharing)),
    )
    return replace(job, gpu=share, distinct_gpus=dice.random() < 0.5)


def after(plan: Plan, jobs: list[Job], now: float) -> list[Job]:
    """The jobs as the plan leaves them. Who is asked to leave is gone."""
    started = {one.job: one for one in plan.actions if isinstance(one, Admit)}
    gone = {one.job for one in plan.actions} - started.keys()
    return [
        replace(job, placement=one.placement, admitted_at=now, backfilled_until=one.backfilled_until)
        if (one := started.get(job.key)) is not None
        else job
        for job in jobs
        if job.key not in gone
    ]


def dense(seed: int) -> Snapshot:
    dice, now = random.Random(seed), 1_000.0
    jobs = [some_job(dice, number) for number in range(160)]
    for _ in range(3):
        jobs = after(schedule(make_snapshot(nodes=NODES, queues=QUEUES, jobs=jobs, now=now), QUICK), jobs, now)
        runs = [job.key for job in jobs if job.placement is not None]
        ended = set(dice.sample(runs, 2))
        jobs = [job for job in jobs if job.key not in ended]
        now += dice.choice((50.0, 400.0, 1_700.0))
    return make_snapshot(nodes=NODES, queues=QUEUES, jobs=jobs, now=now)


@pytest.mark.parametrize("seed", range(4))
def test_the_trials_of_a_cycle_suffice_for_all_waiting_jobs(seed: int) -> None:
    world = dense(seed)
    offered, without_bound = (
        {key: one.change for key, one in schedule(world, policy).verdicts.items() if one.would_start_if}
        for policy in (Policy(), Policy(advice=1_000_000))
    )

    assert len(offered) >= 20
    assert offered == without_bound


@pytest.mark.parametrize("seed", range(4))
def test_every_advised_change_starts_the_job(seed: int) -> None:
    world, dice = dense(seed), random.Random(seed)
    verdicts = schedule(world).verdicts

    for job in dice.sample([job for job in world.jobs if job.key in verdicts and verdicts[job.key].change], 10):
        changed = edited(job, verdicts[job.key].change)
        assert is_started(schedule(with_job(world, changed), QUICK), job.key), verdicts[job.key].would_start_if
