"""All worlds of a bounded size: two nodes of two GPUs, two queues, at most four jobs, in every order of events.

An event is an arrival, or a departure: a job ended, or was deleted while it waited. After each event the cluster
decides until nothing happens any more, a minute passes, and the next event comes. A state is what a decision can see:
jobs with their ages and places, and what they were told. So two orders of events that lead to one state are followed
once. After every step these invariants hold:
- the cluster falls quiet, and no job was evicted twice since the event;
- nothing is reclaimed that its queue's guarantee covers, and nothing for a job that has to borrow itself;
- no GPU is held twice, recounted from the placements, and no limit is broken;
- a job that was told a latest start has started by then, and is not told a later time.

Defects put in on purpose that this finds: jobs of equal priority that preempt each other and may be evicted again and
again (no world falls quiet); reclaim for a job that has to borrow (in all worlds without a parent, except if one queue
owns all). A defect that the first two worlds do not show: a job may be evicted again, and nothing else differs. There
the rules for each kind of eviction suffice.

`python -m tests.core.worlds.small_worlds 5` follows all orders of five events, and says how many states there are.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from cotenant.core.model.objects import WHOLE, Job, TenantQueue
from cotenant.core.model.plan import Evict, EvictionKind, Plan
from cotenant.core.policy import Policy
from tests.core.worlds.recount import check_limits, check_nothing_is_overcommitted
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

MINUTE: Final = 60.0
BASE: Final = 1_000_000.0
"""The time of every state. Only ages count."""
JOBS: Final = 4
CYCLES: Final = 4 * JOBS
"""Most cycles until the world is quiet: each job is evicted once and starts twice at most."""
NODES: Final = [make_node("n1", gpus=2), make_node("n2", gpus=2)]
ANY: Final = frozenset({"ns"})


class Kind(NamedTuple):
    """A job that may come. It runs without end until an event ends it."""

    queue: str
    workers: int
    priority: int


KINDS: Final = tuple(
    Kind(queue, workers, priority) for queue in ("a", "b") for workers in (1, 2, 4) for priority in (0, 1)
)


@dataclass(frozen=True)
class World:
    """What does not change: quotas and policy."""

    name: str
    queues: tuple[TenantQueue, ...]
    policy: Policy

    @property
    def bounds_all(self) -> bool:
        """Somebody who holds GPUs for long has to leave, and nobody has a better claim than others."""
        nobody = not any(line.guaranteed for queue in self.queues for line in queue.quotas)
        return self.policy.tenure_s > 0 and nobody


class Seen(NamedTuple):
    """A state: jobs in the order of their arrival, and the earliest bound that each was told, from `BASE` on."""

    jobs: tuple[Job, ...] = ()
    told: tuple[float | None, ...] = ()


def queues(first: int, second: int, *, parent: str | None = None, limit: int | None = None) -> tuple[TenantQueue, ...]:
    """`first`, `second`: GPUs that a and b are guaranteed."""
    return (
        make_queue("a", guaranteed=first, namespaces=ANY),
        make_queue("b", guaranteed=second, parent=parent, limit=limit, namespaces=ANY),
    )


EAGER: Final = Policy(protected_runtime_s=0, share_history_percent=0, collect_after_s=0)
COLLECTS: Final = replace(EAGER, collect_after_s=90, tenure_s=120)
WORLDS: Final = tuple(
    World(f"{name}, {label}", quotas, policy)
    for label, policy in (("eager", EAGER), ("with a tenure", COLLECTS))
    for name, quotas in (
        ("nothing guaranteed", queues(0, 0)),
        ("half each", queues(2, 2)),
        ("a owns all", queues(4, 0)),
        ("b below a", queues(3, 1, parent="a")),
        ("b is limited", queues(1, 1, limit=2)),
    )
)


def follow(world: World, depth: int, *, most: int | None = None) -> int:
    """Check the states that up to `depth` events lead to; returns their number. `most`: of every generation so many
    states are followed, spread over all of them; None: all are."""
    generation, number = [Seen()], 0
    for _ in range(depth):
        every = 1 if most is None else -(-len(generation) // most)
        following = dict.fromkeys(found for state in generation[::every] for found in steps(world, state))
        generation = list(following)
        number += len(generation)
    return number


def steps(world: World, state: Seen) -> Iterator[Seen]:
    """The states after every event that may come next."""
    if len(state.jobs) < JOBS:
        for kind in KINDS:
            job = make_job("j9", queue=kind.queue, namespace="ns", workers=kind.workers, priority=kind.priority)
            yield after(world, state, came=replace(job, submitted_at=BASE + MINUTE))
    for job in state.jobs:
        yield after(world, state, gone=job.key)


def after(world: World, state: Seen, *, came: Job | None = None, gone: str = "") -> Seen:
    """The quiet state one event later."""
    toy = ToyCluster(NODES, world.queues, state.jobs, world.policy)
    toy.now = BASE + MINUTE
    told = {job.key: at for job, at in zip(state.jobs, state.told, strict=True) if at is not None}
    if came is not None:
        toy.observe(came)
    else:
        toy.end(gone)
        told.pop(gone, None)
    evicted: Counter[str] = Counter()
    for _ in range(CYCLES):
        before = list(toy.jobs.values())
        plan = toy.cycle()
        check_reclaims(world, before, plan)
        check_nothing_is_overcommitted(NODES, list(world.queues), list(toy.jobs.values()))
        check_limits(NODES, list(world.queues), list(toy.jobs.values()))
        check_bounds(world, toy, plan, told)
        evicted.update(action.job for action in plan.actions if isinstance(action, Evict))
        if not plan.actions:
            break
        toy.finish_evictions()
    else:
        raise AssertionError(f"not quiet: {toy.history}")
    assert max(evicted.values(), default=0) <= 1, f"evicted twice: {toy.history}"
    return normal(toy, told)


def check_reclaims(world: World, before: Sequence[Job], plan: Plan) -> None:
    """Check reclaims if no queue has a parent. What is reclaimed, together with what stays, exceeds the victim's
    guarantee. The job it is reclaimed for stays inside its own queue's guarantee."""
    if any(queue.parent for queue in world.queues):
        return
    guaranteed = {queue.name: sum(line.guaranteed for line in queue.quotas) // WHOLE for queue in world.queues}
    leaves = {action.job: action for action in plan.actions if isinstance(action, Evict)}
    held = Counter[str]()
    for job in before:
        if job.placement is not None and not job.evicting and job.key not in leaves:
            held[job.queue] += job.workers_min
    jobs = {job.key: job for job in before}
    for action in leaves.values():
        if action.kind is EvictionKind.RECLAIMED:
            victim, asks = jobs[action.job], jobs[action.in_favour_of or ""]
            with_it = held[victim.queue] + victim.workers_min
            assert with_it > guaranteed[victim.queue], f"{victim.key} was covered: {action}"
            assert held[asks.queue] + asks.workers_min <= guaranteed[asks.queue], f"{asks.key} has to borrow: {action}"


def check_bounds(world: World, toy: ToyCluster, plan: Plan, told: dict[str, float]) -> None:
    """Decisions come once in a minute, so a start may be late by that."""
    late = {key for key, at in told.items() if toy.now > at + MINUTE + CYCLES}
    assert not late, f"they wait for longer than they were told: {late}"
    for action in plan.actions:
        told.pop(action.job, None)
    for key, verdict in plan.verdicts.items():
        if key in plan.nominations:
            continue
        if verdict.starts_by is None:
            assert key not in told, f"{key} has lost its bound: {verdict}"
            assert not world.bounds_all, f"{key} has none: {verdict}"
        else:
            assert verdict.starts_by <= told.get(key, verdict.starts_by) + MINUTE, f"the bound of {key} moves back"
            told[key] = min(verdict.starts_by, told.get(key, verdict.starts_by))


def normal(toy: ToyCluster, told: dict[str, float]) -> Seen:
    """The state with times as of `BASE`, and jobs named by their order."""
    shift = BASE - toy.now
    jobs = sorted(toy.jobs.values(), key=lambda job: (job.submitted_at, job.key))

    def moved(at: float | None) -> float | None:
        return None if at is None else at + shift

    return Seen(
        tuple(
            replace(
                job,
                key=f"ns/j{number}",
                uid=f"uid-{number}",
                submitted_at=job.submitted_at + shift,
                admitted_at=moved(job.admitted_at),
                requeued_at=moved(job.requeued_at),
            )
            for number, job in enumerate(jobs)
        ),
        tuple(moved(told.get(job.key)) for job in jobs),
    )


if __name__ == "__main__":
    for each in WORLDS:
        print(f"{each.name}: {follow(each, int(sys.argv[1]))} states", flush=True)
