"""Sweeps, Sessions and the TrainingJobs made of them: a tenant, a neighbour, a stolen token of the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest

from cotenant import names
from cotenant.api.conversion.to_core import parse_session
from cotenant.api.resources.sessions.session import SessionSpec
from cotenant.api.resources.trainingjobs import TrainingJobSpec
from cotenant.controller.composites.composite import Observed, with_owner
from cotenant.controller.composites.sessions.session_job import SPEC_DIGEST, job_document
from cotenant.controller.composites.sweeps.trial_jobs import trial_job
from tests.controller.composites.sweeps.played_sweep import TEMPLATE, sweep_document, sweep_of
from tests.live.chart.policies.stolen_token import MERGE, OPERATOR, said

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

NAMESPACE, ELSEWHERE = "made-team", "made-neighbour"
Document = dict[str, Any]
ROOT = {"Impersonate-User": "ada", "Impersonate-Group": "system:masters"}
EDITOR, MAKER = {"Impersonate-User": "editor"}, {"Impersonate-User": "maker"}
"""Who has the ClusterRole edit, and who may make Sweeps and Sessions and nothing else."""
RIGHTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: maker}
rules:
  - {apiGroups: [cotenant.dev], resources: [sweeps, sessions], verbs: [get, create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: maker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: maker}
subjects: [{kind: User, name: maker}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, name: editor}]
"""


def of_kind(kind: str, name: str, spec: Document, **metadata: Any) -> Document:
    annotations = {names.ANNOTATION_USER: "ada"} | metadata.pop("annotations", {})
    return {
        "apiVersion": names.API_VERSION, "kind": kind, "spec": spec,
        "metadata": {"name": name, "annotations": annotations} | metadata,
    }  # fmt: skip


def sweep(name: str = "lr", **metadata: Any) -> Document:
    return of_kind("Sweep", name, sweep_document()["spec"], **metadata)


def session(name: str = "nb", **metadata: Any) -> Document:
    spec = {"application": "JupyterLab", "queue": "red", "gpu": {"memoryFraction": "0.5"}}
    return of_kind("Session", name, spec, **metadata)


def owner(kind: str = "Sweep", **fields: Any) -> Document:
    return {"apiVersion": names.API_VERSION, "kind": kind, "name": "lr", "uid": "u1", "controller": True} | fields


def job(name: str, *, spec: Document | None = None, **metadata: Any) -> Document:
    plain = {"queue": "red", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}}
    return of_kind("TrainingJob", name, spec or plain, **metadata)


@dataclass(frozen=True)
class People:
    """Requests of different people. All are dry runs, except those that make the objects of the test."""

    objects: kubernetes.client.CustomObjectsApi

    def create(self, document: Document, user: Document, namespace: str = NAMESPACE, *, dry: bool = True) -> str:
        kept = {} if not dry else {"dry_run": "All"}
        where = ("cotenant.dev", "v1beta1", namespace, _plural(document["kind"]))
        create = self.objects.create_namespaced_custom_object
        return said(lambda: create(*where, document, _headers=user, **kept))

    def change(self, kind: str, name: str, body: Document, user: Document) -> str:
        where = ("cotenant.dev", "v1beta1", NAMESPACE, _plural(kind), name)
        patch = self.objects.patch_namespaced_custom_object
        return said(lambda: patch(*where, body, dry_run="All", _headers=user, _content_type=MERGE))

    def delete(self, kind: str, name: str, user: Document, **options: Any) -> str:
        where = ("cotenant.dev", "v1beta1", NAMESPACE, _plural(kind), name)
        body = {"dryRun": ["All"]} | options
        return said(lambda: self.objects.delete_namespaced_custom_object(*where, body=body, _headers=user))


def _plural(kind: str) -> str:
    return f"{kind.lower()}s"


PROFILED = {"queue": "red", "profile": "small", "runtime": {"entrypoint": "train:main"}}


