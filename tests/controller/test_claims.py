"""Whether what stands in a status can be carried out: what others hold, what there is, what the job asked. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.kube import PODS, TRAINING_JOBS
from cotenant.controller.cluster.budgets import Budgets
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.cluster.placement_validation import GpuHolders, pod_contradiction, shape_error
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.manifests.placement_annotation import placement_to_json
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import Gpu, GpuRequest, Job, Node, NodePlacement, Placement, Sharing
from cotenant.names import ANNOTATION_PLACEMENT
from tests.controller.builders import T0, UID, admitted, job_document, placement_on, pod, pod_document


def job(key: str, placement: Placement, *, queue: str = "red", sharing: Sharing = Sharing.QUEUE, count: int = 1) -> Job:
    return Job(
        key=key, uid=key, namespace="red", queue=queue, workers_min=placement.workers, workers_max=placement.workers,
        gpu=GpuRequest(count=count, memory_milli=None if count > 1 else 400, sharing=sharing), submitted_at=T0,
        placement=placement,
    )  # fmt: skip


def node(name: str = "n1", *, open_to_all: bool = False) -> Node:
    gpus = tuple(Gpu(uuid=f"GPU-{name}-{i}", gpu_class="H100", memory_mib=81_920, index=i) for i in range(2))
    return Node(name=name, gpus=gpus, cpu_milli=1, memory_mib=1, shared_by_queues=open_to_all)


SHARE, WHOLE = placement_on(("n1", 1)), placement_on(("n1", 1), memory_mib=81_920, compute_milli=1000)
TINY, BUSY = (
    placement_on(("n1", 1), memory_mib=81_000, compute_milli=1),
    placement_on(("n1", 1), memory_mib=1, compute_milli=400),
)
N1 = node()


@dataclass(frozen=True)
class Beside:
    name: str
    mine: Job
    others: tuple[Job, ...] = ()
    there: Node | None = N1
    says: str = ""


CONFLICTS = [
    Beside("alone", job("red/a", SHARE)),
    Beside("two shares of a queue", job("red/a", SHARE), (job("red/b", SHARE),)),
    Beside("a whole GPU that nobody holds", job("red/a", WHOLE), (job("red/b", placement_on(("n2", 1))),)),
    Beside(
        "compute that is held already", job("red/a", BUSY), (job("red/b", BUSY), job("red/c", BUSY)),
        says="would be handed out 1.2 times (beside it: red/b, red/c)",
    ),
    Beside(
        "memory that is held already", job("red/a", TINY), (job("red/b", TINY),),
        says="has 81920 MiB, and 162000 MiB of it would be held (beside it: red/b)",
    ),
    Beside(
        "more memory than the GPU has", job("red/a", placement_on(("n1", 1), memory_mib=99_999)),
        says="99999 MiB of it would be held (beside it: nobody else)",
    ),
    Beside("a GPU that the node has not", job("red/a", placement_on(("n1", 3))), says="node n1 has no GPU GPU-n1-2"),
    Beside("a node that is not there", job("red/a", SHARE), there=None, says="there is no node n1 with GPUs"),
    Beside(
        "the share of another queue", job("red/a", SHARE), (job("blue/b", SHARE, queue="blue"),),
        says="is not shared with blue/b",
    ),
    Beside(
        "another queue where both and the node allow it", job("red/a", SHARE, sharing=Sharing.ANY),
        (job("blue/b", SHARE, queue="blue", sharing=Sharing.ANY),), node(open_to_all=True),
    ),
    Beside(
        "another queue where the node does not", job("red/a", SHARE, sharing=Sharing.ANY),
        (job("blue/b", SHARE, queue="blue", sharing=Sharing.ANY),), says="is not shared with blue/b",
    ),
    Beside(
        "a job that shares with nobody", job("red/a", SHARE), (job("red/b", SHARE, sharing=Sharing.NEVER),),
        says="is not shared with red/b",
    ),
    Beside("what is left of another queue's job", job("red/a", SHARE), (job("blue/b#uid-1", SHARE, queue="blue"),)),
]  # fmt: skip


@pytest.mark.parametrize("case", CONFLICTS, ids=lambda case: case.name)
def test_a_placement_is_held_against_what_there_is_and_what_others_hold(case: Beside) -> None:
    claims = GpuHolders()
    for one in (*case.others, case.mine):
        claims.set(one.key, one)
    assert case.mine.placement is not None
    said = claims.conflict(case.mine.key, case.mine.placement, {case.there.name: case.there} if case.there else {})
    assert (case.says in said) if case.says else not said


def test_who_is_gone_is_in_nobodys_way() -> None:
    claims = GpuHolders()
    for key in ("red/a", "red/b", "red/c"):
        claims.set(key, job(key, SHARE))
    assert claims.conflict("red/a", SHARE, {"n1": node()})
    claims.set("red/b", None)
    claims.set("red/c", replace(job("red/c", SHARE), placement=None))
    assert not claims.conflict("red/a", SHARE, {"n1": node()})


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
        (placement_on(("n1", 3)), "it has 3 ranks, and the job has 2 workers"),
        (placement_on(("n1", 1)), "it has 1 ranks, and the job has 2 workers"),
    ],
    ids=["as decided", "a rank twice", "ranks out of order", "a node twice", "a rank too many", "a rank too few"],
)
def test_a_placement_that_no_decision_looks_like_is_told_from_one_that_may_be(placement: Placement, says: str) -> None:
    asked = replace(job("red/a", placement), workers_min=2, workers_max=2)
    said = shape_error(asked, placement)
    assert said.startswith(says) if says else not said


def test_a_rank_has_as_many_gpus_as_the_job_asks_for() -> None:
    assert "rank 0 has 1 GPUs, and the job asks for 2" in shape_error(job("red/a", WHOLE, count=2), WHOLE)


def test_a_pod_says_what_it_was_given() -> None:
    given = pod(0)
    assert not pod_contradiction(placement_on(("n1", 1)), [given])
    assert "pod train-1-0 was given other GPUs" in pod_contradiction(placement_on(("n2", 1)), [given])
    assert "pod train-1-1 was given other GPUs" in pod_contradiction(placement_on(("n1", 1)), [given, pod(1)])


def world_with(status: TrainingJobStatus, *pods: dict[str, object]) -> ClusterView:
    seen = ClusterView(ObjectCache(), Settings(), Budgets())
    seen.cache.put(TRAINING_JOBS, job_document(status=status.to_document()))
    for one in pods:
        seen.cache.put(PODS, one)
    seen.sync(T0 + 100)
    return seen


def test_what_a_pod_was_given_stays_taken_when_the_status_says_something_else() -> None:
    edited = admitted(Phase.RUNNING, ("n2", 2))
    given = pod_document(0, status={"phase": "Running"})
    given["metadata"]["annotations"][ANNOTATION_PLACEMENT] = placement_to_json(placement_on(("n1", 2)).nodes[0])
    seen = world_with(edited, given)
    held = {
        grant.uuid: one.key
        for one in seen.state.snapshot(T0 + 100).jobs
        if one.placement
        for part in one.placement.nodes
        for rank in part.ranks
        for grant in rank.gpus
    }
    assert held == {
        "GPU-n1-0": f"red/train#{UID}-1", "GPU-n1-1": f"red/train#{UID}-1",
        "GPU-n2-0": "red/train", "GPU-n2-1": "red/train",
    }  # fmt: skip
    assert "pod train-1-0 was given other GPUs" in seen.placement_error(seen.cache.jobs["red/train"], T0 + 100)


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.EVICTING, Phase.SUCCEEDED])
def test_only_what_is_to_run_is_held_against_the_books(phase: Phase) -> None:
    status = admitted(Phase.EVICTING, ("nowhere", 2)).model_copy(update={"phase": phase})
    seen = world_with(status)
    assert not seen.placement_error(seen.cache.jobs["red/train"], T0 + 100)
