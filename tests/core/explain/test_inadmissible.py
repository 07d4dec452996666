"""Jobs that can never start as written are refused at once, with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core import schedule
from cotenant.core.allocation.request import Request
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import GpuRequest, Job, Quota, TenantQueue
from cotenant.core.model.plan import Reason
from cotenant.core.snapshot.accounting import Accounting
from cotenant.testing import make_job, make_node, make_queue, make_snapshot

RED = make_queue("red", guaranteed=8, limit=8)
BOTH = Accounting.of([make_node("h1"), make_node("a1", gpu_class="A100")], [make_queue("red", guaranteed=8)], [])


REFUSED = {
    "a queue that does not exist": (make_job("a", queue="grey"), [RED], Reason.QUEUE_NOT_FOUND),
    "a namespace that the queue does not serve": (make_job("a", namespace="other"), [RED], Reason.NAMESPACE_NOT_SERVED),
    "a class that nobody has": (make_job("a", classes=("B200",)), [RED], Reason.CLASS_NOT_FOUND),
    "a zone that does not exist": (make_job("a", zones=("moon",)), [RED], Reason.ZONE_NOT_FOUND),
    "a class that the queue is not granted": (
        make_job("a"),
        [make_queue("red", guaranteed=1, gpu_class="A100")],
        Reason.NO_QUOTA,
    ),
    "a queue without any line": (make_job("a"), [make_queue("red")], Reason.NO_QUOTA),
    "more than the limit, ever": (make_job("a", workers=9), [RED], Reason.EXCEEDS_LIMIT),
    "more than the parent's limit, ever": (
        make_job("a", workers=2),
        [make_queue("top", limit=1), make_queue("red", limit=8, parent="top")],
        Reason.EXCEEDS_LIMIT,
    ),
    "a spent budget": (make_job("a"), [replace(RED, budget_left=0)], Reason.BUDGET_SPENT),
    "a hundred GPUs in a cluster of two": (
        make_job("a", workers=100),
        [make_queue("red", guaranteed=0)],
        Reason.EXCEEDS_CLUSTER,
    ),
    "a parent that does not exist": (make_job("a"), [replace(RED, parent="gone")], Reason.QUEUE_NOT_FOUND),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_never_start_is_refused_at_once_for(name: str) -> None:
    job, queues, reason = REFUSED[name]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=[job]))

    assert plan.actions == ()
    assert plan.verdicts[job.key].reason == reason


@pytest.mark.parametrize("first", [1, (1, 2)])
def test_what_was_resolved_before_changes_no_request(first: int | tuple[int, int]) -> None:
    """One worker chooses freely among classes, and a gang that may grow prefers one of them."""
    resolver = RequestResolver(BOTH.inventory, BOTH.tree)
    resolver.resolve(make_job("first", workers=first))

    def classes(workers: int | tuple[int, int]) -> list[str]:
        request = resolver.resolve(make_job("second", workers=workers))
        assert isinstance(request, Request)
        return [option.gpu_class for option in request.options]

    assert (classes(1), classes((1, 2))) == ([""], ["A100", "H100", ""])


def test_a_job_that_may_not_be_evicted_has_to_fit_into_a_guarantee() -> None:
    plan = schedule(
        make_snapshot(
            nodes=[make_node("n1")],
            queues=[make_queue("red", guaranteed=1, limit=2)],
            jobs=[make_job("a", gpus=2, preemptible=False)],
        )
    )

    assert plan.verdicts["red/a"].reason == Reason.EXCEEDS_LIMIT
    assert plan.verdicts["red/a"].message == (
        "Needs 2 GPUs, together 2 GPU, and may not be evicted; "
        "such jobs run only inside a guarantee, and queue red is guaranteed only 1 GPU. Ask for less, or for a "
        "larger guarantee."
    )


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            make_job("a", namespace="blue"),
            "Queue red does not serve namespace blue; it is served by blue or shared.",
        ),
        (
            make_job("a", namespace="other"),
            "Queue red does not serve namespace other; "
            "no queue serves namespace other, ask an administrator to add it to one.",
        ),
        (
            make_job("a", namespace="bare"),
            "Queue red does not serve namespace bare; "
            "namespace bare is not labelled cotenant.dev/tenant=true, ask an administrator to label it.",
        ),
        (
            make_job("a", queue="grey", namespace="red"),
            "There is no queue grey; namespace red is served by red.",
        ),
        (
            make_job("a", queue="", namespace="none"),
            "There is no queue (none named); no queue serves namespace none, ask an administrator to add it to one.",
        ),
    ],
)
def test_a_queue_that_does_not_serve_the_namespace_is_refused_with_the_queues_that_do(job: Job, message: str) -> None:
    queues = [
        make_queue("red", guaranteed=1),
        make_queue("blue", guaranteed=1, unlabelled=frozenset({"bare"})),
        make_queue("shared", guaranteed=0, namespaces=frozenset({"blue", "green"})),
    ]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=[job]))

    assert plan.verdicts[job.key].message == message


TWO_CLASSES = [
    make_node("n1", gpus=8, zone="east"),
    make_node("n2", gpus=8, zone="west"),
    make_node("n3", gpus=8, zone="west", gpu_class="A100", memory_mib=40_960),
]
"""A share of 20 GiB is a quarter of the one class and a half of the other."""
SHARE = GpuRequest(memory_mib=20_480, classes=("A100", "H100"))


@pytest.mark.parametrize(
    ("queue", "job", "message"),
    [
        pytest.param(
            make_queue("red", limit=1), make_job("a", gpu=SHARE, workers=5),
            "together 1.25 GPU; queue red, class any, zone any allows at most 1 GPU at any time.",
            id="the class of which most fit",
        ),
        pytest.param(
            make_queue("red", limit=1), make_job("a", gpu=GpuRequest(classes=("A100", "H100")), workers=2),
            "together 2 GPU; queue red, class any, zone any allows at most 1 GPU at any time.", id="classes alike",
        ),
        pytest.param(
            replace(make_queue("red"), quotas=(Quota(zone="east", limit=1_000), Quota(zone="west", limit=1_000))),
            make_job("a", workers=3, classes=("H100",)),
            "together 3 GPU; queue red, class any, zone east allows at most 1 GPU at any time.",
            id="zones",
        ),
        pytest.param(
            make_queue("red", guaranteed=1), make_job("a", gpu=SHARE, workers=5, preemptible=False),
            "together 1.25 GPU, and may not be evicted; such jobs run only inside a guarantee, and queue red is "
            "guaranteed only 1 GPU. Ask for less, or for a larger guarantee.",
            id="a guarantee, of which the cheaper class takes least",
        ),
    ],
)  # fmt: skip
def test_a_gang_above_every_limit_is_told_the_one_that_is_nearest(queue: TenantQueue, job: Job, message: str) -> None:
    verdict = schedule(make_snapshot(nodes=TWO_CLASSES, queues=[queue], jobs=[job])).verdicts["red/a"]

    assert (verdict.reason, verdict.message[verdict.message.index("together") :]) == (Reason.EXCEEDS_LIMIT, message)


@pytest.mark.parametrize(("left", "starts"), [(None, True), (1, True), (0, False), (-1, False)])
def test_a_budget_is_spent_when_nothing_of_it_is_left(left: int | None, starts: bool) -> None:
    snapshot = make_snapshot(nodes=[make_node("n1")], queues=[replace(RED, budget_left=left)], jobs=[make_job("a")])

    assert bool(schedule(snapshot).actions) is starts


def test_a_spent_budget_names_its_limit_and_the_day_on_which_it_starts_again() -> None:
    queue = replace(RED, budget_left=0, budget=100 * 3_600_000, budget_until="2026-01-01T00:00Z")
    verdict = schedule(make_snapshot(nodes=[make_node("n1")], queues=[queue], jobs=[make_job("a")])).verdicts["red/a"]
    assert verdict.message == (
        "The budget of 100 GPU-hours of queue red is spent until 2026-01-01T00:00Z; the job starts with the next"
        " period, or when an administrator raises spec.budget.gpuHours."
    )
    assert dict(verdict.evidence) == {"metric": "GPU-hours", "scope": "queue red", "limit": "100", "available": 0}
