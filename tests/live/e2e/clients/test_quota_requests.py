"""A tenant asks for more than its queue has, and an administrator answers by kubectl: a job starts that could not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.e2e.tenancy import Document, Tenancy, training_job

pytestmark = pytest.mark.cluster

SMALL = {"spec": {"quotas": [{"guaranteed": 1, "limit": 1}]}}
REQUEST = {
    "apiVersion": "cotenant.dev/v1beta1",
    "kind": "QuotaRequest",
    "metadata": {"name": "more", "namespace": "team-a"},
    "spec": {"quotas": [{"gpus": 1}], "until": "2090-01-01T00:00:00Z", "reason": "camera-ready"},
}


@pytest.fixture
def small(tenancy: Tenancy) -> Iterator[Tenancy]:
    """The queue of team-a may hold one GPU."""
    before = tenancy.get("queue", "team-a")["spec"]["quotas"]
    patch(tenancy, "queue", "team-a", change=SMALL)
    yield tenancy
    tenancy.cluster.kubectl("delete", "quotarequests", "--all", "-n", "team-a")
    patch(tenancy, "queue", "team-a", change={"spec": {"quotas": before}})


def patch(tenancy: Tenancy, *what: str, change: Document) -> None:
    tenancy.cluster.kubectl("patch", *what, "--type=merge", "-p", json.dumps(change))


def request(tenancy: Tenancy) -> dict[str, Any]:
    status: dict[str, Any] = tenancy.get("quotarequest", "more", "-n", "team-a").get("status", {})
    return status


def answer(tenancy: Tenancy, decision: str) -> None:
    me = json.loads(tenancy.cluster.kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]["username"]
    change = {"status": {"approval": {"decision": decision, "by": me}}}
    patch(tenancy, "quotarequest", "more", "-n", "team-a", "--subresource=status", change=change)


def test_an_approved_request_lets_a_job_start_and_one_that_is_taken_back_kills_nothing(small: Tenancy) -> None:
    small.apply(training_job("two", command=["sleep", "600"], gpu={"count": 2}))

    def refused() -> bool:
        pending = small.job("two").get("status", {}).get("pending") or {}
        return pending.get("reason") == "ExceedsLimit"

    small.wait(refused, seconds=30, what="the job is beyond the limit")
    small.apply(REQUEST)
    small.wait(lambda: request(small).get("phase") == "Pending", seconds=30, what="the request waits for an answer")

    answer(small, "Approved")
    small.wait_phase("two", "Running")
    granted = request(small)
    answer(small, "Denied")
    small.wait(lambda: request(small).get("phase") == "Revoked", seconds=30, what="the approval is taken back")

    assert granted["phase"] == "Granted"
    assert granted["granted"]["quotas"] == [{"gpus": "1", "guaranteed": "0"}]
    assert small.job("two")["status"]["phase"] == "Running"
    about = ("-n", "team-a", "--field-selector", "involvedObject.kind=QuotaRequest")
    reasons = {one["reason"] for one in small.get("events", *about)["items"]}
    assert reasons == {"QuotaPending", "QuotaGranted", "QuotaRevoked"}
