"""A placement in a status can be carried out only if it fits the nodes, other holders and the job's spec. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.kube import PODS, TRAINING_JOBS
from cotenant.controller.cluster.placement_validation import covers, pod_contradiction, server_count_error, shape_error
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import GpuRequest, Job, NodePlacement, Placement, Sharing
from tests.controller.builders import (
    T0,
    UID,
    ObservedCluster,
    admitted,
    exited,
    job_document,
    new_cluster,
    placement_on,
    pod,
    pod_document,
    server,
)


def job(key: str, placement: Placement, *, queue: str = "red", sharing: Sharing = Sharing.QUEUE, count: int = 1) -> Job:
    return Job(
        key=key, uid=key, namespace="red", queue=queue, workers_min=placement.workers, workers_max=placement.workers,
        gpu=GpuRequest(count=count, memory_milli=None if count > 1 else 400, sharing=sharing), submitted_at=T0,
        placement=placement,
    )  # fmt: skip


SHARE, WHOLE = placement_on(("n1", 1)), placement_on(("n1", 1), memory_mib=81_920, compute_milli=1000)


def part(name: str, *ranks: int) -> NodePlacement:
    usual = placement_on((name, len(ranks))).nodes[0]
    return replace(usual, ranks=tuple(replace(one, rank=n) for one, n in zip(usual.ranks, ranks, strict=True)))


@pytest.mark.parametrize(
    ("placement", "says"),
    [
        (placement_on(("n1", 1), ("n2", 1)), ""),
        (Placement(nodes=(part("n1", 0), part("n2", 0))), "the ranks are not 0, 1, 2"),
        (Placement(nodes=(part("n1", 1), part("n2", 0))), "the ranks are not 0, 1, 2"),
        (Placement(nodes=(part("n1", 0), part("n1", 1))), "a node is named twice"),
        (Placement(nodes=(part("n1", 0, 1), part("n2"))), "the ranks are not 0, 1, 2"),
        (placement_on(("n1", 3)), "it has 3 ranks, and the job has 2 workers"),
        (placement_on(("n1", 1)), "it has 1 ranks, and the job has 2 workers"),
    ],
    ids=[
        "as decided",
        "a rank twice",
        "ranks out of order",
        "a node twice",
        "a node without ranks",
        "a rank too many",
        "a rank too few",
    ],
)
def test_a_placement_that_no_decision_looks_like_is_told_from_one_that_may_be(placement: Placement, says: str) -> None:
    asked = replace(job("red/a", placement), workers_min=2, workers_max=2)
    error = shape_error(asked, placement)
    assert (error is not None and error.startswith(says)) if says else error is None


def test_a_rank_has_as_many_gpus_as_the_job_asks_for() -> None:
    assert "rank 0 has 1 GPUs, and the job asks for 2" in str(shape_error(job("red/a", WHOLE, count=2), WHOLE))


def test_a_gpu_that_a_rank_has_twice_is_one() -> None:
    (rank,) = GIVEN.ranks
    twice = Placement(nodes=(replace(GIVEN, ranks=(replace(rank, gpus=rank.gpus * 2),)),))
    assert "the job asks for 2 per worker" in str(shape_error(job("red/a", twice, count=2), twice))


@pytest.mark.parametrize("held", [{"memory_mib": 1, "compute_milli": 0}, {"memory_mib": 0, "compute_milli": 1}])
def test_the_least_of_a_gpu_that_the_placement_does_not_name_is_not_covered(held: dict[str, int]) -> None:
    (rank,) = GIVEN.ranks
    other = replace(rank.gpus[0], uuid="GPU-other", **held)
    worker = pod(0).worker
    assert worker is not None
    given = replace(GIVEN, ranks=(replace(rank, gpus=(*rank.gpus, other)),))
    holding = replace(pod(0), worker=replace(worker, placement=given))
    assert covers(Placement(nodes=(GIVEN,)), holding) is False
    assert covers(Placement(nodes=(given,)), holding) is True


def test_a_pod_says_what_it_was_given() -> None:
    given = pod(0)
    assert not pod_contradiction(placement_on(("n1", 1)), [given])
    assert "pod train-1-0 was given other GPUs" in str(pod_contradiction(placement_on(("n2", 1)), [given]))
    assert "pod train-1-1 was given other GPUs" in str(pod_contradiction(placement_on(("n1", 1)), [given, pod(1)]))


def world_with(status: TrainingJobStatus, *pods: dict[str, object]) -> ObservedCluster:
    seen = new_cluster()
    seen.cache.put(TRAINING_JOBS, job_document(status=status.to_document()))
    for one in pods:
        seen.cache.put(PODS, one)
    seen.sync(T0 + 100)
    return seen


def test_what_a_pod_was_given_stays_taken_when_the_status_says_something_else() -> None:
    edited = admitted(Phase.RUNNING, ("n2", 2))
    given = placement_on(("n1", 2)).nodes[0]
    seen = world_with(edited, pod_document(0, status={"phase": "Running"}, placement=given))
    held = {
        grant.uuid: one.key
        for one in seen.snapshot(T0 + 100).jobs
        if one.placement
        for part in one.placement.nodes
        for rank in part.ranks
        for grant in rank.gpus
    }
    assert held == {
        "GPU-n1-0": f"red/train#{UID}-1", "GPU-n1-1": f"red/train#{UID}-1",
        "GPU-n2-0": "red/train", "GPU-n2-1": "red/train",
    }  # fmt: skip
    assert "pod train-1-0 was given other GPUs" in str(
        seen.view.core_jobs.placement_error(seen.cache.jobs["red/train"], T0 + 100)
    )


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.EVICTING, Phase.SUCCEEDED])
def test_only_what_is_to_run_is_held_against_the_books(phase: Phase) -> None:
    status = admitted(Phase.EVICTING, ("nowhere", 2)).model_copy(update={"phase": phase})
    seen = world_with(status)
    assert not seen.view.core_jobs.placement_error(seen.cache.jobs["red/train"], T0 + 100)


def test_a_server_was_given_no_gpus_and_contradicts_nothing() -> None:
    assert pod_contradiction(placement_on(("n1", 1)), [server(nodes=1)]) is None


def test_a_pod_that_has_ended_contradicts_nothing() -> None:
    assert pod_contradiction(placement_on(("n2", 1)), [pod(0, end=exited(0))]) is None


def test_a_job_without_a_placement_has_no_servers_too_many() -> None:
    assert server_count_error(0, 0) is None


def error_of(seen: ObservedCluster) -> str | None:
    return seen.view.core_jobs.placement_error(seen.cache.jobs["red/train"], T0 + 100)


@pytest.mark.parametrize(
    ("phase", "pods", "checked"),
    [
        (Phase.STARTING, 0, True),
        (Phase.STARTING, 1, True),
        (Phase.STARTING, 2, False),
        (Phase.RUNNING, 0, False),
    ],
    ids=["no pods yet", "one of two pods", "all pods", "it runs"],
)
def test_gpus_are_looked_for_as_long_as_pods_have_to_be_made(phase: Phase, pods: int, checked: bool) -> None:
    parts = placement_on(("n1", 1), ("n2", 1)).nodes
    made = [
        pod_document(rank, node=parts[rank].node, status={"phase": "Running"}, placement=parts[rank])
        for rank in range(pods)
    ]
    error = error_of(world_with(admitted(phase, ("n1", 1), ("n2", 1)), *made))
    assert error == ("there is no node n1 with GPUs" if checked else None)


GIVEN = placement_on(("n1", 1)).nodes[0]
"""What the first pod of the builders holds: 32,768 MiB and 400 of the compute of one GPU."""


def two_shares(memory_mib: int) -> NodePlacement:
    """The same GPU in two ranks: half of the compute, and so much memory, each."""
    (grant,) = GIVEN.ranks[0].gpus
    half = replace(grant, memory_mib=memory_mib, compute_milli=200)
    return replace(GIVEN, ranks=tuple(replace(GIVEN.ranks[0], rank=rank, gpus=(half,)) for rank in range(2)))


@pytest.mark.parametrize(
    ("placement", "covered"),
    [
        pytest.param(Placement(nodes=(GIVEN,)), True, id="just that"),
        pytest.param(WHOLE, True, id="more of the same GPU"),
        pytest.param(placement_on(("n1", 2)), True, id="another GPU besides"),
        pytest.param(Placement(nodes=(two_shares(16_384),)), True, id="the same in two shares"),
        pytest.param(Placement(nodes=(two_shares(16_383),)), False, id="two shares that come to less"),
        pytest.param(placement_on(("n1", 1), memory_mib=32_767), False, id="less memory"),
        pytest.param(placement_on(("n1", 1), compute_milli=399), False, id="less compute"),
        pytest.param(placement_on(("n2", 1)), False, id="a GPU of another node"),
        pytest.param(Placement(nodes=(replace(GIVEN, node="n2"),)), False, id="a GPU of that name on another node"),
        pytest.param(Placement(nodes=()), False, id="no node of this rank"),
        pytest.param(placement_on(("n2", 1), ("n1", 1)), False, id="the node of another rank"),
    ],
)
def test_a_placement_covers_a_pod_where_it_counts_at_least_what_the_pod_holds(
    placement: Placement, covered: bool
) -> None:
    assert covers(placement, pod(0)) is covered


def test_a_pod_of_a_later_rank_is_looked_for_on_the_node_of_its_rank() -> None:
    placement = placement_on(("n2", 1), ("n1", 1))
    assert covers(placement, pod(1)) is True
    assert covers(placement, pod(2)) is False


def test_a_server_and_a_pod_of_others_are_covered_by_nothing() -> None:
    placement, first = placement_on(("n1", 1)), pod(0)
    assert first.worker is not None
    others = [
        server(nodes=1, node="n1"),
        replace(first, worker=replace(first.worker, placement=None)),
        replace(first, worker=None),
    ]
    assert [covers(placement, one) for one in others] == [False] * 3


def test_the_pod_of_a_server_stands_for_none_of_the_ranks() -> None:
    made = pod_document(1, node="cpu", status={"phase": "Running"}, server=True)
    assert error_of(world_with(admitted(Phase.STARTING, ("n1", 2), servers=1), made)) is not None
    runtime = {"entrypoint": "a:b", "strategy": "ParameterServer"}
    seen = new_cluster()
    status = admitted(Phase.STARTING, ("n1", 2), servers=1).to_document()
    seen.cache.put(TRAINING_JOBS, job_document(status=status, runtime=runtime))
    seen.cache.put(PODS, made)
    seen.sync(T0 + 100)
    assert error_of(seen) == "there is no node n1 with GPUs"


def test_of_a_gpu_of_which_a_pod_holds_nothing_no_place_is_looked_for() -> None:
    (rank,) = GIVEN.ranks
    nothing = replace(rank.gpus[0], uuid="GPU-other", memory_mib=0, compute_milli=0)
    worker = pod(0).worker
    assert worker is not None
    holding = replace(worker, placement=replace(GIVEN, ranks=(replace(rank, gpus=(*rank.gpus, nothing)),)))
    assert covers(Placement(nodes=(GIVEN,)), replace(pod(0), worker=holding)) is True
