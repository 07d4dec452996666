"""What a queue could get now, class by class: as much as is offered is given, and one more is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import Admit
from cotenant.core.policy import DEFAULT
from cotenant.query.offer import ClassOffer, Offer, offers
from cotenant.query.situation import Situation
from cotenant.query.what_if import ProposalOutcome, what_if
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

QUEUES = (make_queue("red", guaranteed=2), make_queue("blue", guaranteed=2))


def situation(*jobs: Job, queues: tuple[TenantQueue, ...] = QUEUES) -> Situation:
    """Two nodes of two H100 and one of two A100, after a cycle."""
    nodes = [make_node("n1"), make_node("n2"), make_node("n3", gpu_class="A100")]
    toy = ToyCluster(nodes, queues, jobs, DEFAULT)
    planned = toy.snapshot()
    plan = toy.cycle()
    assert len([one for one in plan.actions if isinstance(one, Admit)]) == len(jobs)
    return Situation(replace(planned, now=toy.now), plan, DEFAULT)


def h100(offer: Offer) -> ClassOffer:
    return next(one for one in offer.classes if one.gpu_class == "H100")


def test_idle_gpus_are_offered_as_guaranteed_up_to_the_guarantee_and_then_as_borrowed() -> None:
    (offer,) = offers(situation(make_job("runs", queue="blue", classes=("H100",))), "red")
    assert h100(offer) == ClassOffer(
        gpu_class="H100", guaranteed=2, borrowable=1, largest_gang=3, on_one_node=2, share_milli=1000
    )


def test_if_no_whole_gpu_is_free_a_share_is_offered() -> None:
    shares = [make_job(f"s{number}", milli=600, classes=("H100",), sharing="Queue", at=number) for number in range(4)]
    (offer,) = offers(situation(*shares), "red")
    assert (h100(offer).largest_gang, h100(offer).share_milli) == (0, 400)


@pytest.mark.parametrize("gpu_class", ["H100", "A100"])
def test_the_largest_gang_starts_and_one_more_worker_does_not(gpu_class: str) -> None:
    now = situation(make_job("runs", queue="blue", classes=(gpu_class,)))
    offer = next(one for one in offers(now, "red")[0].classes if one.gpu_class == gpu_class)
    outcomes = [
        what_if(now, make_job("gang", workers=offer.largest_gang + more, classes=(gpu_class,)), lambda: False).outcome
        for more in (0, 1)
    ]
    assert (outcomes[0], outcomes[1] is ProposalOutcome.STARTS) == (ProposalOutcome.STARTS, False)


def test_a_class_that_the_queue_may_never_have_is_not_offered() -> None:
    (offer,) = offers(situation(queues=(make_queue("red", guaranteed=2, gpu_class="A100"),)), "red")
    assert [one.gpu_class for one in offer.classes] == ["A100"]


def test_a_queue_that_offers_nothing_has_a_reason() -> None:
    (offer,) = offers(situation(queues=(make_queue("red"),)), "red")
    assert (offer.classes, "no quota line" in offer.refusal) == ((), True)


def test_a_namespace_without_a_queue_is_offered_nothing() -> None:
    assert offers(situation(), "green") == ()
