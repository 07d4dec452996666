"""A placement comes back from the status that it was written into."""

from __future__ import annotations

from cotenant.api.conversion.placements import from_placement, to_placement
from cotenant.api.resources.placement_status import Isolation, PlacementStatus
from cotenant.core.model import objects as core

CREATED = "2026-01-01T00:00:00Z"
CREATED_AT = 1767225600.0

PLACEMENT = core.Placement(
    nodes=(
        core.NodePlacement(
            node="node-1",
            ranks=(
                core.RankPlacement(rank=0, gpus=(core.GrantedGpu(uuid="GPU-1", memory_mib=32768, compute_milli=400),)),
                core.RankPlacement(rank=1, gpus=(core.GrantedGpu(uuid="GPU-2", memory_mib=32768, compute_milli=400),)),
            ),
        ),
        core.NodePlacement(
            node="node-2",
            ranks=(
                core.RankPlacement(rank=2, gpus=(core.GrantedGpu(uuid="GPU-7", memory_mib=32768, compute_milli=400),)),
            ),
        ),
    )
)


def test_a_placement_survives_the_status() -> None:
    written = from_placement(PLACEMENT, admitted_at=CREATED_AT, isolation=Isolation.WATCHED).to_document()
    assert to_placement(PlacementStatus.model_validate(written)) == PLACEMENT
    assert (written["admittedAt"], written["workers"], written["isolation"]) == (CREATED, 3, "Watched")


def test_what_is_not_there_is_not_written() -> None:
    plain = from_placement(PLACEMENT, admitted_at=CREATED_AT, isolation=Isolation.NONE).to_document()
    promised = from_placement(
        PLACEMENT, admitted_at=CREATED_AT, isolation=Isolation.NONE, backfilled_until=CREATED_AT, servers=2
    ).to_document()
    assert {key: promised[key] for key in promised.keys() - plain.keys()} == {"servers": 2, "backfilledUntil": CREATED}
