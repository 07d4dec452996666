"""A TrainingJob ends together with all that was made for it, and nobody but the operator writes its status."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from cotenant import names
from tests.live.chart.tenants.account import Account, Document
from tests.live.chart.tenants.conftest import TEAM, grant, place, training_job
from tests.live.waiting import wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

JOB = "trainingjobs/train"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param({}, "", id="plainly"),
        pytest.param({"propagationPolicy": "Background"}, "", id="as kubectl does"),
        pytest.param({"propagationPolicy": "Foreground"}, "", id="after its pods"),
        pytest.param({"gracePeriodSeconds": 0}, "", id="by force, which its pods do not notice"),
        pytest.param({"propagationPolicy": "Orphan"}, "propagationPolicy: Orphan (--cascade=orphan)", id="orphaning"),
        pytest.param({"orphanDependents": True}, "propagationPolicy: Orphan", id="the same, as it once was"),
        pytest.param({"gracePeriodSeconds": 100_000_000}, "gracePeriodSeconds: 100000000 is more than 600", id="never"),
    ],
)
def test_a_tenant_deletes_a_job_together_with_its_pods(tenant: Account, options: Document, says: str) -> None:
    for path in (JOB, f"trainingjobs?labelSelector={names.LABEL_JOB}!=other"):
        answer = tenant.delete(path, **options)
        assert (says in answer) if says else answer == ""


def test_an_administrators_mistake_orphans_no_pods_either(administrator: Account, restorer: Account) -> None:
    assert "propagationPolicy: Orphan" in administrator.delete(JOB, propagationPolicy="Orphan")
    assert restorer.delete(JOB, propagationPolicy="Orphan") == ""


@pytest.mark.parametrize("finalizer", ["orphan", "foregroundDeletion", "example.com/stay", "cotenant.dev/mine"])
def test_a_job_gets_no_finalizer_from_a_tenant(tenant: Account, finalizer: str) -> None:
    says = f"metadata.finalizers: you may not add {finalizer}"
    assert says in tenant.create("trainingjobs", training_job("new", finalizers=[finalizer]))
    assert says in tenant.merge(JOB, {"metadata": {"finalizers": [finalizer]}})
    assert says in tenant.edit(JOB, {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]})


def test_a_finalizer_of_the_operators_stays_and_one_of_somebody_elses_may_go(
    tenant: Account, restorer: Account
) -> None:
    kept = ["cotenant.dev/mine", "example.com/old"]
    assert restorer.create("trainingjobs", training_job("held", finalizers=kept), dry=False) == ""
    try:
        assert tenant.merge("trainingjobs/held", {"metadata": {"finalizers": kept[:1]}}) == ""
        answer = tenant.merge("trainingjobs/held", {"metadata": {"finalizers": kept[1:]}})
        assert "metadata.finalizers: you may not remove cotenant.dev/mine" in answer
    finally:
        restorer.merge("trainingjobs/held", {"metadata": {"finalizers": None}}, dry=False)
        restorer.delete("trainingjobs/held", dry=False)


def test_whatever_else_is_a_tenants_to_change_is_changed_as_ever(tenant: Account) -> None:
    assert tenant.create("trainingjobs", training_job("new")) == ""
    for change in ({"spec": {"suspend": True}}, {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}):
        assert tenant.merge(JOB, change) == ""


def test_a_status_is_not_written_by_whoever_was_given_the_right_in_a_namespace(
    stage: Cluster, account: Callable[..., Account], administrator: Account
) -> None:
    grant(stage, "owner", "patch", "trainingjobs", "trainingjobs/status", group="cotenant.dev")
    status = {"status": {"phase": "Running"}}
    assert "status: it records what the operator granted" in account("owner").merge(f"{JOB}/status", status)
    assert administrator.merge(f"{JOB}/status", status) == ""


def left_of(account: Account, job: str) -> list[str]:
    """Names of the objects that the operator made for this job and that still exist."""
    return [
        f"{resource}/{each['metadata']['name']}"
        for resource in ("pods", "services", "secrets", "networkpolicies")
        for each in account.read(f"{resource}?labelSelector={names.LABEL_JOB}%3D{job}")["items"]
        if each.get("spec", {}).get("nodeName") is None  # nobody ends what is bound to a node without a kubelet
    ]


@pytest.mark.parametrize("cascade", ["Background", "Foreground"])
def test_all_that_was_made_for_a_job_goes_with_it(
    tenant: Account, restorer: Account, cascade: str, stage: Cluster
) -> None:
    """The garbage collector is the cluster's own."""
    place(restorer, "collected")
    assert len(left_of(restorer, "collected")) == 4
    assert tenant.delete("trainingjobs/collected", dry=False, propagationPolicy=cascade) == ""
    try:
        wait_until(lambda: not left_of(restorer, "collected"), lambda: left_of(restorer, "collected"), seconds=60)
    finally:
        stage.kubectl("delete", "pods", "-l", f"{names.LABEL_JOB}=collected", "-n", TEAM, "--force")


def test_the_policies_raise_no_warning_of_types(stage: Cluster) -> None:
    """The API server checks expressions against the types of what they may meet, and notes what makes no sense."""

    def unchecked() -> list[str]:
        return [each["metadata"]["name"] for each in policies(stage) if not checked(each)]

    wait_until(lambda: not unchecked(), unchecked, seconds=60)
    warnings = {each["metadata"]["name"]: each["status"].get("typeChecking") for each in policies(stage)}
    assert {name: said for name, said in warnings.items() if said} == {}


def policies(stage: Cluster) -> list[Document]:
    found: list[Document] = json.loads(stage.kubectl("get", "validatingadmissionpolicies", "-o", "json"))["items"]
    return [each for each in found if each["metadata"]["name"].startswith("cotenant-")]


def checked(policy: Document) -> bool:
    """True if the API server has type-checked this version of the policy, some time after accepting it."""
    observed: int = policy.get("status", {}).get("observedGeneration", 0)
    generation: int = policy["metadata"]["generation"]
    return observed == generation
