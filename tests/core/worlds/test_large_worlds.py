"""Whole stories in large worlds, made from a seed: a failure names it.

Deep trees, three classes and zones, elastic jobs, consolidation, limits per user, GPUs that fall ill or turn suspect,
and half of the nodes lost at once.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.model.objects import GpuRequest, Job, Node, Quota, Sharing, TenantQueue, Topology, TopologyMode
from cotenant.core.model.plan import Admit, EvictionKind
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.state.facts import NodeGone, NodeObserved
from tests.core.worlds.held_amounts import same_ledger, same_usage
from tests.core.worlds.recount import check_limits, check_nothing_is_overcommitted
from tests.support.clusters import ToyCluster, make_job, make_node

CLASSES = ("A100", "H100", "L4")
ZONES = ("east", "north", "west")
SEEDS = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=max(1, settings().max_examples // 5))
"""A story takes a second."""


def nodes_of(rng: random.Random) -> list[Node]:
    sizes = [rng.choice((1, 2, 4, 8)) for _ in range(rng.randint(4, 16))]
    return [
        replace(
            make_node(
                f"n{number:02}",
                gpus=gpus,
                gpu_class=rng.choice(CLASSES),
                memory_mib=rng.choice((24_000, 81_559)),
                cpu_milli=rng.choice((8_000, 64_000)),
                peers=((0, 1), (2, 3)) if gpus >= 4 and rng.random() < 0.5 else (),
            ),
            zone=rng.choice(ZONES),
            rack=rng.choice(("r1", "r2", "")),
            shared_by_queues=rng.random() < 0.3,
        )
        for number, gpus in enumerate(sizes)
    ]


def queues_of(rng: random.Random) -> list[TenantQueue]:
    """Up to twenty queues; each hangs below one of the three before it, so trees are deep."""
    found: list[TenantQueue] = []
    for number in range(rng.randint(4, 20)):
        parent = None if rng.random() < 0.2 or not found else rng.choice(found[-3:]).name
        scopes = rng.sample([(None, None), *((name, None) for name in CLASSES), *((None, zone) for zone in ZONES)], 2)
        quotas = tuple(
            Quota(
                gpu_class=gpu_class,
                zone=zone,
                guaranteed=rng.randint(0, 8) * 1000,
                limit=rng.choice((None, None, None, 4_000, 16_000)),
                lendable=rng.choice((None, None, 0, 2_000)),
                memory_limit_mib=rng.choice((None, None, None, 300_000)),
            )
            for gpu_class, zone in [(None, None), *scopes][: rng.randint(1, 3)]
        )
        found.append(
            TenantQueue(
                name=f"q{number:02}",
                parent=parent,
                namespaces=frozenset({"ns"}),
                weight=rng.randint(1, 3),
                quotas=quotas if rng.random() < 0.9 else (),
                user_limit=rng.choice((None, None, 4_000)),
                consolidation=rng.random() < 0.5,
                protected_runtime_s=rng.choice((0, 0, 30)),
                half_life_s=rng.choice((None, 3_600)) if parent is None else None,
            )
        )
    return found


def request_of(rng: random.Random) -> GpuRequest:
    wanted: dict[str, Any] = {
        "classes": rng.choice(((), (), ("H100",), ("H100", "A100"))),
        "zones": rng.choice(((), (), ("east",))),
    }
    sharing = rng.choice(list(Sharing))
    match rng.choice(("whole", "whole", "milli", "mib")):
        case "whole":
            return GpuRequest(count=rng.choice((1, 1, 2, 4)), sharing=sharing, **wanted)
        case "milli":
            return GpuRequest(memory_milli=rng.choice((100, 333, 500, 700)), sharing=sharing, **wanted)
        case _:
            return GpuRequest(memory_mib=rng.choice((5_000, 20_000)), compute_milli=300, sharing=sharing, **wanted)


def job_of(rng: random.Random, number: int, names: list[str], at: float) -> Job:
    low = rng.choice((1, 1, 2, 3, 8))
    return make_job(
        f"j{number:02}",
        queue=rng.choice(names),
        namespace="ns",
        gpu=request_of(rng),
        workers=(low, low + rng.choice((0, 0, 2, 6))),
        at=at,
        priority=rng.randint(0, 3),
        user=rng.choice(("ann", "bob", "eve")),
        cpu_milli=rng.choice((0, 1_000, 4_000)),
        preemptible=rng.random() < 0.85,
        distinct_gpus=rng.random() < 0.8,
        expected_runtime_s=rng.choice((None, 60, 3_600)),
        topology=rng.choice(
            (None, None, Topology("rack", TopologyMode.REQUIRED), Topology("zone", TopologyMode.PREFERRED))
        ),
    )


class Story:
    """A cluster, and what happens in it next."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.nodes = {node.name: node for node in nodes_of(self.rng)}
        self.all = dict(self.nodes)
        self.queues = queues_of(self.rng)
        self.toy = ToyCluster(self.nodes.values(), self.queues)
        self.jobs = 0

    def happen(self) -> None:
        match self.rng.choice(("arrive", "arrive", "arrive", "end", "end", "time", "lost", "back", "ill", "suspect")):
            case "arrive":
                for _ in range(self.rng.randint(1, 8)):
                    names = [queue.name for queue in self.queues]
                    self.toy.observe(job_of(self.rng, self.jobs, names, self.toy.now))
                    self.jobs += 1
            case "end":
                running = sorted(key for key, job in self.toy.jobs.items() if job.placement is not None)
                for key in self.rng.sample(running, len(running) // 2):
                    self.toy.end(key)
            case "time":
                self.toy.now += self.rng.choice((40.0, 4_000.0))
            case "lost":
                for name in self.rng.sample(sorted(self.nodes), len(self.nodes) // 2):
                    del self.nodes[name]
                    self.toy.state.observe(NodeGone(name))
            case "back":
                for node in self.all.values():
                    self.see(node)
            case "ill":
                self.see(self.changed(healthy=False))
            case "suspect":
                self.see(self.changed(suspect=True))

    def held(self) -> list[Job]:
        """Jobs, without those that lie on a node that is gone: such GPUs count for nobody, and the jobs are leaving."""
        there = {gpu.uuid for node in self.nodes.values() for gpu in node.gpus}
        return [
            job
            for job in self.toy.jobs.values()
            if job.placement is None
            or there.issuperset(
                grant.uuid for part in job.placement.nodes for rank in part.ranks for grant in rank.gpus
            )
        ]

    def changed(self, **changes: Any) -> Node:
        node = self.rng.choice(list(self.all.values()))
        return replace(
            node, gpus=tuple(replace(gpu, **changes) if self.rng.random() < 0.5 else gpu for gpu in node.gpus)
        )

    def see(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.toy.state.observe(NodeObserved(node))


def check_users(queues: list[TenantQueue], story: Story) -> None:
    gpu = {gpu.uuid: gpu for node in story.all.values() for gpu in node.gpus}
    above = {queue.name: queue.parent for queue in queues}
    held: dict[tuple[str, str], int] = defaultdict(int)
    for job in story.held():
        if job.placement is None:
            continue
        milli = sum(
            max(grant.compute_milli, -(-grant.memory_mib * 1000 // gpu[grant.uuid].memory_mib))
            for part in job.placement.nodes
            for rank in part.ranks
            for grant in rank.gpus
        )
        at: str | None = job.queue
        while at is not None:
            held[at, job.user] += milli
            at = above[at]
    for queue in queues:
        for user in ("ann", "bob", "eve"):
            assert queue.user_limit is None or held[queue.name, user] <= queue.user_limit


@FEW
@given(SEEDS)
def test_every_chapter_of_a_long_story_settles_within_all_limits(seed: int) -> None:
    story = Story(seed)
    toy = story.toy
    for _ in range(8):
        story.happen()
        for _ in range(120):
            waiting = {key for key, job in toy.jobs.items() if job.placement is None}
            plan = toy.cycle()
            admitted = {action.job for action in plan.actions if isinstance(action, Admit)}
            assert admitted | set(plan.verdicts) == waiting
            check_nothing_is_overcommitted(list(story.all.values()), story.queues, list(toy.jobs.values()))
            check_limits(list(story.all.values()), story.queues, story.held())
            check_users(story.queues, story)
            if not plan.actions and not any(job.evicting or job.resizing_from for job in toy.jobs.values()):
                break
            toy.finish_evictions()
        else:
            raise AssertionError(f"still busy: {toy.history[-8:]}")
        assert schedule(toy.snapshot()).actions == ()


@FEW
@given(SEEDS)
def test_facts_in_any_order_give_the_same_plan(seed: int) -> None:
    story = Story(seed)
    for _ in range(4):
        story.happen()
        story.toy.cycle()
        story.toy.finish_evictions()
        snapshot = story.toy.snapshot()
        shuffled: dict[str, Any] = {
            name: tuple(story.rng.sample(getattr(snapshot, name), len(getattr(snapshot, name))))
            for name in ("nodes", "queues", "jobs")
        }
        carried, counted = snapshot.accounting, Accounting.of(snapshot.nodes, snapshot.queues, snapshot.jobs)
        assert carried is not None
        assert same_ledger(carried.ledger, counted.ledger)
        assert same_usage(carried.usage, counted.usage)
        assert carried.inventory.suspects == counted.inventory.suspects
        assert schedule(replace(snapshot, accounting=None, **shuffled)) == schedule(snapshot)


@FEW
@given(SEEDS)
def test_a_job_that_nobody_may_evict_leaves_only_a_node_that_is_lost(seed: int) -> None:
    story = Story(seed)
    for _ in range(8):
        story.happen()
        before = dict(story.toy.jobs)
        for action in story.toy.cycle().actions:
            kind = getattr(action, "kind", None)
            if kind is not None and not before[action.job].preemptible:
                assert kind is EvictionKind.NODE_LOST
        story.toy.finish_evictions()