@pytest.fixture(scope="module")
def people(policies: Cluster) -> Iterator[People]:
    """People, a Sweep, a Session, jobs of both, and a job without an owner: `lr`, `nb`, `profiled`, `nb-session`,
    `own`."""
    for namespace in (NAMESPACE, ELSEWHERE):
        policies.kubectl("create", "namespace", namespace)
    policies.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=RIGHTS)
    client = kubernetes.config.new_client_from_config(str(policies.kubeconfig))
    people = People(kubernetes.client.CustomObjectsApi(client))
    owners = {}
    for document in (sweep(), session()):
        assert people.create(document, ROOT, dry=False) == ""
        kind, name = document["kind"], document["metadata"]["name"]
        uid = policies.kubectl("get", _plural(kind), name, "-n", NAMESPACE, "-o", "jsonpath={.metadata.uid}")
        owners[kind] = [owner(kind, name=name, uid=uid.strip())]  # of another, it would be collected as garbage
    for document in (
        job("own"),
        job("profiled", spec=PROFILED, ownerReferences=owners["Sweep"], labels={names.LABEL_SWEEP: "lr"}),
        job("nb-session", ownerReferences=owners["Session"], annotations={SPEC_DIGEST: "d"}),
    ):
        assert people.create(document, ROOT, dry=False) == ""
    yield people
    for namespace in (NAMESPACE, ELSEWHERE):
        policies.kubectl("delete", "namespace", namespace)


CANNOT = "it makes TrainingJobs, and you may not make any here"


@pytest.mark.parametrize("made", [sweep, session])
def test_who_may_make_no_jobs_makes_none_by_a_sweep_or_a_session(people: People, made: Callable[..., Document]) -> None:
    def mine(user: str) -> Document:
        return made("mine", annotations={names.ANNOTATION_USER: user})

    assert CANNOT in people.create(mine("maker"), MAKER)
    assert people.create(mine("editor"), EDITOR) == ""
    standing = made()
    assert CANNOT in people.change(standing["kind"], standing["metadata"]["name"], {"spec": {"suspend": True}}, MAKER)
    assert people.change(standing["kind"], standing["metadata"]["name"], {"spec": {"suspend": True}}, EDITOR) == ""


@pytest.mark.parametrize("made", [sweep, session])
def test_nobody_makes_one_where_they_have_no_rights(people: People, made: Callable[..., Document]) -> None:
    assert "forbidden" in people.create(made("mine"), EDITOR, ELSEWHERE)


@pytest.mark.parametrize("made", [sweep, session])
def test_one_is_its_makers_stays_so_and_names_nobody_else(people: People, made: Callable[..., Document]) -> None:
    assert "must be editor, which is you, not ada" in people.create(made("mine"), EDITOR)
    standing = made()
    given = {"metadata": {"annotations": {names.ANNOTATION_USER: "editor"}}}
    assert "stays ada" in people.change(standing["kind"], standing["metadata"]["name"], given, EDITOR)


@pytest.mark.parametrize("made", [sweep, session])
def test_one_ends_together_with_its_jobs(people: People, made: Callable[..., Document]) -> None:
    kind, name = made()["kind"], made()["metadata"]["name"]
    assert people.delete(kind, name, EDITOR) == ""
    assert "propagationPolicy: Orphan" in people.delete(kind, name, EDITOR, propagationPolicy="Orphan")
    kept = {"metadata": {"finalizers": ["example.com/stay"]}}
    assert "you may not add example.com/stay" in people.change(kind, name, kept, EDITOR)


@pytest.mark.parametrize("made", [sweep, session])
def test_its_metadata_leaves_room_for_its_status(people: People, made: Callable[..., Document]) -> None:
    kind, name = made()["kind"], made()["metadata"]["name"]
    long = {"metadata": {"annotations": {"note": "a" * 40_000}}}
    assert "characters are more than the 32768" in people.change(kind, name, long, EDITOR)


def made_by_the_operator() -> Iterator[Document]:
    """Objects as the operator's own builders make them."""
    of_sweep = sweep_document(template={"spec": TEMPLATE})
    of_sweep["metadata"]["uid"] = "u1"
    trial = trial_job(sweep_of(of_sweep), TEMPLATE, 0, 0, {"lr": "0.1"})
    yield with_owner(trial, Observed(document=of_sweep), "Sweep")
    of_session = session("another", namespace=NAMESPACE, uid="u2")
    kept = with_owner(job_document(parse_session(of_session)), Observed(document=of_session), "Session")
    yield kept | {"metadata": {name: value for name, value in kept["metadata"].items() if name != "namespace"}}


@pytest.mark.parametrize("place", [0, 1], ids=["of a sweep", "of a session"])
def test_what_the_operator_makes_is_taken(people: People, place: int) -> None:
    document = list(made_by_the_operator())[place]
    document["metadata"].pop("namespace", None)
    assert people.create(document, OPERATOR) == ""
    marked = {kind: document["metadata"].get(kind, {}) | added for kind, added in BY_A_WEBHOOK.items()}
    assert people.create(document | {"metadata": document["metadata"] | marked}, OPERATOR) == ""


