"""What is not Cotenant's and holds GPUs is a job that the core counts and never moves."""

from __future__ import annotations

from cotenant.controller.cluster.foreign.foreign_holder import foreign_holder
from cotenant.core.model.objects import GpuRequest, GrantedGpu, Job, NodePlacement, Placement, RankPlacement


def test_each_rank_is_where_it_holds_its_gpus_and_the_job_is_in_no_queue() -> None:
    a, b = (GrantedGpu(uuid=uuid, memory_mib=80, compute_milli=1000) for uuid in ("GPU-a", "GPU-b"))
    found = foreign_holder("t/c#claim", "uid", GpuRequest(count=1), (("n2", (a,)), ("n1", (b,))), "t")
    assert found == Job(
        key="t/c#claim",
        uid="uid",
        namespace="t",
        queue="",
        workers_min=2,
        workers_max=2,
        gpu=GpuRequest(count=1),
        submitted_at=0.0,
        placement=Placement(
            nodes=(
                NodePlacement(node="n2", ranks=(RankPlacement(rank=0, gpus=(a,)),)),
                NodePlacement(node="n1", ranks=(RankPlacement(rank=1, gpus=(b,)),)),
            )
        ),
        admitted_at=0.0,
        preemptible=False,
    )
