"""What a tenant's own objects select: NetworkPolicies open nothing to the pods of jobs, budgets do not hold up a drain.

NetworkPolicies add up, and none can take back what another allows.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant import names
from tests.live.chart.tenants.account import Account, Document

pytestmark = pytest.mark.cluster

SAYS = "spec.podSelector: it could select the pods of TrainingJobs"
BUDGETS = "poddisruptionbudgets"
OPEN: Document = {"ingress": [{}], "egress": [{}]}


def network_policy(selector: Document, **allows: object) -> Document:
    return {"metadata": {"name": "mine"}, "spec": {"podSelector": selector, **allows}}


def budget(selector: Document | None) -> Document:
    spec: Document = {"maxUnavailable": 0} | ({} if selector is None else {"selector": selector})
    return {"metadata": {"name": "mine"}, "spec": spec}


def requires(key: str, operator: str, *values: str) -> Document:
    expression = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    return {"matchExpressions": [expression]}


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param({}, id="all pods"),
        pytest.param({"matchLabels": {names.LABEL_JOB: "train"}}, id="those of a job"),
        pytest.param({"matchLabels": {names.LABEL_JOB_UID: "x"}}, id="those of a job by its uid"),
        pytest.param({"matchLabels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}, id="those of all jobs"),
        pytest.param(requires(names.LABEL_JOB, "Exists"), id="those with a job"),
        pytest.param(requires(names.LABEL_JOB, "In", "a", "train"), id="those of two jobs"),
        pytest.param(requires(names.LABEL_JOB, "NotIn", "other"), id="those of all jobs but one"),
        pytest.param(requires(names.LABEL_MANAGED_BY, "NotIn", "Helm"), id="those not of Helm"),
        pytest.param(requires(names.LABEL_MANAGED_BY, "In", "Helm", names.MANAGED_BY), id="those of Helm and ours"),
        pytest.param(requires("app", "NotIn", "web"), id="those that are not web"),
        pytest.param(requires("app", "DoesNotExist"), id="those without an app"),
        pytest.param(requires(names.LABEL_SERVER, "DoesNotExist"), id="those that are no parameter server"),
    ],
)
def test_a_tenants_policy_that_could_select_worker_pods_is_refused(tenant: Account, selector: Document) -> None:
    openings: tuple[Document, ...] = (OPEN, {"ingress": [{}]}, {"egress": [{"ports": [{"port": 53}]}]})
    for allows in openings:
        answer = tenant.create("networkpolicies", network_policy(selector, **allows))
        assert SAYS in answer
        assert "add to its matchExpressions {key: cotenant.dev/job, operator: DoesNotExist}" in answer
    assert "spec.selector: it could select the pods of TrainingJobs" in tenant.create(BUDGETS, budget(selector))


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(requires(names.LABEL_JOB, "DoesNotExist"), id="as the message says"),
        pytest.param(requires(names.LABEL_QUEUE, "DoesNotExist"), id="by another label of all worker pods"),
        pytest.param(requires(names.LABEL_MANAGED_BY, "NotIn", names.MANAGED_BY), id="by what manages them"),
        pytest.param(requires(names.LABEL_MANAGED_BY, "DoesNotExist"), id="by nothing that manages them"),
        pytest.param({"matchLabels": {"app": "web"}}, id="by a label that they do not have"),
        pytest.param({"matchLabels": {names.LABEL_MANAGED_BY: "Helm"}}, id="by another manager"),
        pytest.param(requires("app", "In", "web", "db"), id="by values that they do not have"),
        pytest.param(requires("app", "Exists"), id="by a key that they do not have"),
        pytest.param(
            {"matchLabels": {names.LABEL_JOB: "train", "app": "web"}}, id="by one requirement that they fail of two"
        ),
    ],
)
def test_a_policy_that_leaves_worker_pods_out_is_the_tenants_own_affair(tenant: Account, selector: Document) -> None:
    assert tenant.create("networkpolicies", network_policy(selector, **OPEN)) == ""
    assert tenant.create(BUDGETS, budget(selector)) == ""


def test_a_policy_that_allows_nothing_takes_nothing_back(tenant: Account) -> None:
    """The usual default: deny everything that is not allowed elsewhere."""
    assert tenant.create("networkpolicies", network_policy({}, policyTypes=["Ingress", "Egress"])) == ""


def test_a_budget_that_selects_nothing_holds_up_nothing(tenant: Account) -> None:
    assert tenant.create(BUDGETS, budget(None)) == ""


def test_a_policy_cannot_be_opened_later(tenant: Account, restorer: Account) -> None:
    assert tenant.create("networkpolicies", network_policy({}), dry=False) == ""
    assert SAYS in tenant.merge("networkpolicies/mine", {"spec": OPEN})
    assert restorer.merge("networkpolicies/mine", {"spec": OPEN}, dry=False) == ""
    assert tenant.merge("networkpolicies/mine", {"metadata": {"labels": {"a": "b"}}}) == ""
    assert tenant.delete("networkpolicies/mine", dry=False) == ""


def test_an_administrator_opens_what_must_be_open(administrator: Account, colleague: Account) -> None:
    everything = network_policy({}, **OPEN)
    assert administrator.create("networkpolicies", everything) == ""
    assert administrator.create(BUDGETS, budget({})) == ""
    assert colleague.create("networkpolicies", everything) == ""  # where no jobs are
    assert replace(colleague, user="nobody").create("networkpolicies", everything) != ""
