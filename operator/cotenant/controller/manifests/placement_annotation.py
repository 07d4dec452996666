"""JSON of the annotation `cotenant.dev/placement`: which GPUs a pod was given, for people and tools. Pure.

The operator does not read it back: an annotation can be edited, and the pod's contract says the same.
"""

from __future__ import annotations

import json

from cotenant.core.model.objects import NodePlacement


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
