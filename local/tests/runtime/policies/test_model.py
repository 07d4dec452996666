"""NetworkPolicies and pods as the API writes them."""

from collections.abc import Mapping

import pytest

from cotenant_local.runtime.policies.model import (
    LabelSelector,
    NetworkPolicy,
    PolicyPeer,
    PolicyPod,
    PolicyPort,
    PolicyRule,
)


def document(**spec: object) -> Mapping[str, object]:
    return {"metadata": {"namespace": "red", "name": "p"}, "spec": {"podSelector": {}, **spec}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, ((), None), id="without types it isolates inwards"),
        pytest.param({"egress": [{}]}, ((), (PolicyRule(),)), id="rules outwards isolate outwards too"),
        pytest.param({"policyTypes": ["Egress"]}, (None, ()), id="types decide"),
        pytest.param(
            {"ingress": [{"from": [{"podSelector": {}}]}]},
            ((PolicyRule((PolicyPeer(pods=LabelSelector()),)),), None),
            id="peers",
        ),
        pytest.param(
            {"ingress": [{"ports": [{"port": 80, "endPort": 90}, {"port": "dns", "protocol": "UDP"}]}]},
            ((PolicyRule((), (PolicyPort("TCP", 80, 90), PolicyPort("UDP", "dns"))),), None),
            id="ports",
        ),
        pytest.param(
            {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]},
            ((PolicyRule((PolicyPeer(block="10.0.0.0/8", excepted=("10.1.0.0/16",)),)),), None),
            id="ranges",
        ),
    ],
)
def test_a_policys_document_is_read(spec: dict[str, object], want: tuple[object, object]) -> None:
    policy = NetworkPolicy.parse(dict(document(**spec)))
    assert (policy.ingress, policy.egress) == want


@pytest.mark.parametrize(
    ("change", "want"),
    [({}, True), ({"hostNetwork": True}, False), ({"phase": "Succeeded"}, False), ({"phase": "Failed"}, False)],
)
def test_pods_of_the_node_itself_and_ended_pods_are_no_peers(change: dict[str, object], want: bool) -> None:
    spec = {"containers": [{"name": "c"}], **{k: v for k, v in change.items() if k == "hostNetwork"}}
    status = {"podIP": "10.1.0.9", **{k: v for k, v in change.items() if k == "phase"}}
    meta = {"namespace": "red", "name": "x", "uid": "9"}
    assert (PolicyPod.parse({"metadata": meta, "spec": spec, "status": status}) is not None) == want
