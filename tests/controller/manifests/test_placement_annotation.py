"""The annotation that says what a pod was given, there and back. Pure."""

from __future__ import annotations

from cotenant.api.conversion.to_core import from_placement, to_placement
from cotenant.api.resources.trainingjob_status import Isolation
from cotenant.controller.manifests.placement_annotation import placement_from_json, placement_to_json
from tests.controller.builders import placement_on


def test_a_placement_survives_the_annotation_and_the_status() -> None:
    placement = placement_on(("n1", 2), ("n2", 1))
    assert tuple(placement_from_json(placement_to_json(node)) for node in placement.nodes) == placement.nodes
    status = from_placement(placement, admitted_at=0, isolation=Isolation.NONE)
    assert to_placement(status) == placement


def test_an_annotation_that_is_not_ours_is_no_placement() -> None:
    assert [placement_from_json(text) for text in ("", "[]", "{}", '{"node": "n1", "grants": {"x": []}}')] == [None] * 4
