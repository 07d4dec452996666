"""Small jobs that move aside for a job that cannot start otherwise."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit, Evict, Resize
from cotenant.testing import ToyCluster, make_job, make_node, make_placement, make_queue


def steps(toy: ToyCluster) -> list[tuple[str, str]]:
    words = {Admit: "admit", Resize: "resize"}
    return [
        (action.kind.value if isinstance(action, Evict) else words[type(action)], action.job) for action in toy.history
    ]


def running(name: str, column: int | list[list[int]], *, at: float = 0.0, node: str = "n1", **changes: object) -> Job:
    workers = [[column]] if isinstance(column, int) else column
    job = make_job(name, placement=make_placement((node, workers)), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=at, workers_min=changes.get("workers_min", job.workers_min))  # type: ignore[arg-type]


def test_small_jobs_move_aside_where_their_queue_allows_it() -> None:
    nodes = [make_node("n1"), make_node("n2")]
    queues = [replace(make_queue("red", guaranteed=4), consolidation=True)]
    jobs = [running("a", 0, node="n1", at=1.0), running("b", 0, node="n2", at=2.0)]
    toy = ToyCluster(nodes, queues, [*jobs, make_job("pair", gpus=2, at=3)])
    toy.now = 100.0
    toy.settle()

    assert [kind for kind, _ in steps(toy)] == ["Moved", "admit", "admit"]
    assert all(job.placement for job in toy.jobs.values())

    still = ToyCluster(nodes, [make_queue("red", guaranteed=4)], [*jobs, make_job("pair", gpus=2, at=3)])
    still.settle()
    assert steps(still) == []
