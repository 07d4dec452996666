"""A placement in a job's status ⇄ the placement of the core."""

from __future__ import annotations

from cotenant.api.resources.placement_status import GrantStatus, Isolation, NodeStatus, PlacementStatus, RankStatus
from cotenant.core.model import objects as core


def to_placement(status: PlacementStatus) -> core.Placement:
    return core.Placement(
        nodes=tuple(
            core.NodePlacement(
                node=node.node,
                ranks=tuple(
                    core.RankPlacement(
                        rank=rank.rank,
                        gpus=tuple(
                            core.GrantedGpu(uuid=gpu.uuid, memory_mib=gpu.memory_mib, compute_milli=gpu.compute_milli)
                            for gpu in rank.gpus
                        ),
                    )
                    for rank in node.ranks
                ),
            )
            for node in status.nodes
        )
    )


def from_placement(
    placement: core.Placement,
    *,
    admitted_at: float,
    isolation: Isolation,
    backfilled_until: float | None = None,
    servers: int = 0,
    priority: int | None = None,
) -> PlacementStatus:
    """The status that commits an admission at `admitted_at`, Unix seconds. `to_placement` is its inverse."""
    return PlacementStatus(
        nodes=tuple(
            NodeStatus(
                node=node.node,
                ranks=tuple(
                    RankStatus(
                        rank=rank.rank,
                        gpus=tuple(
                            GrantStatus(uuid=gpu.uuid, memory_mib=gpu.memory_mib, compute_milli=gpu.compute_milli)
                            for gpu in rank.gpus
                        ),
                    )
                    for rank in node.ranks
                ),
            )
            for node in placement.nodes
        ),
        admitted_at=admitted_at,
        backfilled_until=backfilled_until,
        workers=placement.workers,
        isolation=isolation,
        servers=servers or None,
        priority=priority,
    )
