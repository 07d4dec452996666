"""QuotaRequests on the real API server: tenants ask, people with the right to approve answer, and nobody edits a
request that was answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.chart.tenants.account import Account, Document
from tests.live.chart.tenants.conftest import TEAM, wait_for_right

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

OPERATOR = "system:serviceaccount:cotenant-system:cotenant-operator"
STATUS = "quotarequests/more/status"
GRANTER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: test-granters}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cotenant-administrator}
subjects: [{kind: User, name: grace}]
"""


def request(name: str = "more", **spec: Any) -> Document:
    asked = {"quotas": [{"gpuClass": "H100", "gpus": 4}], "until": "2090-01-01T00:00:00Z", "reason": "a paper"}
    return {
        "apiVersion": "cotenant.dev/v1beta1", "kind": "QuotaRequest", "metadata": {"name": name}, "spec": asked | spec,
    }  # fmt: skip


def answer(by: str, decision: str = "Approved", **more: Any) -> Document:
    return {"status": {"approval": {"decision": decision, "by": by, **more}}}


@pytest.fixture(scope="module")
def grace(stage: Cluster, account: Callable[..., Account]) -> Iterator[Account]:
    """An administrator of quotas, who is not cluster-admin."""
    stage.kubectl("apply", "-f", "-", stdin=GRANTER)
    wait_for_right(stage, "grace", "approve", "quotarequests.cotenant.dev")
    yield account("grace")
    stage.kubectl("delete", "clusterrolebinding", "test-granters")


@pytest.fixture
def asked(tenant: Account, grace: Account) -> Iterator[Account]:
    """A request of the tenant's."""
    assert tenant.create("quotarequests", request(), dry=False) == ""
    yield tenant
    assert grace.delete("quotarequests/more", dry=False) == ""


def test_a_tenant_asks_and_reads_the_answer(asked: Account, grace: Account) -> None:
    assert grace.merge(STATUS, answer("grace", message="until the deadline"), dry=False) == ""

    found = asked.read("quotarequests/more")["status"]["approval"]

    assert found == {"decision": "Approved", "by": "grace", "message": "until the deadline"}


def test_a_tenant_cannot_answer_his_own_request(asked: Account) -> None:
    assert "forbidden" in asked.merge(STATUS, answer("mallory"))
    assert asked.merge("quotarequests/more", answer("mallory"), dry=False) == ""  # the status is not in there
    assert "approval" not in asked.read("quotarequests/more").get("status", {})


@pytest.mark.parametrize("decision", ["Approved", "Denied"])
def test_an_answered_request_stays_as_the_record_of_its_answer(asked: Account, grace: Account, decision: str) -> None:
    assert asked.delete("quotarequests/more") == ""
    assert grace.merge(STATUS, answer("grace", decision), dry=False) == ""

    assert "only who may approve quotarequests deletes it" in asked.delete("quotarequests/more")
    assert "only who may approve quotarequests deletes it" in asked.delete("quotarequests")
    assert grace.delete("quotarequests/more") == ""


def test_the_record_of_an_answer_goes_with_its_namespace(
    asked: Account, grace: Account, account: Callable[..., Account]
) -> None:
    assert grace.merge(STATUS, answer("grace"), dry=False) == ""

    assert account("system:serviceaccount:kube-system:namespace-controller").delete("quotarequests/more") == ""


def test_an_answer_that_comes_with_a_new_request_does_not_count(tenant: Account) -> None:
    granted = {"quotas": [{"gpus": 9}], "queue": "team", "until": "2090-01-01T00:00:00Z"}
    status = {"approval": {"decision": "Approved", "by": "grace"}, "granted": granted}
    assert tenant.create("quotarequests", request("eager") | {"status": status}, dry=False) == ""

    assert "status" not in tenant.read("quotarequests/eager")

    assert tenant.delete("quotarequests/eager", dry=False) == ""


@pytest.mark.parametrize(
    "change",
    [{"quotas": [{"gpuClass": "H100", "gpus": 8}]}, {"until": "2091-01-01T00:00:00Z"}, {"reason": "b"}, {"queue": "x"}],
    ids=["amount", "end", "reason", "queue"],
)
@pytest.mark.parametrize("who", ["tenant", "administrator"])
def test_nobody_changes_what_is_asked(asked: Account, administrator: Account, change: Document, who: str) -> None:
    somebody = asked if who == "tenant" else administrator

    assert "a request stays as it was made" in somebody.merge("quotarequests/more", {"spec": change})


def test_an_answer_names_who_gave_it(asked: Account, grace: Account) -> None:
    assert "status.approval.by must be grace, which is you" in grace.merge(STATUS, answer("mallory"))


@pytest.mark.parametrize("path", [STATUS])
def test_the_operator_answers_nothing_and_writes_the_rest(
    asked: Account, grace: Account, account: Callable[..., Account], path: str
) -> None:
    operator = account(OPERATOR)
    assert "only who may approve quotarequests answers one" in operator.merge(path, answer(OPERATOR))
    assert operator.merge(path, {"status": {"phase": "Pending", "message": "waits"}}, dry=False) == ""
    assert grace.merge(path, answer("grace"), dry=False) == ""
    granted = {"queue": "team", "quotas": [{"gpus": 4}], "until": "2090-01-01T00:00:00Z", "digest": "0"}
    assert operator.merge(path, {"status": {"phase": "Granted", "granted": granted}}, dry=False) == ""
    assert "status.granted is written by the operator" in grace.merge(
        path, {"status": {"granted": {"quotas": [{"gpus": 400}]}}}
    )
    assert "the request has been answered" in operator.merge(path, {"status": {"approval": None}})


def test_an_approval_may_be_taken_back_and_nothing_else(asked: Account, grace: Account) -> None:
    assert grace.merge(STATUS, answer("grace"), dry=False) == ""

    for other in (answer("grace", until="2089-01-01T00:00:00Z"), {"status": {"approval": None}}):
        assert "the request has been answered" in grace.merge(STATUS, other)
    assert grace.merge(STATUS, answer("grace", "Denied"), dry=False) == ""
    assert "the request has been answered" in grace.merge(STATUS, answer("grace"))


@pytest.mark.parametrize(
    ("user", "right", "allowed"),
    [
        ("mallory", "create quotarequests", True),
        ("mallory", "approve quotarequests", False),
        ("mallory", "patch quotarequests/status", False),
        ("grace", "approve quotarequests", True),
        ("grace", "patch quotarequests/status", True),
        ("grace", "create quotarequests", False),
    ],
)
def test_the_usual_roles_ask_and_those_of_administrators_answer(
    stage: Cluster, grace: Account, user: str, right: str, allowed: bool
) -> None:
    verb, what = right.split()
    resource, _, subresource = what.partition("/")
    arguments = ["auth", "can-i", verb, f"{resource}.cotenant.dev", "-n", TEAM, "--as", user]
    arguments += [f"--subresource={subresource}"] if subresource else []

    assert stage.kubectl(*arguments, expect=0 if allowed else 1).split()[0] == ("yes" if allowed else "no")