@pytest.mark.parametrize(("kind", "name"), [("TrainingJob", "own"), ("Session", "nb")])
def test_what_the_operator_suspends_may_get_what_a_webhook_gives_every_object(
    people: People, kind: str, name: str
) -> None:
    assert people.change(kind, name, {"spec": {"suspend": True}, "metadata": BY_A_WEBHOOK}, OPERATOR) == ""


BY_A_WEBHOOK: Document = {"labels": {"cost-center": "r-and-d"}, "annotations": {"example.com/mutated": "by a policy"}}
OWNED, WRITES = "is made for one object, which controls it", "of a TrainingJob the operator writes"
MAKING: dict[str, tuple[Document, str]] = {
    "for nobody": ({}, OWNED),
    "for two": ({"ownerReferences": [owner(), owner(uid="u2", controller=False)]}, OWNED),
    "for a ConfigMap": ({"ownerReferences": [owner("ConfigMap", apiVersion="v1")]}, OWNED),
    "for another TrainingJob": ({"ownerReferences": [owner("TrainingJob")]}, OWNED),
    "for a Sweep of another group": ({"ownerReferences": [owner(apiVersion="example.com/v1")]}, OWNED),
    "for one that does not control it": ({"ownerReferences": [owner(controller=False)]}, OWNED),
    "that never goes": ({"ownerReferences": [owner()], "finalizers": ["example.com/stay"]}, "none with finalizers"),
    "that is to end": ({"ownerReferences": [owner()], "annotations": {names.ANNOTATION_STOP: "x"}}, WRITES),
}


@pytest.mark.parametrize(("metadata", "says"), MAKING.values(), ids=MAKING)
def test_a_stolen_token_makes_no_job(people: People, metadata: Document, says: str) -> None:
    assert says in people.create(job("new", **metadata), OPERATOR)


SPEC: dict[str, Any] = {
    "queue": "blue", "priority": 5, "priorityClassName": "high", "profile": "large", "workers": 2, "minWorkers": 1,
    "gpu": {"classes": ["H100"]}, "resources": {"cpu": "9"},
    "chief": {"resources": {"cpu": "9"}}, "topology": {"level": "node", "mode": "Preferred"},
    "spread": {"level": "node", "mode": "Preferred"},
    "runtime": {"image": "registry.example/other"}, "evaluator": {"command": ["id"]},
    "expectedRuntime": "1h", "maxRuntime": "1h",
    "idleTimeout": "1h", "gracePeriod": "1h",
    "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "another"}}},
    "data": [{"from": "s3://other/set", "to": "/data/other", "sizeLimit": "1Gi"}],
    "retries": 9, "ttlAfterFinished": "1h", "spillover": "Never",
}  # fmt: skip
"""A change of every field but `suspend`."""


def test_every_field_of_a_job_is_attacked() -> None:
    assert SPEC.keys() == {field.alias for field in TrainingJobSpec.model_fields.values()} - {"suspend"}


@pytest.mark.parametrize("field", SPEC)
def test_a_stolen_token_changes_no_spec(people: People, field: str) -> None:
    change = {"spec": {field: SPEC[field]} | ({"workers": 3} if field == "minWorkers" else {})}
    assert "of a TrainingJob the operator changes suspend alone" in people.change(
        "TrainingJob", "own", change, OPERATOR
    )


@pytest.mark.parametrize("name", ["own", "profiled"])
def test_the_operator_holds_a_job_back_and_ends_it_also_one_whose_gpus_a_profile_names(
    people: People, name: str
) -> None:
    assert people.change("TrainingJob", name, {"spec": {"suspend": True}}, OPERATOR) == ""
    stop = {"metadata": {"annotations": {names.ANNOTATION_STOP: "the sweep is over"}}}
    assert people.change("TrainingJob", name, stop, OPERATOR) == ""


def test_the_operator_takes_off_the_reason_of_a_suspension_and_writes_none(people: People) -> None:
    reason: Document = {"metadata": {"annotations": {names.ANNOTATION_SUSPEND_REASON: "why"}}}
    assert WRITES in people.change("TrainingJob", "own", reason, OPERATOR)
    assert people.change("TrainingJob", "own", reason, EDITOR) == ""
    reason["metadata"]["annotations"][names.ANNOTATION_SUSPEND_REASON] = None
    assert people.change("TrainingJob", "own", reason, OPERATOR) == ""


