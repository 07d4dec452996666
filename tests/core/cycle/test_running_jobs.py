"""Running jobs by queue: those that may be asked to leave, and those with more workers than their minimum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.model.objects import Job
from cotenant.core.snapshot.accounting import Accounting
from tests.support.clusters import make_job, make_node, make_placement, make_queue

WIDE = make_placement(("n1", [[0], [1]]))
NARROW = make_placement(("n1", [[2]]))


def test_jobs_are_found_by_their_own_queue_and_elastic_ones_by_their_surplus() -> None:
    jobs = [
        make_job("surplus", workers=(1, 2), placement=WIDE),
        make_job("minimum", workers=(1, 2), placement=NARROW),
        make_job("fixed", workers=2, placement=WIDE),
        replace(make_job("overfull", placement=WIDE), workers_min=1, workers_max=1),
        make_job("leaving", workers=(1, 2), placement=WIDE, evicting=True),
        make_job("child", queue="team", workers=(1, 2), placement=WIDE),
        make_job("orphan", queue="gone", placement=NARROW),
    ]
    queues = [make_queue("red", guaranteed=1), make_queue("team", guaranteed=1, parent="red"), make_queue("idle")]
    counted = Accounting.of([make_node("n1", gpus=4)], queues, jobs)
    running = RunningJobs(counted.running, counted.allocations, counted.tree)

    def names(queue: str) -> tuple[list[str], list[str]]:
        index = counted.tree.index[queue]
        found = running.of_queue(index).jobs, running.of_queue(index).enlarged
        return [job.key.partition("/")[2] for job in found[0]], [job.key.partition("/")[2] for job in found[1]]

    assert names("red") == (["surplus", "minimum", "fixed", "overfull"], ["surplus"])
    assert names("team") == (["child"], ["child"])
    assert names("idle") == ([], [])


def test_the_two_longest_running_jobs_of_each_class_are_found_for_evictable_jobs_and_for_others() -> None:
    def runs(name: str, node: str, column: int, max_runtime_s: int | None = None, **more: Any) -> Job:
        return make_job(name, placement=make_placement((node, [[column]])), max_runtime_s=max_runtime_s, **more)

    jobs = [
        runs("hour", "a", 0, 3_600),
        runs("minute", "a", 1, 60),
        runs("day", "a", 2, 86_400),
        runs("endless-but-leaving", "a", 3, evicting=True),
        runs("stays", "a", 4, 60, preemptible=False),
        runs("orphan", "a", 5, 30, queue="gone"),
        runs("third", "a", 6, 10, preemptible=False),
        runs("endless", "b", 0),
    ]
    nodes = [make_node("a", gpus=8, gpu_class="A100"), make_node("b", gpus=1, gpu_class="T4")]
    counted = Accounting.of(nodes, [make_queue("red", guaranteed=1)], jobs)
    running = RunningJobs(counted.running, counted.allocations, counted.tree)

    want = {("A100", f"red/{name}") for name in ("day", "hour", "stays")} | {
        ("A100", "gone/orphan"),
        ("T4", "red/endless"),
    }
    assert set(running.longest) == want
