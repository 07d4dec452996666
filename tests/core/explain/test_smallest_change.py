"""The smallest change that would start a waiting job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core import schedule
from cotenant.core.model.objects import GpuRequest, Job, Node, Sharing, Topology, TopologyMode
from cotenant.core.model.plan import Reason
from cotenant.testing import make_job, make_node, make_placement, make_queue, make_snapshot


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
def test_the_smallest_change_that_would_start_it_is_named(change: str) -> None:
    nodes, jobs, new = CHANGES[change]
    if "rack" in change:
        jobs = [*jobs, busy("b", "n2", 0)]

    plan = schedule(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=8)], jobs=[*jobs, new]))

    words = plan.verdicts["red/new"].would_start_if
    assert words == change


def test_a_limit_in_the_way_is_named_with_the_missing_amount_where_the_job_can_do_nothing_itself() -> None:
    queues = [make_queue("red", guaranteed=1, limit=1)]
    jobs = [busy("a", "n1", 0), make_job("new")]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=4)], queues=queues, jobs=jobs))

    assert plan.verdicts["red/new"].would_start_if == "queue red, class any, zone any had 1 GPU more"


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
def test_a_job_that_waits_behind_kept_places_is_advised_to_end_in_time_not_to_put_its_ranks_together(
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
    assert plan.verdicts["red/small"].would_start_if == "it were sure to end within 600 s (maxRuntime)"
