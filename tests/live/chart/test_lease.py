"""The Lease of the operators is the chart's: an upgrade does not touch who holds it, and none outlives the release."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

NAMESPACE = "cotenant-system"
LEASE = ("lease", "cotenant-operator", "-n", NAMESPACE)
VALUES = {"agent": {"simulate": True}, "operator": {"nodeSelector": {"kubernetes.io/hostname": "nowhere"}}}
"""No operator runs, so that the Lease is the test's own to write."""


def test_the_lease_survives_an_upgrade_and_goes_with_the_release(
    api_server: "Cluster", install: Callable[..., Any]
) -> None:
    with install(api_server, VALUES, wait=False) as release:
        held = {"holderIdentity": "somebody", "leaseDurationSeconds": 7, "leaseTransitions": 3}
        api_server.kubectl("patch", *LEASE, "--type=merge", "-p", json.dumps({"spec": held}))
        release.upgrade(VALUES | {"imagePullSecrets": ["another"]})
        assert json.loads(api_server.kubectl("get", *LEASE, "-o", "json"))["spec"] == held
    left = json.loads(api_server.kubectl("get", "leases", "-n", NAMESPACE, "-o", "json"))["items"]
    assert left == []
