"""The smallest change that would start a waiting job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.model.objects import (
    GpuRequest,
    Job,
    Node,
    Quota,
    Sharing,
    Spread,
    TenantQueue,
    TimeOrder,
    Topology,
    TopologyMode,
)
from cotenant.core.model.plan import Reason
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot


def busy(name: str, node: str, column: int, **changes: object) -> Job:
    job = make_job(name, placement=make_placement((node, [[column]])), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=900.0)


SHARE = GpuRequest(memory_milli=500, compute_milli=500)

CHANGES: dict[str, tuple[list[Node], list[Job], Job]] = {
    "it asked for 3 workers": ([make_node("n1", gpus=4)], [busy("a", "n1", 0)], make_job("new", workers=4)),
    "its share were at most 0.2 GPU": (
        [make_node("n1", gpus=1)],
        [make_job("a", milli=800, placement=make_placement(("n1", [[0]]), milli=800))],
        make_job("new", milli=400),
    ),
    "it also allowed class A100": (
        [make_node("n1", gpus=1), make_node("n2", gpus=1, gpu_class="A100")],
        [busy("a", "n1", 0)],
        make_job("new", classes=("H100",)),
    ),
    "its topology rack were Preferred instead of Required": (
        [make_node("n1", rack="r1"), make_node("n2", rack="r2")],
        [busy("a", "n1", 0)],
        make_job("new", workers=2, gpus=1, topology=Topology("rack", TopologyMode.REQUIRED)),
    ),
    "its spread over nodes were Preferred instead of Required": (
        [make_node("n1"), make_node("n2", gpus=1)],
        [busy("a", "n2", 0)],
        make_job("new", workers=2, gpus=1, spread=Spread("node", TopologyMode.REQUIRED)),
    ),
    "it allowed GPUs of any class": (
        [make_node("n1", gpus=1), make_node("n2", gpus=1, gpu_class="A100"), make_node("n3", gpus=1, gpu_class="L4")],
        [busy("a", "n1", 0)],
        make_job("new", workers=2, classes=("H100",)),
    ),
    "it also allowed class H100": ([make_node("n1")], [], make_job("new", classes=("B200",))),
    "it also allowed zone west": (
        [make_node("n1", gpus=1, zone="east"), make_node("n2", gpus=1, zone="west")],
        [busy("a", "n1", 0)],
        make_job("new", zones=("east",)),
    ),
    "it shared its GPUs with jobs of its queue (sharing: Queue)": (
        [make_node("n1", gpus=1)],
        [make_job("a", milli=400, placement=make_placement(("n1", [[0]]), milli=400))],
        make_job("new", milli=400, sharing=Sharing.NEVER),
    ),
    "a worker asked for at most 60 CPU": (
        [make_node("n1", gpus=2, cpu_milli=64_000)],
        [busy("a", "n1", 0, cpu_milli=4_000)],
        make_job("new", cpu_milli=64_000),
    ),
    "a worker asked for 3 GPUs": ([make_node("n1", gpus=4)], [busy("a", "n1", 0)], make_job("new", gpus=4)),
    "a worker asked for a share of at most 0.6 GPU": (
        [make_node("n1", gpus=1)],
        [make_job("a", milli=400, placement=make_placement(("n1", [[0]]), milli=400))],
        make_job("new"),
    ),
    "it asked for at least 3 workers": (
        [make_node("n1", gpus=4)],
        [busy("a", "n1", 0)],
        make_job("new", workers=(4, 6)),
    ),
    "its share were at most 20 GiB": (
        [make_node("n1", gpus=1)],
        [make_job("a", milli=750, placement=make_placement(("n1", [[0]]), milli=750))],
        make_job("new", gpu=GpuRequest(memory_mib=40_960)),
    ),
    "its ranks may share a GPU (collective: gloo)": (
        [make_node("n1", gpus=2)],
        [busy("a", "n1", 0)],
        make_job("new", workers=2, milli=500),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_smallest_change_that_would_start_the_job_is_named(change: str) -> None:
    nodes, jobs, new = CHANGES[change]
    if "rack" in change:
        jobs = [*jobs, busy("b", "n2", 0)]

    plan = schedule(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=8)], jobs=[*jobs, new]))

    words = plan.verdicts["red/new"].would_start_if
    assert words == change


def test_if_no_change_of_the_job_helps_the_missing_quota_is_named() -> None:
    queues = [make_queue("red", guaranteed=1, limit=1)]
    jobs = [busy("a", "n1", 0), make_job("new")]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=4)], queues=queues, jobs=jobs))

    assert plan.verdicts["red/new"].would_start_if == "queue red, class any, zone any had 1 GPU more"


THREE_CLASSES = [make_node(f"n-{name}", gpus=1, gpu_class=name) for name in ("A100", "H100", "L4")]


@pytest.mark.parametrize(
    ("trials", "change"), [(0, ""), (1, ""), (2, "it also allowed class L4")], ids=["none", "one", "two"]
)
def test_no_more_places_are_looked_for_than_a_cycle_may(trials: int, change: str) -> None:
    """A100 is tried first; it is held."""
    jobs = [busy("a", "n-A100", 0), busy("h", "n-H100", 0), make_job("new", classes=("H100",))]
    snapshot = make_snapshot(nodes=THREE_CLASSES, queues=[make_queue("red", guaranteed=8)], jobs=jobs)

    assert schedule(snapshot, Policy(advice=trials)).verdicts["red/new"].would_start_if == change


def test_without_trials_left_no_quota_change_is_advised_either() -> None:
    queues, jobs = [make_queue("red", guaranteed=1, limit=1)], [busy("a", "n1", 0), make_job("new")]
    snapshot = make_snapshot(nodes=[make_node("n1", gpus=4)], queues=queues, jobs=jobs)

    assert [schedule(snapshot, Policy(advice=trials)).verdicts["red/new"].would_start_if for trials in (0, 500)] == [
        "",
        "queue red, class any, zone any had 1 GPU more",
    ]


def advice(
    nodes: list[Node],
    jobs: list[Job],
    policy: Policy = DEFAULT,
    queues: tuple[TenantQueue, ...] = (make_queue("red", guaranteed=16), make_queue("blue", guaranteed=16)),
) -> str:
    """The change that the last of the jobs is advised."""
    plan = schedule(make_snapshot(nodes=nodes, queues=[*queues], jobs=jobs), policy)
    return plan.verdicts[jobs[-1].key].would_start_if


@pytest.mark.parametrize(
    ("queue", "priority", "change"),
    [
        (make_queue("red", guaranteed=8), 5_000, "its priority were 1000"),
        (make_queue("red", guaranteed=8, max_priority=40), 5_000, "its priority were 40"),
        (make_queue("red", guaranteed=8, min_priority=10), 3, "its priority were 10"),
    ],
    ids=["of numbers", "of a queue from above", "of a queue from below"],
)
def test_for_a_priority_out_of_bounds_the_nearest_bound_is_advised(
    queue: TenantQueue, priority: int, change: str
) -> None:
    assert advice([make_node("n1")], [make_job("new", priority=priority)], queues=(queue,)) == change


def test_a_gang_that_can_never_start_as_written_costs_no_trials_of_fewer_workers() -> None:
    """One trial is of a part of its GPU, the other of its priority."""
    gang = make_job("new", workers=2, priority=5_000)
    assert advice([make_node("n1")], [gang], Policy(advice=2)) == "its priority were 1000"


def behind(gang: Job, small: Job, *, ends_in_s: float = 600.0) -> list[Job]:
    """Two of four GPUs of a node are free, and are kept for the gang until the two others are free too."""
    ending = [
        replace(busy(f"busy{column}", "n1", column, expected_runtime_s=700), admitted_at=300.0 + ends_in_s)
        for column in range(2)
    ]
    return [*ending, gang, small]


GANG = make_job("gang", workers=4, at=1)
IN_600_S = "it were sure to end within 10m (maxRuntime)"


@pytest.mark.parametrize(
    ("gang", "small", "bounds", "change"),
    [
        pytest.param(GANG, {}, {}, "its priority were 1", id="of its own queue"),
        pytest.param(replace(GANG, priority=4), {"priority": 2}, {}, "its priority were 5", id="that has one itself"),
        pytest.param(GANG, {}, {"max_priority": 1}, "its priority were 1", id="that is allowed just so"),
        pytest.param(GANG, {}, {"max_priority": 0}, IN_600_S, id="that its queue does not allow"),
        pytest.param(make_job("gang", queue="blue", workers=4, at=1), {}, {}, IN_600_S, id="of another queue"),
    ],
)
def test_a_priority_above_that_of_the_job_ahead_is_advised(
    gang: Job, small: dict[str, Any], bounds: dict[str, Any], change: str
) -> None:
    jobs = behind(gang, make_job("small", at=2, expected_runtime_s=5_000, **small))
    queues = (replace(make_queue("red", guaranteed=8), **bounds), make_queue("blue", guaranteed=8))
    assert advice([make_node("n1", gpus=4)], jobs, queues=queues) == change


@pytest.mark.parametrize(
    ("runtime", "change"),
    [
        ({"expected_runtime_s": 300}, "a worker asked for 2 GPUs"),
        ({"expected_runtime_s": 600}, "a worker asked for 2 GPUs"),
        ({"expected_runtime_s": 601}, ""),
        ({"max_runtime_s": 600, "expected_runtime_s": 5_000}, "a worker asked for 2 GPUs"),
        ({"max_runtime_s": 5_000, "expected_runtime_s": 300}, ""),
        ({"max_runtime_s": 600}, "a worker asked for 2 GPUs"),
        ({}, ""),
    ],
    ids=str,
)
def test_fewer_gpus_help_on_a_reserved_place_only_if_the_job_ends_in_time(runtime: dict[str, Any], change: str) -> None:
    """It asks for three GPUs, and two are there until the gang can start."""
    jobs = behind(GANG, make_job("small", at=2, gpus=3, **runtime))
    assert advice([make_node("n1", gpus=4)], jobs) == change


@pytest.mark.parametrize(("max_runtime_s", "change"), [(600, "it asked for 2 workers"), (601, "")])
def test_fewer_workers_help_on_a_reserved_place_only_if_the_job_ends_in_time(max_runtime_s: int, change: str) -> None:
    jobs = behind(GANG, make_job("small", at=2, workers=3, max_runtime_s=max_runtime_s))
    bounds = replace(make_queue("red", guaranteed=8), max_priority=0)
    assert advice([make_node("n1", gpus=4)], jobs, queues=(bounds,)) == change


@pytest.mark.parametrize(
    ("ends_in_s", "change"),
    [
        (61.0, "it were sure to end within 1m (maxRuntime)"),
        (60.0, "it were sure to end within 1m (maxRuntime)"),
        (59.5, "its priority were 1"),
    ],
)
def test_no_run_time_of_less_than_a_minute_is_advised(ends_in_s: float, change: str) -> None:
    jobs = behind(GANG, make_job("small", at=2), ends_in_s=ends_in_s)
    assert advice([make_node("n1", gpus=4)], jobs) == change


@pytest.mark.parametrize(
    ("order", "change"),
    [(TimeOrder.AGE, "it asked for 2 workers"), (TimeOrder.LEAST_SERVICE, "")],
    ids=["age", "service"],
)
def test_an_older_gang_may_take_the_reserved_place_if_its_queue_orders_by_age(order: TimeOrder, change: str) -> None:
    """It is too large for the cluster, and has had GPUs for three hours."""
    jobs = behind(GANG, make_job("large", workers=9, at=0, ran_s=3 * 3_600))
    queues = (replace(make_queue("red", guaranteed=16), order=order),)
    assert advice([make_node("n1", gpus=4)], jobs, queues=queues) == change


def test_no_priority_is_advised_that_brings_the_queue_out_of_its_guarantee() -> None:
    """With the job that asks for two GPUs at its head, its queue has its turn after the other one."""
    running = [
        busy(f"b{column}", "n1", column, queue="blue", expected_runtime_s=700, cpu_milli=1_000) for column in (0, 1)
    ]
    rival, other = (make_job(name, queue=queue, cpu_milli=64_000, at=1, priority=number)
                    for name, queue, number in (("rival", "red", 1), ("other", "blue", 0)))  # fmt: skip
    new = make_job("new", gpus=2, cpu_milli=1_000, at=2, max_runtime_s=7_200)
    queues = (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=3))
    found = advice([make_node("n1", gpus=4, cpu_milli=64_000)], [*running, rival, other, new], queues=queues)
    assert found == "it were sure to end within 10m (maxRuntime)"


def test_of_two_reserved_places_the_later_one_is_advised() -> None:
    nodes = [make_node("n1", gpus=4), make_node("n2", gpus=4, gpu_class="A100")]
    ending = [busy("a", "n1", 0, expected_runtime_s=400), busy("b", "n2", 0, expected_runtime_s=700)]
    kept = [make_job("g1", gpus=4, at=1, classes=("H100",)), make_job("g2", gpus=4, at=2, classes=("A100",))]
    assert advice(nodes, [*ending, *kept, make_job("small", at=3)]) == IN_600_S


def test_the_class_with_most_room_decides_how_many_workers_are_advised() -> None:
    nodes = [make_node("h", gpus=4), make_node("a", gpus=4, gpu_class="A100")]
    held = [busy("h0", "h", 0), busy("a0", "a", 0), busy("a1", "a", 1)]
    limits = tuple(Quota(gpu_class=name, guaranteed=8_000) for name in ("A100", "H100"))
    queue = replace(make_queue("red"), quotas=limits)
    gang = make_job("new", workers=4, classes=("A100", "H100"))
    assert advice(nodes, [*held, gang], queues=(queue,)) == "it asked for 3 workers"


@pytest.mark.parametrize(
    ("queue", "preemptible"),
    [(make_queue("red", guaranteed=8), False), (make_queue("red", limit=8), True)],
    ids=["inside a guarantee, where it may not be evicted", "outside of any guarantee"],
)
def test_fewer_workers_are_advised_where_the_whole_gang_would_lie(queue: TenantQueue, preemptible: bool) -> None:
    gang = make_job("new", workers=3, preemptible=preemptible)
    assert advice([make_node("n1", gpus=3)], [busy("a", "n1", 0), gang], queues=(queue,)) == "it asked for 2 workers"


@pytest.mark.parametrize(("gpus", "change"), [(2, "queue red, class any, zone any had 0.5 GPU more"), (1, "")])
def test_a_limit_is_to_be_raised_by_the_missing_amount_if_there_is_a_gpu_for_it(gpus: int, change: str) -> None:
    """One GPU and a half are allowed, and these cannot be shared."""
    node = make_node("n1", gpus=gpus, gpu_class="MI300X", resource="amd.com/gpu")
    queue = replace(make_queue("red"), quotas=(Quota(limit=1_500),))
    assert advice([node], [busy("a", "n1", 0), make_job("new")], queues=(queue,)) == change


def test_the_raise_also_covers_use_above_the_limit() -> None:
    queue = replace(make_queue("red"), quotas=(Quota(limit=1_000),))
    jobs = [busy("a", "n1", 0), busy("b", "n1", 1), make_job("new")]
    assert advice([make_node("n1", gpus=4)], jobs, queues=(queue,)) == "queue red, class any, zone any had 2 GPU more"


def test_the_limit_of_the_zone_with_free_gpus_is_to_be_raised() -> None:
    nodes = [make_node("n1", gpus=4, zone="east"), make_node("n2", gpus=1, zone="west")]
    limits = tuple(Quota(zone=zone, limit=limit) for zone, limit in (("east", 1_000), ("west", 8_000)))
    jobs = [busy("a", "n1", 0), busy("b", "n2", 0), make_job("new")]
    queue = replace(make_queue("red"), quotas=limits)
    assert advice(nodes, jobs, queues=(queue,)) == "queue red, class any, zone east had 1 GPU more"


@pytest.mark.parametrize(
    ("job", "change"),
    [(make_job("new", gpus=2), "a worker asked for 1 GPU"), (make_job("new", workers=2), "it asked for 1 worker")],
    ids=["GPUs", "workers"],
)
def test_one_trial_is_enough_if_there_is_only_one_smaller_amount(job: Job, change: str) -> None:
    assert advice([make_node("n1")], [busy("a", "n1", 0), job], Policy(advice=1)) == change


def test_one_trial_finds_that_less_cpu_and_memory_do_not_help_and_one_that_the_largest_amount_does() -> None:
    job = make_job("new", gpus=4, cpu_milli=1_000, memory_mib=1_024)
    assert advice([make_node("n1", gpus=4)], [busy("a", "n1", 0), job], Policy(advice=2)) == "a worker asked for 3 GPUs"


@pytest.mark.parametrize(
    "small",
    [
        pytest.param(make_job("small", at=2, gpu=SHARE), id="one worker has no ranks to put together"),
        pytest.param(
            make_job("small", at=2, gpu=SHARE, workers=2, distinct_gpus=False), id="its ranks may share a GPU already"
        ),
        pytest.param(make_job("small", at=2, workers=2), id="whole GPUs are not shared"),
    ],
)
def test_behind_reserved_places_a_maximum_run_time_is_advised_before_shared_gpus(
    small: Job,
) -> None:
    ending = [busy(f"busy{column}", "n1", column, expected_runtime_s=700) for column in range(2)]
    gang = make_job("gang", workers=4, at=1)

    plan = schedule(
        make_snapshot(
            nodes=[make_node("n1", gpus=4)],
            queues=[make_queue("red", guaranteed=8)],
            jobs=[*ending, gang, small],
        )
    )

    assert plan.verdicts["red/small"].reason == Reason.WAITING_FOR_GPUS
    assert plan.verdicts["red/small"].would_start_if == "it were sure to end within 10m (maxRuntime)"
