"""The cluster as the last plan left it is what the core's own state takes for the next decision."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.scheduling.scheduler import schedule
from cotenant.query.situation import Situation
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue


def cluster() -> ToyCluster:
    """A job that runs, one for which it has to leave, one that waits, and an elastic one."""
    queues = [make_queue("red", guaranteed=2), make_queue("blue", guaranteed=2)]
    toy = ToyCluster([make_node("n1"), make_node("n2")], queues)
    toy.observe(make_job("lent", queue="blue", gpus=2, workers=2, at=1.0))
    toy.cycle()
    toy.observe(make_job("wanted", gpus=2, at=2.0))
    toy.observe(make_job("elastic", queue="blue", workers=(1, 4), at=3.0))
    return toy


def test_the_overlay_of_an_action_equals_what_the_core_assumes() -> None:
    toy = cluster()
    for _ in range(4):
        planned = toy.snapshot()
        plan = schedule(replace(planned, now=toy.now + 1.0), toy.policy)
        situation = Situation(replace(planned, now=toy.now + 1.0), plan, toy.policy)
        toy.cycle()
        assumed = toy.state.bare_snapshot(toy.now)
        mine = situation.snapshot
        assert sorted(mine.jobs, key=lambda job: job.key) == sorted(assumed.jobs, key=lambda job: job.key)
        assert (mine.nominations, mine.evicted) == (assumed.nominations, assumed.evicted)
        toy.finish_evictions()
