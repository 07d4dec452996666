"""The cluster's DNS domain, from what a kubelet wrote into the operator's pod."""

from __future__ import annotations

import pytest

from cotenant.controller.manifests.cluster_domain import with_domain
from cotenant.controller.settings import Settings

KUBELET = (
    "search cotenant-system.svc.{domain} svc.{domain} {domain} example.com\nnameserver 10.96.0.10\noptions ndots:5\n"
)


@pytest.mark.parametrize(
    ("written", "named", "want"),
    [
        pytest.param(KUBELET.format(domain="cluster.local"), "", "cluster.local", id="the usual one"),
        pytest.param(KUBELET.format(domain="k8s.example.com"), "", "k8s.example.com", id="one of its own"),
        pytest.param(KUBELET.format(domain="k8s.example.com."), "", "k8s.example.com", id="with a dot at its end"),
        pytest.param(KUBELET.format(domain="k8s.example.com"), "other.local", "other.local", id="named by a setting"),
        pytest.param("search example.com\nnameserver 10.0.0.2\n", "", "cluster.local", id="outside of a cluster"),
        pytest.param("search other.svc.a.local\n", "", "cluster.local", id="of another namespace"),
        pytest.param("nameserver 10.0.0.2\n", "", "cluster.local", id="without a search list"),
        pytest.param("", "", "cluster.local", id="without the file"),
    ],
)
def test_the_domain_is_that_of_the_operators_own_pod_unless_it_is_named(written: str, named: str, want: str) -> None:
    settings = Settings(namespace="cotenant-system", cluster_domain=named)
    assert with_domain(settings, written).cluster_domain == want
