"""Elastic jobs that grow into what is left, and shrink before any job is evicted."""

from __future__ import annotations

from cotenant.core.model.plan import Admit, Evict, Resize
from cotenant.testing import ToyCluster, make_job, make_node, make_queue


def steps(toy: ToyCluster) -> list[tuple[str, str]]:
    words = {Admit: "admit", Resize: "resize"}
    return [
        (action.kind.value if isinstance(action, Evict) else words[type(action)], action.job) for action in toy.history
    ]


def test_an_elastic_job_grows_into_idle_room_and_shrinks_before_anyone_is_evicted() -> None:
    toy = ToyCluster(
        [make_node("n1", gpus=4)],
        [make_queue("red", guaranteed=4), make_queue("blue", guaranteed=0)],
        [make_job("elastic", workers=(1, 4), at=1)],
    )
    toy.settle()
    grown = toy.jobs["red/elastic"].placement
    toy.observe(make_job("new", at=2, gpus=2))
    toy.settle()
    shrunk = toy.jobs["red/elastic"].placement

    assert grown is not None
    assert grown.workers == 4
    assert shrunk is not None
    assert shrunk.workers == 2
    assert [kind for kind, _ in steps(toy)] == ["admit", "resize", "admit"]
