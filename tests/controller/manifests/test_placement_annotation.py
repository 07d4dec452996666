"""The annotation that says what a pod was given. Pure."""

from __future__ import annotations

import json

from cotenant.api.conversion.placements import from_placement, to_placement
from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.manifests.placement_annotation import placement_to_json
from tests.controller.builders import placement_on


def test_people_and_tools_read_which_gpus_a_pod_was_given() -> None:
    document = json.loads(placement_to_json(placement_on(("n1", 2)).nodes[0]))
    each = [[{"uuid": f"GPU-n1-{rank}", "memoryMiB": 32_768, "computeMilli": 400}] for rank in (0, 1)]
    assert document == {
        "node": "n1",
        "ranks": {"0": ["GPU-n1-0"], "1": ["GPU-n1-1"]},
        "grants": {"0": each[0], "1": each[1]},
    }


def test_a_placement_survives_the_status() -> None:
    placement = placement_on(("n1", 2), ("n2", 1))
    status = from_placement(placement, admitted_at=0, isolation=Isolation.NONE)
    assert to_placement(status) == placement
