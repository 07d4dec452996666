"""The checked-in CRDs are those of the models, structural, bounded, and cheap to check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cotenant import names
from cotenant.api.schema import crds, kinds

if TYPE_CHECKING:
    from tests.live.api.conftest import Server


@pytest.mark.cluster
@pytest.mark.parametrize("resource", kinds.RESOURCES, ids=lambda resource: resource.kind)
def test_whoever_applies_the_same_definition_again_is_in_nobodys_way(
    resource: kinds.CustomResource, server: Server
) -> None:
    """Helm may follow kubectl, or kubectl may follow Helm: the stored definition is the one that was sent."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{resource.plural}.{names.GROUP}"
    answer = server.call(
        "PATCH", f"{path}?fieldManager=another&dryRun=All", crds.to_yaml(resource), kind="application/apply-patch+yaml"
    )
    assert (answer.status, answer.message) == (200, "")
