"""LocalQueues on the real API server: who may view a namespace reads them there, and the operator alone writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from cotenant.controller.reports.queues.local_queue_writer import local_queue
from tests.live.chart.tenants.account import Account, Document
from tests.live.chart.tenants.conftest import TEAM

pytestmark = pytest.mark.cluster

OPERATOR = "system:serviceaccount:cotenant-system:cotenant-operator"
PATH = "localqueues/red"
ONLY_THE_OPERATOR = "the operator writes LocalQueues"
MARKED = {"app.kubernetes.io/managed-by": "cotenant"}
STATUS = {"status": {"guaranteed": "8", "used": "2.5", "free": "1", "pending": 1}}


@pytest.fixture(scope="module")
def operator(account: Callable[..., Account], tenant: Account) -> Iterator[Account]:
    """The operator's account, after it has made a LocalQueue."""
    made = account(OPERATOR)
    assert made.create("localqueues", local_queue((TEAM, "red")), dry=False) == ""
    assert made.merge(f"{PATH}/status", STATUS, dry=False) == ""
    yield made
    assert made.delete(PATH, dry=False) == ""


def test_a_tenant_reads_it_with_the_ordinary_role(operator: Account, tenant: Account) -> None:
    found = tenant.read(PATH)
    assert (found["metadata"]["name"], found["status"]["used"]) == ("red", "2.5")
    assert [one["metadata"]["name"] for one in tenant.read("localqueues")["items"]] == ["red"]


@pytest.mark.parametrize("user", ["tenant", "administrator"])
def test_nobody_else_writes_one(operator: Account, tenant: Account, administrator: Account, user: str) -> None:
    somebody = {"tenant": tenant, "administrator": administrator}[user]
    says = ONLY_THE_OPERATOR if user == "administrator" else "forbidden"
    assert says in somebody.create("localqueues", local_queue((TEAM, "forged")))
    assert says in somebody.merge(PATH, {"metadata": {"labels": {"a": "b"}}})
    assert says in somebody.merge(f"{PATH}/status", {"status": {"free": "99"}})
    assert (somebody.delete(PATH) == "") is (user == "administrator")


def with_metadata(**metadata: object) -> Document:
    document = local_queue((TEAM, "other"))
    return document | {"metadata": document["metadata"] | metadata}


@pytest.mark.parametrize(
    "metadata",
    [
        {"finalizers": ["example.com/stay"]},
        {"annotations": {"cotenant.dev/user": "b"}},
        {"labels": {}},
        {"labels": {"a": "b"}},
        {"labels": MARKED | {"cotenant.dev/job": "b"}},
    ],
    ids=str,
)
def test_the_operator_makes_nothing_else_of_it(operator: Account, metadata: dict[str, object]) -> None:
    assert "has its label, no other metadata of Cotenant" in operator.create("localqueues", with_metadata(**metadata))


def test_it_may_get_what_a_webhook_gives_every_object(operator: Account) -> None:
    marked = with_metadata(labels=MARKED | {"cost-center": "r-and-d"}, annotations={"example.com/mutated": "yes"})
    assert operator.create("localqueues", marked) == ""
