"""The job on the other cluster: its name, its document, and what may not go there."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.api.conversion.to_core import parse_job
from cotenant.controller.composites.remote_clusters.mirror import (
    Origin,
    SeenMirror,
    mirror_document,
    mirror_name,
    travel_problem,
)
from cotenant.controller.informers.job_record import JobRecord, read_job
from tests.controller.builders import job_document

ORIGIN = Origin("cluster-here", "there")


def record(name: str = "train", metadata: dict[str, Any] | None = None, **spec: Any) -> JobRecord:
    document = job_document(name, **spec)
    return read_job(document | {"metadata": document["metadata"] | (metadata or {})})


def made(one: JobRecord, *, pass_users: bool = False) -> dict[str, Any]:
    assert one.job is not None
    return mirror_document(one, one.job, ORIGIN, queue="shared", pass_users=pass_users)


@pytest.mark.parametrize(
    ("written", "key"),
    [
        pytest.param("red/train", "red/train", id="by this operator"),
        pytest.param("red/", "", id="a list of jobs"),
        pytest.param("red/train?watch=1", "", id="a watch that does not end"),
        pytest.param("red/../../secrets/key", "", id="another object"),
        pytest.param("../red/train", "", id="from further up"),
        pytest.param("red/train\n", "", id="two lines"),
        pytest.param("train", "", id="no namespace"),
    ],
)
def test_what_a_tenant_there_writes_about_the_origin_leads_to_no_other_address(written: str, key: str) -> None:
    metadata = {"name": "a", "annotations": {names.ANNOTATION_ORIGIN: written}}
    assert SeenMirror({"metadata": metadata}).origin_key == key


def test_the_name_there_follows_from_the_job_alone_and_fits() -> None:
    long = record("a" * 50)
    assert mirror_name(record()) == mirror_name(record())
    assert mirror_name(record()) != mirror_name(record(metadata={"uid": "another"}))
    assert (len(mirror_name(long)), mirror_name(long).startswith("a" * 41 + "-")) == (50, True)


def test_the_job_there_is_a_whole_job_that_starts_nothing_yet() -> None:
    document = made(record(ttlAfterFinished="1h", spillover="Auto", priority=3))
    parsed = parse_job(document | {"metadata": document["metadata"] | {"namespace": "red"}})
    assert (parsed.spec.suspend, parsed.spec.queue, parsed.spec.priority) == (True, "shared", 3)
    assert (parsed.spec.ttl_after_finished, "spillover" in document["spec"]) == (None, False)
    assert document["metadata"]["labels"] == {
        names.LABEL_ORIGIN: "cluster-here",
        names.LABEL_ORIGIN_NAME: "there",
        names.LABEL_ORIGIN_JOB: record().uid,
    }
    assert document["metadata"]["annotations"] == {names.ANNOTATION_ORIGIN: "red/train"}


def test_the_user_is_named_there_only_where_the_administrator_says_so() -> None:
    own = record(metadata={"annotations": {names.ANNOTATION_USER: "ann"}})
    assert names.ANNOTATION_USER not in made(own)["metadata"]["annotations"]
    assert made(own, pass_users=True)["metadata"]["annotations"][names.ANNOTATION_USER] == "ann"


def test_checkpoints_in_a_volume_that_is_on_both_clusters_lie_under_the_name_of_the_job_here() -> None:
    kept = {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}}
    assert made(record(checkpoint=kept))["spec"]["checkpoint"] == kept | {"path": "train"}
    assert made(record(checkpoint=kept | {"path": "mine"}))["spec"]["checkpoint"]["path"] == "mine"


def runtime(**parts: Any) -> dict[str, Any]:
    return {"runtime": {"entrypoint": "train:main", **parts}}


def volume(**source: Any) -> dict[str, Any]:
    return runtime(volumes=[{"name": "v", "mountPath": "/data", **source}])


STAYS: dict[str, tuple[dict[str, Any], str]] = {
    "code in a ConfigMap": (runtime(code={"configMap": {"name": "code"}}), "ConfigMap code"),
    "code in a volume": (runtime(code={"persistentVolumeClaim": {"claimName": "data"}}), "claim data"),
    "a volume": (volume(persistentVolumeClaim={"claimName": "data"}), "claim data"),
    "files from a ConfigMap": (volume(configMap={"name": "files"}), "ConfigMap files"),
    "files from a Secret": (volume(secret={"secretName": "keys"}), "Secret keys"),
    "a variable from a Secret": (
        runtime(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}}]),
        "Secret keys",
    ),
    "a variable from a ConfigMap": (
        runtime(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]),
        "ConfigMap settings",
    ),
    "a Secret for the image": (runtime(imagePullSecrets=[{"name": "registry"}]), "Secret registry"),
    "checkpoints in a volume": (
        {"checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}}},
        "claim runs",
    ),
}


@pytest.mark.parametrize(("spec", "named"), STAYS.values(), ids=list(STAYS))
def test_what_names_an_object_of_its_namespace_goes_only_if_the_tenant_says_that_it_is_there_too(
    spec: dict[str, Any], named: str
) -> None:
    auto, always = record(**spec).job, record(**spec, spillover="Always").job
    assert auto is not None
    assert always is not None
    assert travel_problem(auto, "there").startswith(f"it names {named} of its namespace")
    assert travel_problem(always, "there") == ""


@pytest.mark.parametrize("spec", [{}, volume(emptyDir={}), {"checkpoint": {"path": "s3://bucket/runs"}}])
def test_a_job_that_brings_all_that_it_needs_may_go(spec: dict[str, Any]) -> None:
    job = record(**spec).job
    assert job is not None
    assert travel_problem(job, "there") == ""


def test_a_job_that_came_from_elsewhere_and_the_job_of_a_session_stay() -> None:
    guest = record(metadata={"labels": {names.LABEL_ORIGIN: "cluster-far"}}).job
    owner = {"apiVersion": names.API_VERSION, "kind": "Session", "name": "lab", "uid": "1", "controller": True}
    session = record(metadata={"ownerReferences": [owner]}).job
    assert guest is not None
    assert session is not None
    assert travel_problem(guest, "there") == "it came from another cluster itself"
    assert travel_problem(session, "there") == "it belongs to the Session lab, which works with it here"


def test_a_phase_of_a_newer_release_counts_as_one_that_holds_gpus() -> None:
    seen = SeenMirror({"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "status": {"phase": "Migrating"}})
    assert seen.holds
