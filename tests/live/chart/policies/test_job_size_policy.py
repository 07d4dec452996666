"""Metadata of a job stays so small that its status can always be written, with the operator down too."""

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
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
CHARACTERS = 32_768
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "owner"}


def document(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": "grows", **metadata},
        "spec": {"queue": "team-a", "suspend": True, "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}},
    }


@pytest.fixture
def jobs(policies: "Cluster") -> Iterator[Any]:
    """One small job, `grows`."""
    client = kubernetes.config.new_client_from_config(str(policies.kubeconfig))
    custom = kubernetes.client.CustomObjectsApi(client)
    # The oldest Kubernetes has no policy that adds the user.
    custom.create_namespaced_custom_object(*KIND, document(annotations={"cotenant.dev/user": "kubernetes-admin"}))
    yield custom
    custom.delete_namespaced_custom_object(*KIND, "grows")


def edited(jobs: Any, body: dict[str, Any], kind: str = MERGE, **options: Any) -> str:
    """The API server's refusal of an edit; empty if the edit is accepted."""
    try:
        jobs.patch_namespaced_custom_object(*KIND, "grows", body, _content_type=kind, **options)
    except ApiException as error:
        return str(json.loads(error.body)["message"])
    return ""


def room(jobs: Any) -> int:
    """Characters of annotations that the job may still get."""
    there = jobs.get_namespaced_custom_object(*KIND, "grows")["metadata"].get("annotations", {})
    return CHARACTERS - sum(len(key) + len(value) for key, value in there.items())


def test_annotations_grow_to_their_bound_and_no_further_and_may_always_shrink(jobs: Any) -> None:
    most = room(jobs) - len("note")
    assert edited(jobs, {"metadata": {"annotations": {"note": "<" * most}}}) == ""
    refusal = edited(jobs, {"metadata": {"annotations": {"note": "<" * (most + 1)}}})
    assert "metadata.annotations: 32769 characters are more than the 32768 that a job may have" in refusal
    assert edited(jobs, {"metadata": {"annotations": {"note": "<"}}}) == ""


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"labels": {f"l{n}": "" for n in range(64)}}, ""),
        ({"labels": {f"l{n}": "" for n in range(65)}}, "metadata.labels: a job may have at most 64"),
        (
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"{n}"} for n in range(17)
                ]
            },
            "metadata.ownerReferences and metadata.finalizers: a job may have at most 16 together",
        ),
    ],
    ids=["labels", "too many labels", "owners"],
)
def test_labels_and_owners_are_counted(jobs: Any, metadata: dict[str, Any], says: str) -> None:
    refusal = edited(jobs, {"metadata": metadata}, dry_run="All")
    assert (says in refusal) if says else refusal == ""


def test_a_fourth_manager_that_applies_the_job_is_refused_and_the_others_go_on(jobs: Any) -> None:
    managers = ["argocd", "flux", "kubectl", "fourth"]
    answers = [edited(jobs, document(), APPLY, field_manager=one, force=True) for one in managers]
    assert answers[:3] == ["", "", ""]
    assert "at most 3 field managers may apply one job" in answers[3]
    assert edited(jobs, document(labels={"a": "b"}), APPLY, field_manager="flux", force=True) == ""
