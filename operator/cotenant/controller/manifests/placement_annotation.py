"""JSON of the annotation `cotenant.dev/placement`, from which a pod's GPUs are known after its job is gone. Pure.

`ranks` is for people and tools; the operator reads `grants` back, after a restart and for every watch event.
"""

from __future__ import annotations

import json

from cotenant.core.model.objects import GrantedGpu, NodePlacement, RankPlacement


def placement_to_json(placement: NodePlacement) -> str:
    """Encode the part of one node: the GPUs that each rank sees (`ranks`), and how much of each (`grants`)."""
    document = {
        "node": placement.node,
        "ranks": {str(rank.rank): [grant.uuid for grant in rank.gpus] for rank in placement.ranks},
        "grants": {
            str(rank.rank): [
                {"uuid": g.uuid, "memoryMiB": g.memory_mib, "computeMilli": g.compute_milli} for g in rank.gpus
            ]
            for rank in placement.ranks
        },
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def placement_from_json(text: str) -> NodePlacement | None:
    """Decode it; None when the annotation was not written by `placement_to_json`."""
    try:
        document = json.loads(text)
        return NodePlacement(
            node=document["node"],
            ranks=tuple(
                RankPlacement(
                    rank=int(rank),
                    gpus=tuple(
                        GrantedGpu(uuid=g["uuid"], memory_mib=g["memoryMiB"], compute_milli=g["computeMilli"])
                        for g in grants
                    ),
                )
                for rank, grants in sorted(document["grants"].items(), key=lambda item: int(item[0]))
            ),
        )
    except (json.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
