"""The tree of queues, and the arithmetic of each share."""

from __future__ import annotations

from cotenant.core.policy import DEFAULT
from cotenant.query.queue_tree import QuotaUse, ShareSum, ShareTerm, queue_tree
from cotenant.query.situation import Situation
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

QUEUES = [
    make_queue("z-root", guaranteed=4, namespaces=frozenset()),
    make_queue("b", parent="z-root", guaranteed=1, limit=3, weight=2),
    make_queue("a", parent="z-root", guaranteed=0, hold="maintenance"),
    make_queue("lost", parent="nobody", guaranteed=1),
]


def situation() -> Situation:
    jobs = [
        make_job("runs", queue="b", gpus=3),
        make_job("waits", queue="b", at=2.0),
        make_job("other", queue="a", at=3.0, gpus=2),
    ]
    toy = ToyCluster([make_node("n1", gpus=4)], QUEUES, jobs[:1], DEFAULT)
    toy.cycle()
    for job in jobs[1:]:
        toy.observe(job)
    return Situation(toy.snapshot(), toy.cycle(), DEFAULT)


def test_queues_stand_below_their_parents_with_what_they_hold() -> None:
    shown = [
        (one.name, one.depth, one.guaranteed, one.used, one.borrowed, one.holding, one.waiting)
        for one in queue_tree(situation())
    ]
    assert shown == [
        ("z-root", 0, 4000, 3000, 0, 1, 2),
        ("a", 1, 0, 0, 0, 0, 1),
        ("b", 1, 1000, 3000, 2000, 1, 1),
        ("lost", 0, 0, 0, 0, 0, 0),
    ]


def test_the_terms_of_a_fair_share_add_up_to_the_deciding_figure() -> None:
    found = next(one for one in queue_tree(situation()) if one.name == "b")
    term = ShareTerm(scope=None, borrowed=2000, capacity=4000, ppm=500_000)
    past = found.share.past_ppm
    assert found.share == ShareSum(terms=(term,), past_ppm=past, weight=2, ppm=(500_000 + past) // 2)
    assert past > 0, "it has borrowed for a second"
    assert found.quotas == (
        QuotaUse(gpu_class=None, zone=None, guaranteed=1000, effective=1000, limit=3000, used=3000),
    )


def test_a_queue_that_cannot_be_used_has_its_reason() -> None:
    lost = next(one for one in queue_tree(situation()) if one.name == "lost")
    assert "nobody" in lost.broken


def test_a_queue_that_is_held_says_why() -> None:
    assert [(one.name, one.hold) for one in queue_tree(situation()) if one.hold] == [("a", "maintenance")]
