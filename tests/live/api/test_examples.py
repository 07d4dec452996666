"""Every document in examples/, and every YAML block of the docs that is a whole document, is one that applies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cotenant.api.conversion.decode import KINDS

if TYPE_CHECKING:
    from tests.live.api.conftest import Server

from tests.api.test_examples import EVERY

OF_KUBERNETES = {
    "Namespace": "/api/v1/namespaces",
    **{
        kind: f"/api/v1/namespaces/default/{kind.lower()}s"
        for kind in ("ConfigMap", "PersistentVolumeClaim", "ResourceQuota", "Secret")
    },
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
}


@pytest.mark.cluster
@pytest.mark.parametrize("body", [body for _, body in EVERY], ids=[where for where, _ in EVERY])
def test_what_we_show_is_taken_by_the_api_server(body: dict[str, Any], server: Server) -> None:
    if "metadata" not in body:
        pytest.skip(f"{body['kind']} is a file, and no object of an API server")
    # The example before this one makes its namespace, but a dry run makes nothing.
    metadata = {key: value for key, value in body["metadata"].items() if key != "namespace"}
    document = json.loads(json.dumps({**body, "metadata": metadata}))
    if body["kind"] in KINDS:
        answer = server.dry_run(document, body["kind"])
    else:
        path = OF_KUBERNETES[body["kind"]]
        answer = server.call("POST", f"{path}?dryRun=All&fieldValidation=Strict", document)
    assert (answer.status, answer.message) == (201, "")
