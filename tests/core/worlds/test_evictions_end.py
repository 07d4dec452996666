"""Evictions end: without an arrival, a departure or a change every world falls quiet, and no job is evicted twice.

Time goes on: cycles are minutes apart, so that protected times come to their end.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.model.objects import Job, Node, TenantQueue
from cotenant.core.model.plan import Evict, EvictionKind
from cotenant.core.policy import Policy
from tests.support.clusters import UNPROTECTED, ToyCluster, make_job, make_node, make_placement, make_queue

MINUTE = 60.0
EVERY = 1 if int(os.environ.get("COTENANT_EXAMPLES", "1")) > 1 else 97
"""Only every n-th of the small worlds is played, except in a long run."""
ANY = frozenset({"ns"})


def play(toy: ToyCluster, *, cycles: int = 60) -> Counter[str]:
    """Play until nothing happens for longer than the protected time. Returns how often each job was evicted."""
    before, idle = len(toy.history), 0
    for _ in range(cycles):
        toy.now += MINUTE
        plan = toy.cycle()
        toy.finish_evictions()
        idle = 0 if plan.actions else idle + 1
        if idle > 2 + toy.policy.protected_runtime_s // MINUTE:
            break
    else:
        raise AssertionError(f"not quiet: {toy.history[-8:]}")
    return Counter(action.job for action in toy.history[before:] if isinstance(action, Evict))


# -- a world in which preempt and reclaim once fed each other ----------------------------------------------------------


def feeding_world() -> tuple[list[Node], list[TenantQueue], list[Job]]:
    """r1by/161 preempted 113, r1ay/76 reclaimed r2ay/35, 113 reclaimed 76, r2ay/90 reclaimed 161, 35 preempted 90."""
    nodes = [make_node(f"n{index}", gpus=8, zone=f"z{index % 2}") for index in range(4)]
    guaranteed = {"r1": 16, "r1a": 4, "r1ax": 0, "r1ay": 0, "r1b": 8, "r1bx": 2, "r1by": 0}
    guaranteed |= {"r2": 16, "r2a": 8, "r2ax": 4, "r2ay": 2, "r2b": 8, "r2bx": 4, "r2by": 4}
    queues = [
        make_queue(name, guaranteed=most, parent=name[:-1] if len(name) > 2 else None)
        for name, most in guaranteed.items()
    ]

    def on(node: str, *workers: list[int]) -> dict[str, Any]:
        return {"placement": make_placement((node, list(workers))), "admitted_at": 32_228.0}

    jobs = [
        make_job("31", queue="r1ay", gpus=2, workers=8, at=2_384),
        make_job("35", queue="r2ay", workers=8, at=2_521, priority=10),
        make_job("76", queue="r1ay", workers=4, at=4_527),
        make_job("88", queue="r1ax", workers=4, at=5_281, expected_runtime_s=6_545, **on("n3", [1], [3], [4], [5])),
        make_job("90", queue="r2ay", milli=500, workers=8, at=5_399, expected_runtime_s=135),
        make_job("100", queue="r1bx", workers=8, at=5_912),
        make_job("107", queue="r2ax", gpus=2, workers=2, at=6_243, priority=5, **on("n0", [0, 2], [3, 4])),
        make_job("113", queue="r1by", workers=4, at=6_792, expected_runtime_s=2_290, **on("n3", [0], [2], [6], [7])),
        make_job("122", queue="r1bx", workers=1, at=7_401, expected_runtime_s=20_085, **on("n1", [3])),
        make_job("161", queue="r1by", workers=8, at=10_040, priority=10, expected_runtime_s=5_455),
        make_job("168", queue="r2bx", milli=600, workers=8, at=10_428, priority=5),
    ]
    return nodes, queues, jobs


@pytest.mark.parametrize("policy", [UNPROTECTED, Policy(moves=0), Policy()], ids=["eager", "no moves", "default"])
def test_preempt_and_reclaim_do_not_cause_each_other_without_end(policy: Policy) -> None:
    toy = ToyCluster(*feeding_world(), policy=policy)
    toy.now = 33_000.0

    evictions = play(toy)

    assert max(evictions.values(), default=0) <= 1


# -- stories -----------------------------------------------------------------------------------------------------------


def drawn_world(rng: random.Random) -> tuple[list[Node], list[TenantQueue], list[Job]]:
    """A random world: a flat tree or a deep one, priorities, gangs up to the whole cluster, and running jobs that no
    plan would have placed so.
    """
    nodes = [make_node(f"n{index}", gpus=rng.choice((2, 4, 8))) for index in range(rng.randint(1, 3))]
    total = sum(len(node.gpus) for node in nodes)
    queues: list[TenantQueue] = []
    flat = rng.random() < 0.33
    for index in range(rng.randint(2, 7)):
        parent = None if flat or not queues or rng.random() < 0.3 else rng.choice(queues).name
        guaranteed = rng.choice((0, 1, 2, total // 4, total // 2))
        moves = rng.random() < 0.3
        queues.append(
            make_queue(f"q{index}", guaranteed=guaranteed, parent=parent, namespaces=ANY, consolidation=moves)
        )
    free = [(node.name, column) for node in nodes for column in range(len(node.gpus))]
    rng.shuffle(free)
    jobs = []
    for index in range(rng.randint(4, 14)):
        job = drawn_job(rng, index, total, queues)
        if rng.random() < 0.5 and len(free) >= job.workers_min:
            by_node: dict[str, list[list[int]]] = {}
            for _ in range(job.workers_min):
                node, column = free.pop()
                by_node.setdefault(node, []).append([column])
            job = replace(job, placement=make_placement(*by_node.items()), admitted_at=float(rng.randint(0, 30)))
        jobs.append(job)
    return nodes, queues, jobs


def drawn_job(rng: random.Random, index: int, total: int, queues: list[TenantQueue]) -> Job:
    low = rng.choice((1, 1, 2, 3, 4, total // 2, total // 2 + 1, total - 1))
    return make_job(
        f"j{index}",
        queue=rng.choice(queues).name,
        namespace="ns",
        workers=(low, low + rng.choice((0, 0, 0, 2))),
        at=float(rng.randint(0, 20)),
        priority=rng.choice((0, 0, 1, 2)),
        priority_class=rng.choice(("", "", "", "urgent")),
        expected_runtime_s=rng.choice((None, None, 120, 3_600)),
        preemptible=rng.random() < 0.9,
    )


@pytest.mark.parametrize("seed", [154, *range(2_000, 2_010)])
@pytest.mark.parametrize("protected_s", [0, 300])
def test_between_two_changes_no_job_is_evicted_twice_and_the_world_settles(seed: int, protected_s: int) -> None:
    rng = random.Random(seed)
    nodes, queues, jobs = drawn_world(rng)
    total = sum(len(node.gpus) for node in nodes)
    toy = ToyCluster(nodes, queues, jobs, policy=Policy(protected_runtime_s=protected_s))
    toy.now = 1_000.0
    for change in range(6):
        evictions = play(toy, cycles=120)
        assert max(evictions.values(), default=0) <= 1
        running = sorted(key for key, job in toy.jobs.items() if job.placement is not None)
        if running and rng.random() < 0.5:
            toy.end(rng.choice(running))
        else:
            toy.observe(replace(drawn_job(rng, 100 + change, total, queues), submitted_at=toy.now))


@pytest.mark.parametrize("seed", [154, *range(2_000, 2_006)])
def test_evictions_end_although_jobs_turn_idle_and_busy(seed: int) -> None:
    rng = random.Random(seed)
    toy = ToyCluster(*drawn_world(rng), policy=Policy())
    toy.now, evictions = 1_000.0, Counter[str]()
    for _ in range(12):
        for job in sorted(toy.jobs.values(), key=lambda one: one.key):
            if job.placement is not None and rng.random() < 0.5:
                toy.observe(replace(job, idle=not job.idle))
        evictions += play(toy, cycles=120)
    assert max(evictions.values(), default=0) <= 1


@pytest.mark.parametrize("seed", range(10))
def test_in_its_first_minutes_a_job_leaves_for_a_guarantee_or_an_administrators_class_alone(seed: int) -> None:
    rng = random.Random(seed)
    nodes, queues, jobs = drawn_world(rng)
    total = sum(len(node.gpus) for node in nodes)
    toy = ToyCluster(nodes, queues, jobs, policy=Policy())
    evicted = 0
    for index in range(40):
        toy.now += rng.choice((1.0, 30.0, 200.0))
        toy.observe(replace(drawn_job(rng, 100 + index, total, queues), submitted_at=toy.now))
        before = dict(toy.jobs)
        for action in toy.cycle().actions:
            if isinstance(action, Evict) and action.in_favour_of is not None:
                victim, winner = before[action.job], before[action.in_favour_of]
                evicted += 1
                ran_s = toy.now - (victim.admitted_at or 0.0)
                by_class = winner.priority_class and winner.priority > victim.priority
                assert ran_s >= 300 or by_class or action.kind is EvictionKind.RECLAIMED
        toy.finish_evictions()
        if rng.random() < 0.5:
            toy.end(rng.choice(sorted(toy.jobs)))
    assert evicted or seed  # stories in which nobody leaves would show nothing


# -- all worlds of a bounded size --------------------------------------------------------------------------------------


def small_worlds() -> Iterator[ToyCluster]:
    """Two GPUs, two queues beside or below each other, three jobs of every kind, each waiting or running."""
    kinds = [*itertools.product(("a", "b"), (1, 2), (0, 1), (False, True))]
    trees = [*itertools.product((None, "a"), ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)))]
    worlds = itertools.product(trees, itertools.product(kinds, repeat=3))
    for (parent, (first, second)), drawn in itertools.islice(worlds, 0, None, EVERY):
        held = sum(workers for _, workers, _, runs in drawn if runs)
        if held > 2 or held == sum(workers for _, workers, _, _ in drawn):
            continue
        queues = [
            make_queue("a", guaranteed=first, namespaces=ANY),
            make_queue("b", guaranteed=second, parent=parent, namespaces=ANY),
        ]
        columns = iter(range(2))
        jobs = []
        for index, (queue, workers, priority, runs) in enumerate(drawn):
            job = make_job(f"j{index}", queue=queue, namespace="ns", workers=workers, priority=priority, at=index)
            if runs:
                place = make_placement(("n", [[next(columns)] for _ in range(workers)]))
                job = replace(job, placement=place, admitted_at=-1_000.0)
            jobs.append(job)
        yield ToyCluster([make_node("n", gpus=2)], queues, jobs)


def test_every_small_world_settles_after_at_most_one_eviction_of_each_job() -> None:
    for toy in small_worlds():
        assert max(play(toy, cycles=12).values(), default=0) <= 1
