"""Jobs that can never start as written are refused at once, with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.allocation.request import Request
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import GpuRequest, Job, Quota, TenantQueue, UserLimit
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.accounting import Accounting
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

RED = make_queue("red", guaranteed=8, limit=8)
BOTH = Accounting.of([make_node("h1"), make_node("a1", gpu_class="A100")], [make_queue("red", guaranteed=8)], [])


def running(name: str, *columns: int, user: str) -> Job:
    """Holds whole GPUs of n1."""
    placement = make_placement(("n1", [[column] for column in columns]))
    return replace(make_job(name, workers=len(columns), user=user, placement=placement), admitted_at=0.0)


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
    "a priority above the highest of its queue": (
        make_job("a", priority=7),
        [replace(RED, max_priority=5)],
        Reason.PRIORITY_NOT_ALLOWED,
    ),
    "a parent that does not exist": (make_job("a"), [replace(RED, parent="gone")], Reason.QUEUE_NOT_FOUND),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_job_that_can_never_start_is_refused_at_once_for(name: str) -> None:
    job, queues, reason = REFUSED[name]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=[job]))

    assert plan.actions == ()
    assert plan.verdicts[job.key].reason == reason


@pytest.mark.parametrize("first", [1, (1, 2)])
def test_requests_resolved_before_do_not_change_a_request(first: int | tuple[int, int]) -> None:
    """A single worker chooses freely among classes; a gang that may grow prefers one class."""
    resolver = RequestResolver(BOTH.inventory, BOTH.tree)
    resolver.resolve(make_job("first", workers=first))

    def classes(workers: int | tuple[int, int]) -> list[str]:
        request = resolver.resolve(make_job("second", workers=workers))
        assert isinstance(request, Request)
        return [option.gpu_class for option in request.options]

    assert (classes(1), classes((1, 2))) == ([""], ["A100", "H100", ""])


def test_what_quotas_allow_a_request_is_reused_while_quotas_are_unchanged() -> None:
    """The same objects, if the tree is the same object; none, if it is another tree."""
    job, before = make_job("a", classes=("H100",)), RequestResolver(BOTH.inventory, BOTH.tree)
    other = Accounting.of([make_node("h1")], [make_queue("red", guaranteed=8, gpu_class="A100")], [])
    first = before.resolve(job)
    assert isinstance(first, Request)

    same = RequestResolver(BOTH.inventory, BOTH.tree, before).resolve(job)
    refused = RequestResolver(BOTH.inventory, other.tree, before).resolve(job)

    assert isinstance(same, Request)
    assert same.options is first.options
    assert isinstance(refused, Refusal)
    assert refused.reason == Reason.NO_QUOTA


def test_a_job_that_was_changed_is_resolved_anew() -> None:
    resolver = RequestResolver(BOTH.inventory, BOTH.tree)
    found = [resolver.resolve(make_job("a", workers=workers)) for workers in (1, 3)]
    assert [request.workers for request in found if isinstance(request, Request)] == [1, 3]


MIXED = [make_node("n1", gpus=4), make_node("n2", gpus=4, gpu_class="A100")]


@pytest.mark.parametrize(
    ("quotas", "job", "message"),
    [
        pytest.param(
            (Quota(gpu_class="A100", guaranteed=1_000),), make_job("a", classes=("H100",)),
            "There is no quota for GPUs of class H100: no quota line of queue red covers it; its lines cover A100.",
            id="another class",
        ),
        pytest.param(
            (Quota(zone="moon", guaranteed=1_000),), make_job("a"),
            "There is no quota for GPUs of any class: no quota line of queue red covers it; its lines cover any"
            " class.",
            id="another zone",
        ),
        pytest.param(
            (), make_job("a"), "There is no quota for GPUs of any class: queue red has no quota line at all.",
            id="no line",
        ),
    ],
)  # fmt: skip
def test_for_a_class_that_no_quota_line_covers_the_covered_ones_are_named(
    quotas: tuple[Quota, ...], job: Job, message: str
) -> None:
    queue = replace(make_queue("red"), quotas=quotas)
    verdict = schedule(make_snapshot(nodes=MIXED, queues=[queue], jobs=[job])).verdicts["red/a"]
    assert (verdict.reason, verdict.message) == (Reason.NO_QUOTA, message)


@pytest.mark.parametrize(
    ("quotas", "classes", "guaranteed"),
    [
        pytest.param((Quota(gpu_class="A100", guaranteed=1_000), Quota(limit=8_000)), ("H100",), "nothing", id="none"),
        pytest.param(
            (Quota(gpu_class="A100", guaranteed=1_000), Quota(gpu_class="H100", guaranteed=3_000)), ("H100", "A100"),
            "only 3 GPU", id="the class with most",
        ),
        pytest.param(
            (Quota(gpu_class="A100", guaranteed=1_000), Quota(gpu_class="H100", guaranteed=3_000),
             Quota(guaranteed=2_000)), ("H100", "A100"), "only 2 GPU", id="the tighter of two lines of a class",
        ),
    ],
)  # fmt: skip
def test_for_a_job_that_may_not_be_evicted_the_guarantee_is_named(
    quotas: tuple[Quota, ...], classes: tuple[str, ...], guaranteed: str
) -> None:
    job = make_job("a", workers=4, preemptible=False, classes=classes)
    queue = replace(make_queue("red"), quotas=quotas)
    verdict = schedule(make_snapshot(nodes=MIXED, queues=[queue], jobs=[job])).verdicts["red/a"]
    assert f"and queue red is guaranteed {guaranteed}. Ask" in verdict.message


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
        "Needs 2 GPUs, together 2 GPU, and is not preemptible; "
        "such jobs run only inside a guarantee, and queue red is guaranteed only 1 GPU. Ask for less, or for a "
        "larger guarantee."
    )


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
            replace(make_queue("red"), quotas=(Quota(limit=2_000), Quota(zone="east", limit=2_000))),
            make_job("a", workers=3, zones=("east",)),
            "together 3 GPU; queue red, class any, zone any allows at most 2 GPU at any time.",
            id="a queue's limit before an equal one of a zone",
        ),
        pytest.param(
            replace(
                make_queue("red"), quotas=tuple(Quota(gpu_class=name, limit=1_000) for name in ("A100", "H100"))
            ),
            make_job("a", workers=2, classes=("H100", "A100")),
            "together 2 GPU; queue red, class H100, zone any allows at most 1 GPU at any time.",
            id="the preferred class of two with equal limits",
        ),
        pytest.param(
            make_queue("red", guaranteed=1), make_job("a", gpu=SHARE, workers=5, preemptible=False),
            "together 1.25 GPU, and is not preemptible; such jobs run only inside a guarantee, and queue red is "
            "guaranteed only 1 GPU. Ask for less, or for a larger guarantee.",
            id="a guarantee, of which the cheaper class takes least",
        ),
    ],
)  # fmt: skip
def test_for_a_gang_above_every_limit_the_nearest_one_is_named(queue: TenantQueue, job: Job, message: str) -> None:
    verdict = schedule(make_snapshot(nodes=TWO_CLASSES, queues=[queue], jobs=[job])).verdicts["red/a"]

    assert (verdict.reason, verdict.message[verdict.message.index("together") :]) == (Reason.EXCEEDS_LIMIT, message)


ANN = make_job("a", gpu=GpuRequest(memory_mib=20_480), workers=9, user="ann")
HELD = [running("held", 0, 1, user="ann"), running("bob", 2, user="bob")]


@pytest.mark.parametrize(
    ("queue", "message", "used", "available"),
    [
        pytest.param(
            make_queue("red", limit=2), "class any, zone any allows at most 2 GPU at any time; 3 GPU is used.",
            3_000, 0, id="a queue",
        ),
        pytest.param(
            replace(make_queue("red", guaranteed=0), user_limits=(UserLimit(user="ann", limit=2_100),)),
            "user ann in queue red allows at most 2.1 GPU at any time; 2 GPU is used.",
            2_000, 100, id="a user",
        ),
        pytest.param(
            replace(make_queue("red"), quotas=(Quota(memory_limit_mib=102_400),)),
            "class any, zone any allows at most 100 GiB at any time; 240 GiB is used.",
            245_760, 0, id="memory",
        ),
    ],
)  # fmt: skip
def test_a_permanent_refusal_names_the_present_use_of_the_limit(
    queue: TenantQueue, message: str, used: int, available: int
) -> None:
    jobs = [*HELD, ANN]
    verdict = schedule(make_snapshot(nodes=[make_node("n1", gpus=8)], queues=[queue], jobs=jobs)).verdicts["red/a"]

    evidence = dict(verdict.evidence)
    assert (verdict.reason, evidence["used"], evidence["available"]) == (Reason.EXCEEDS_LIMIT, used, available)
    assert verdict.message.endswith(message)
