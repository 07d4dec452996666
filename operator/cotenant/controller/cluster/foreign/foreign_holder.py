"""A holder of GPUs that is not Cotenant's, in the form of the core: an admitted job of no queue. Pure.

It belongs to no quota and is never evicted; placements avoid its GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.core.model.objects import (
    GpuRequest,
    GrantedGpu,
    Job,
    JobKey,
    NodePlacement,
    Placement,
    RankPlacement,
)


def foreign_holder(
    key: JobKey,
    uid: str,
    gpu: GpuRequest,
    held: Sequence[tuple[str, tuple[GrantedGpu, ...]]],
    namespace: str = "",
) -> Job:
    """The job whose ranks hold these GPUs, in this order: (node, GPUs) for each rank."""
    nodes = tuple(
        NodePlacement(node=node, ranks=(RankPlacement(rank=rank, gpus=gpus),)) for rank, (node, gpus) in enumerate(held)
    )
    return Job(
        key=key,
        uid=uid,
        namespace=namespace,
        queue="",
        workers_min=len(nodes),
        workers_max=len(nodes),
        gpu=gpu,
        submitted_at=0.0,
        placement=Placement(nodes=nodes),
        admitted_at=0.0,
        preemptible=False,
    )
