"""A job counts against the user who made it: the annotation names nobody else, and it stays."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

KIND = ("cotenant.dev", "v1alpha1", "default", "trainingjobs")
MERGE = "application/merge-patch+json"
ALICE = {"Impersonate-User": "alice@example.com", "Impersonate-Group": "system:masters"}


def document(name: str, user: str | None) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "annotations": {} if user is None else {"cotenant.dev/user": user}},
        "spec": {"queue": "team-a", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}},
    }


@pytest.fixture(scope="module")
def jobs(policies: "Cluster") -> Iterator[Any]:
    client = kubernetes.config.new_client_from_config(str(policies.kubeconfig))
    custom = kubernetes.client.CustomObjectsApi(client)
    for name, user in (("hers", "alice@example.com"), ("nobodys", None)):
        custom.create_namespaced_custom_object(*KIND, document(name, user), _headers=ALICE)
    yield custom
    for name in ("hers", "nobodys"):
        custom.delete_namespaced_custom_object(*KIND, name)


def said(call: Callable[[], object]) -> str:
    try:
        call()
    except ApiException as error:
        return str(error.body)
    return ""


@pytest.mark.parametrize(
    ("user", "says"),
    [
        pytest.param("alice@example.com", "", id="her own"),
        pytest.param(None, "", id="none"),
        pytest.param("bob@example.com", "must be alice@example.com, which is you, not bob@example.com", id="another's"),
    ],
)
def test_a_new_job_names_its_maker_or_nobody(jobs: Any, user: str | None, says: str) -> None:
    body = document("new", user)
    answer = said(lambda: jobs.create_namespaced_custom_object(*KIND, body, dry_run="All", _headers=ALICE))
    assert says in answer
    assert bool(answer) == bool(says)


@pytest.mark.parametrize(
    ("name", "user", "says"),
    [
        pytest.param("hers", "alice@example.com", "", id="the same"),
        pytest.param("hers", "bob@example.com", "stays alice@example.com", id="given to another"),
        pytest.param("hers", None, "stays alice@example.com", id="taken away"),
        pytest.param("nobodys", "alice@example.com", "", id="taken by its editor"),
        pytest.param("nobodys", "bob@example.com", "must be alice@example.com", id="given to another, from nobody"),
    ],
)
def test_a_job_stays_its_makers(jobs: Any, name: str, user: str | None, says: str) -> None:
    body = {"metadata": {"annotations": {"cotenant.dev/user": user}}}
    answer = said(
        lambda: jobs.patch_namespaced_custom_object(
            *KIND, name, body, dry_run="All", _headers=ALICE, _content_type=MERGE
        )
    )
    assert says in answer
    assert bool(answer) == bool(says)
