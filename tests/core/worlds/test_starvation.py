"""No job starves: a job that was told a latest start has started by then, in any stream of other jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import WAITING_FOR_ENDINGS, Admit, Evict, EvictionKind, Verdict
from cotenant.core.policy import Policy
from cotenant.core.scheduling.start_bounds import UNKNOWN
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

TICK = 60.0
PATIENCE_S = 600
ANY = frozenset({"ns"})
UNDECLARED_S = 2_400
"""Longest run of jobs that declare nothing and end."""


@dataclass
class Wait:
    since: float
    told: list[float] = field(default_factory=list)
    """Latest starts that the job was told since the last arrival of a job that may run longer than all others."""
    kept: list[float] = field(default_factory=list)
    """Latest starts that it was told since GPUs were reserved for it."""
    until: float = inf


class Stream:
    """Jobs come and end at ticks; the cluster decides three times at each."""

    def __init__(self, toy: ToyCluster, tenure_s: float = 0.0) -> None:
        self.toy, self.tenure_s = toy, tenure_s
        self.at = 0.0
        self.runs_s: dict[str, float] = {}
        self.started: dict[str, float] = {}
        self.waits: dict[str, Wait] = {}
        self.over: list[Wait] = []
        self.untold: dict[str, str] = {}
        """Jobs that waited for others to end, and once had no bound → why not."""

    def submit(self, job: Job, runs_s: float) -> None:
        self.runs_s[job.key] = runs_s
        at = self.at + 1.0 + len(self.runs_s) / 1e6
        self.come(job, at)
        self.toy.observe(replace(job, submitted_at=at))

    def come(self, job: Job, at: float) -> None:
        known = [self.counted_s(other) for other in self.toy.jobs.values() if other.key != job.key]
        counted_s = self.counted_s(job)
        if counted_s == inf or counted_s > max((other for other in known if other < inf), default=0.0):
            for wait in self.waits.values():
                wait.told.clear()
        self.waits[job.key] = Wait(at)

    def counted_s(self, job: Job) -> float:
        if self.tenure_s:
            return self.tenure_s
        return inf if job.max_runtime_s is None else job.max_runtime_s

    def tick(self) -> None:
        self.at += TICK
        for job in list(self.toy.jobs.values()):
            if job.admitted_at is not None and job.admitted_at + self.runs_s[job.key] <= self.at:
                self.toy.end(job.key)
        for fraction in (0.1, 0.2, 0.3):
            self.toy.now = self.at - 1.0 + fraction
            plan = self.toy.cycle()
            self.toy.finish_evictions()
            for action in plan.actions:
                if isinstance(action, Admit):
                    self.check(action.job)
            for verdict in plan.verdicts.values():
                if verdict.job not in plan.nominations and verdict.reason in WAITING_FOR_ENDINGS:
                    self.note(verdict)
            for action in plan.actions:
                if isinstance(action, Evict):
                    self.come(self.toy.jobs[action.job], self.toy.now)

    def note(self, verdict: Verdict) -> None:
        wait = self.waits[verdict.job]
        if verdict.starts_by is None:
            assert not wait.told + wait.kept, "a bound is lost"
            self.untold[verdict.job] = verdict.starts_by_basis
            return
        assert verdict.starts_by >= self.at
        assert not (known := wait.told + wait.kept) or verdict.starts_by <= min(known) + TICK, "a bound moves back"
        (wait.kept if "reserved for it" in verdict.message else wait.told).append(verdict.starts_by)

    def check(self, key: str) -> None:
        self.started.setdefault(key, self.at)
        wait = self.waits.pop(key)
        known = wait.told + wait.kept
        assert not known or self.at <= min(known) + TICK, "it starts too late"
        wait.until = self.at
        self.over.append(wait)

    def check_turns(self, longest_s: float) -> None:
        """The job that has waited longest, if overdue, starts once the jobs that held GPUs then have ended."""
        waits = [
            *self.over,
            *(replace(wait, until=self.at) for key, wait in self.waits.items() if key in self.toy.jobs),
        ]
        for wait in waits:
            first_at = max([wait.since + PATIENCE_S, *(one.until for one in waits if one.since < wait.since)])
            assert wait.until <= first_at + longest_s + 3 * TICK


def drawn_queues(rng: random.Random, gpus: int) -> list[TenantQueue]:
    """Flat or a tree. What is guaranteed in all, there is."""
    found: list[TenantQueue] = []
    left = gpus
    for index in range(rng.randint(1, 4)):
        parent = rng.choice(found).name if found and rng.random() < 0.3 else None
        guaranteed = 0 if parent else min(left, rng.choice((0, 2, gpus // 2, gpus)))
        left -= guaranteed
        limit = rng.choice((None, None, max(guaranteed, gpus - 2)))
        found.append(make_queue(f"q{index}", guaranteed=guaranteed, limit=limit, parent=parent, namespaces=ANY))
    return found


def drawn_jobs(
    rng: random.Random, queues: list[TenantQueue], gpus: int, *, endless: bool
) -> Iterator[tuple[Job, float]]:
    """An endless stream of jobs: mostly small, now and then a gang of up to all that a limit allows.

    Some have no maxRuntime, and of these some never end by themselves, if `endless`.
    """
    number = 0
    while True:
        most_s = rng.choice((600, 1_200, 3_600, None))
        job = make_job(
            f"j{number}",
            queue=rng.choice(queues).name,
            namespace="ns",
            workers=rng.choice((1, 1, 1, 1, 2, 4, gpus - 2)) if rng.random() < 0.5 else 1,
            gpus=2 if rng.random() < 0.1 else 1,
            priority=rng.choice((0, 0, 0, 5)),
            max_runtime_s=most_s,
            expected_runtime_s=rng.choice((None, 300)),
        )
        never_ends = endless and most_s is None and rng.random() < 0.3
        yield job, 1e9 if never_ends else rng.uniform(0.3, 1.0) * ((most_s or UNDECLARED_S) - 2 * TICK)
        number += 1


def played(seed: int, policy: Policy, *, endless: bool, guarantees: bool = True) -> Stream:
    rng = random.Random(seed)
    nodes = [make_node(f"n{index}", gpus=rng.choice((2, 4, 8))) for index in range(rng.randint(1, 3))]
    gpus = max(4, sum(len(node.gpus) for node in nodes))
    queues = drawn_queues(rng, gpus if guarantees else 0)
    toy = ToyCluster(nodes, queues, policy=replace(policy, protected_runtime_s=rng.choice((0, 120))))
    stream = Stream(toy, policy.tenure_s)
    jobs = drawn_jobs(rng, queues, gpus, endless=endless)
    for _ in range(rng.choice((30, 60))):
        for _ in range(rng.choice((1, 1, 1, 2))):
            stream.submit(*next(jobs))
        waiting = [job for job in toy.jobs.values() if job.placement is None]
        if len(waiting) > 12:
            toy.end(max(waiting, key=lambda job: (job.submitted_at, job.key)).key)
        stream.tick()
    return stream


def has_guarantees(stream: Stream) -> bool:
    return any(line.guaranteed for queue in stream.toy.snapshot().queues for line in queue.quotas)


COLLECTS = Policy(collect_after_s=PATIENCE_S)
SEEDS = st.integers(0, 2**32)
FEW = settings(max_examples=max(1, settings().max_examples // 12))
"""Each is a story of a hundred cycles and more."""


@given(SEEDS)
@FEW
def test_with_a_tenure_limit_every_job_starts_by_its_latest_start(seed: int) -> None:
    """Other jobs may declare anything, and may never end."""
    stream = played(seed, replace(COLLECTS, tenure_s=2_400), endless=True)

    if not has_guarantees(stream):
        assert not stream.untold, "nothing is guaranteed to others, so every job has a bound"


@given(SEEDS)
@FEW
def test_without_a_tenure_limit_every_published_latest_start_holds(seed: int) -> None:
    """It holds as long as no job comes that may run longer than all others."""
    stream = played(seed, COLLECTS, endless=False)

    assert all(stream.untold.values())


@given(SEEDS)
@FEW
def test_a_job_without_a_latest_start_gets_the_reason(seed: int) -> None:
    stream = played(seed, COLLECTS, endless=True)

    assert all(stream.untold.values())
    assert not any(
        action.kind is EvictionKind.COLLECTED for action in evictions_of(stream) if not has_guarantees(stream)
    )


@given(SEEDS)
@FEW
def test_no_job_starves_while_running_jobs_end(seed: int) -> None:
    """Nothing is declared or guaranteed, and no job is evicted."""
    stream = played(seed, COLLECTS, endless=False, guarantees=False)

    stream.check_turns(3_600)


def evictions_of(stream: Stream) -> list[Evict]:
    return [action for action in stream.toy.history if isinstance(action, Evict)]


@pytest.mark.parametrize("max_runtime_s", [None, 900], ids=["nobody declares anything", "all have a maxRuntime"])
@pytest.mark.parametrize("others", ["red", "blue"], ids=["of its own queue", "of a queue that borrows"])
def test_a_gang_of_all_gpus_starts_under_a_stream_of_small_jobs_that_exceeds_the_room(
    max_runtime_s: int | None, others: str
) -> None:
    queues = [make_queue("red", guaranteed=4), make_queue("blue", guaranteed=0)]
    patience = 1_200
    policy = Policy(collect_after_s=patience, protected_runtime_s=1_200 if others == "blue" else 300)
    stream = Stream(ToyCluster([make_node("n", gpus=4)], queues, policy=policy))
    rng = random.Random(1)
    for number in range(120):
        stream.submit(make_job(f"s{number}", queue=others, max_runtime_s=max_runtime_s), rng.uniform(300, 700))
        if number % 3 == 0:
            stream.submit(make_job(f"t{number}", queue=others, max_runtime_s=max_runtime_s), rng.uniform(300, 700))
        if number == 10:
            stream.submit(make_job("gang", gpus=4, max_runtime_s=900), 300.0)
        stream.tick()

    assert stream.started["red/gang"] <= 10 * TICK + patience + 1_000


def test_among_jobs_of_unknown_end_a_gang_starts_once_it_has_waited_four_times_as_long_as_they_run() -> None:
    """Each runs for longer than twice the patience, and the next is there when one ends."""
    toy = ToyCluster([make_node("n", gpus=4)], [make_queue("red", guaranteed=4)], policy=COLLECTS)
    stream, longest_s, rng = Stream(toy), 8 * PATIENCE_S, random.Random(1)
    for number in range(500):
        if sum(job.placement is None for job in toy.jobs.values()) < 3:
            stream.submit(make_job(f"s{number}"), rng.uniform(0.7, 1.0) * longest_s)
        if number == 10:
            stream.submit(make_job("gang", gpus=4), 300.0)
        stream.tick()

    assert 4 * PATIENCE_S < stream.started["red/gang"] - 10 * TICK <= 5 * longest_s


def test_gangs_that_never_end_take_turns_if_there_is_a_tenure_limit() -> None:
    """They do as long as other jobs come: an arrival is a change, after which evicted jobs may be evicted again."""
    policy = replace(COLLECTS, tenure_s=PATIENCE_S)
    stream = Stream(ToyCluster([make_node("n", gpus=4)], [make_queue("red", guaranteed=4)], policy=policy), PATIENCE_S)
    for name in ("one", "two"):
        stream.submit(make_job(name, gpus=4), 1e9)
    for number in range(100):
        stream.submit(make_job(f"s{number}", max_runtime_s=120), 60.0)
        stream.tick()

    evictions = evictions_of(stream)
    assert {action.kind for action in evictions} == {EvictionKind.COLLECTED}
    assert [action.job for action in evictions][:3] == ["red/one", "red/two", "red/one"]
    assert len(evictions) <= 100 * TICK / PATIENCE_S


def test_without_a_tenure_limit_no_job_inside_its_guarantee_leaves_however_long_others_wait() -> None:
    stream = Stream(ToyCluster([make_node("n", gpus=4)], [make_queue("red", guaranteed=4)], policy=COLLECTS))
    for name in ("one", "two"):
        stream.submit(make_job(name, gpus=4), 1e9)
    for _ in range(100):
        stream.tick()

    assert not evictions_of(stream)
    assert stream.untold == {"red/two": UNKNOWN}
