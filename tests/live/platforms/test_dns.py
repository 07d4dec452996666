"""A cluster that closes every namespace: pods reach their own job and DNS, by the operator's policies alone."""

from __future__ import annotations

import pytest

from tests.live.e2e.tenancy import Tenancy
from tests.live.platforms.training import trains

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def test_an_ordinary_job_trains_where_the_administrator_denies_all_traffic(platform: Tenancy, team: str) -> None:
    deny = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    metadata = {"name": "deny-all", "namespace": team}
    platform.apply({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": deny})
    trains(platform, team)  # on two nodes: neither has four GPUs
