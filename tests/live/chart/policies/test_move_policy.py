"""Only administrators ask for a move of a running job. Anybody who may edit the job may take the request back."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

KIND = ("cotenant.dev", "v1beta1", "default", "trainingjobs")
MERGE = "application/merge-patch+json"
ADMINISTRATOR, TENANT = {"Impersonate-User": "mover"}, {"Impersonate-User": "moved"}
ROOT = {"Impersonate-User": "moved", "Impersonate-Group": "system:masters"}
MOVE = "cotenant.dev/move"
REFUSED = "where a job that runs is to lie instead is an administrator's word"


def document(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "annotations": {"cotenant.dev/user": "moved"} | annotations},
        "spec": {"queue": "team-a", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}},
    }


@pytest.fixture(scope="module")
def jobs(policies: "Cluster") -> Iterator[Any]:
    client = kubernetes.config.new_client_from_config(str(policies.kubeconfig))
    custom = kubernetes.client.CustomObjectsApi(client)
    policies.kubectl("create", "clusterrolebinding", "mover", "--clusterrole=cotenant-administrator", "--user=mover")
    policies.kubectl("create", "rolebinding", "moved", "--clusterrole=edit", "--user=moved", "-n", "default")
    custom.create_namespaced_custom_object(*KIND, document("plain"), _headers=ROOT)
    custom.create_namespaced_custom_object(*KIND, document("asked", **{MOVE: "{}"}), _headers=ROOT)
    yield custom
    for name in ("plain", "asked"):
        custom.delete_namespaced_custom_object(*KIND, name)
    policies.kubectl("delete", "clusterrolebinding", "mover")
    policies.kubectl("delete", "rolebinding", "moved", "-n", "default")


def refusal(call: Any) -> str:
    """Part of the refusal, or nothing."""
    try:
        call()
    except ApiException as error:
        return REFUSED if REFUSED in str(json.loads(error.body or "{}").get("message")) else str(error.body)
    return ""


@pytest.mark.parametrize(
    ("by", "job", "value", "refused"),
    [
        (ADMINISTRATOR, "plain", '{"attempt": 1}', ""),
        (TENANT, "plain", '{"attempt": 1}', REFUSED),
        (TENANT, "asked", '{"attempt": 2}', REFUSED),
        (TENANT, "asked", "{}", ""),
        (TENANT, "asked", None, ""),
    ],
    ids=["an administrator", "a tenant", "a tenant, another", "a tenant, the same", "a tenant takes it off"],
)
def test_a_wish_is_written_by_administrators_alone(
    jobs: Any, by: dict[str, str], job: str, value: str | None, refused: str
) -> None:
    body = {"metadata": {"annotations": {MOVE: value}}}
    found = refusal(
        lambda: jobs.patch_namespaced_custom_object(*KIND, job, body, dry_run="All", _headers=by, _content_type=MERGE)
    )
    assert found == refused


def test_no_job_is_made_with_a_wish_of_a_tenant(jobs: Any) -> None:
    for annotations, refused in (({MOVE: "{}"}, REFUSED), ({}, "")):
        body = document("new", **annotations)
        found = refusal(
            lambda body=body: jobs.create_namespaced_custom_object(*KIND, body, dry_run="All", _headers=TENANT)
        )
        assert found == refused