CHANGED = "changes neither owners, labels nor finalizers"
METADATA: dict[str, tuple[Document, str]] = {
    "its user": ({"annotations": {names.ANNOTATION_USER: "mallory"}}, WRITES),
    "its user, taken away": ({"annotations": {names.ANNOTATION_USER: None}}, WRITES),
    # Two policies refuse this; the API server names either.
    "where it is to lie": ({"annotations": {"cotenant.dev/move": "{}"}}, "denied request: metadata.annotations"),
    "its owner": ({"ownerReferences": [owner("Session", uid="u9")]}, CHANGED),
    "a label": ({"labels": {names.LABEL_SWEEP: "other"}}, CHANGED),
    "a finalizer": ({"finalizers": ["example.com/stay"]}, CHANGED),
}


@pytest.mark.parametrize("name", ["own", "nb-session"])
@pytest.mark.parametrize(("metadata", "says"), METADATA.values(), ids=METADATA)
def test_a_stolen_token_changes_no_metadata_of_a_sessions_job_either(
    people: People, name: str, metadata: Document, says: str
) -> None:
    assert says in people.change("TrainingJob", name, {"metadata": metadata}, OPERATOR)


def test_a_sessions_job_is_made_anew_from_it(people: People) -> None:
    digest = {"metadata": {"annotations": {SPEC_DIGEST: "other"}}}
    assert people.change("TrainingJob", "nb-session", {"spec": {"gpu": {"count": 2}}} | digest, OPERATOR) == ""
    assert WRITES in people.change("TrainingJob", "own", digest, OPERATOR)


SESSION: dict[str, Any] = {
    "application": "Shell", "program": {"command": ["x"], "port": 8000}, "queue": "blue", "priority": 5,
    "priorityClassName": "high", "profile": "small", "gpu": {"classes": ["H100"]}, "resources": {"cpu": "9"},
    "image": "other",
    "env": [{"name": "A", "value": "b"}], "volume": {"claimName": "another"}, "idleTimeout": "100h",
    "maxLifetime": "100h", "gracePeriod": "1h",
}  # fmt: skip


def test_every_field_of_a_session_is_attacked() -> None:
    assert SESSION.keys() == {field.alias or name for name, field in SessionSpec.model_fields.items()} - {"suspend"}


@pytest.mark.parametrize("field", SESSION)
def test_a_stolen_token_suspends_a_session_and_writes_nothing_else_into_it(people: People, field: str) -> None:
    assert people.change("Session", "nb", {"spec": {"suspend": True}}, OPERATOR) == ""
    change = {"spec": {"suspend": True, field: SESSION[field]}}
    answer = people.change("Session", "nb", change, OPERATOR)
    assert "the operator suspends Sessions that are idle, and writes nothing else" in answer or "Invalid" in answer


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {names.ANNOTATION_USER: "mallory"}},
        {"annotations": {names.ANNOTATION_USER: None}},
        {"annotations": {"cotenant.dev/anything": "x"}},
        {"labels": {"cotenant.dev/anything": "x"}},
        {"labels": {"app.kubernetes.io/managed-by": "cotenant"}},
        {"finalizers": ["example.com/stay"]},
    ],
    ids=str,
)
def test_a_stolen_token_changes_no_metadata_of_a_session(people: People, metadata: Document) -> None:
    answer = people.change("Session", "nb", {"spec": {"suspend": True}, "metadata": metadata}, OPERATOR)
    assert "denied request" in answer


@pytest.mark.parametrize(
    ("phase", "spec", "allowed"),
    [
        ("Succeeded", {"ttlAfterFinished": "1m"}, True),
        ("Failed", {"ttlAfterFinished": "1m"}, True),
        ("Running", {"ttlAfterFinished": "1m"}, False),
        ("Succeeded", {}, False),
    ],
)
def test_a_stolen_token_deletes_only_sweeps_that_ended_and_may_go(
    people: People, phase: str, spec: Document, allowed: bool
) -> None:
    name = f"ttl-{phase.lower()}-{'may' if spec else 'stays'}"
    made = sweep(name)
    assert people.create(made | {"spec": made["spec"] | spec}, ROOT, dry=False) == ""
    where = ("cotenant.dev", "v1beta1", NAMESPACE, "sweeps", name)
    people.objects.patch_namespaced_custom_object_status(
        *where, {"status": {"phase": phase}}, _headers=OPERATOR, _content_type=MERGE
    )
    answer = people.delete("Sweep", name, OPERATOR)
    assert (answer == "") if allowed else ("only Sweeps that have ended and say ttlAfterFinished" in answer)
