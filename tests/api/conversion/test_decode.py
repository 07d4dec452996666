"""A document of any kind: its model, its problems, or that it is of another API group."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.decode import check
from cotenant.api.resources.queues import Queue
from cotenant.api.validation.problems import Problem

KINDS = (
    "TrainingJob, Queue, GPUNode, QuotaRequest, Booking, RemoteCluster, Sweep, Session, TrainingProfile,"
    " ClusterTrainingProfile"
)
QUEUE: dict[str, Any] = {
    "apiVersion": "cotenant.dev/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "vision"},
    "spec": {},
}


def test_a_good_document_is_its_model() -> None:
    found = check(QUEUE)
    assert (found.name, type(found.model), found.problems, found.ours) == ("Queue vision", Queue, (), True)


@pytest.mark.parametrize(
    ("document", "name", "problems"),
    [
        (["a"], "the document", [Problem("", "must be an object with fields, not a list")]),
        (
            {"kind": "Queue", "apiVersion": "cotenant.dev/v1", "metadata": {"generateName": "q-"}},
            "Queue q-",
            [
                Problem("apiVersion", 'must be cotenant.dev/v1beta1, not "cotenant.dev/v1"'),
                Problem(
                    "spec", 'is required; write for example `spec: {namespaces: ["team-a"], quotas: [{guaranteed: 4}]}`'
                ),
            ],
        ),
        (
            {**QUEUE, "kind": "Cue", "metadata": {"namespace": "team", "name": "a"}},
            "Cue team/a",
            [
                Problem(
                    "kind",
                    f'must be one of {KINDS}, not "Cue"',
                )
            ],
        ),
        (
            {**QUEUE, "kind": "Qeue"},
            "Qeue vision",
            [
                Problem(
                    "kind",
                    f'must be one of {KINDS}, not "Qeue"; write `kind: Queue`',
                )
            ],
        ),
        (
            {**QUEUE, "kind": "Workflow"},
            "Workflow vision",
            [
                Problem(
                    "kind",
                    f'must be one of {KINDS}, not "Workflow"',
                )
            ],
        ),
        ({**QUEUE, "metadata": 1}, "Queue (without a name)", None),
        ({**QUEUE, "spec": {"weight": 0}}, "Queue vision", [Problem("spec.weight", "must be at least 1, not 0")]),
    ],
    ids=[
        "no object",
        "another version",
        "another kind",
        "a kind misspelled",
        "a kind of elsewhere",
        "no metadata",
        "a bad field",
    ],
)
def test_what_is_wrong_is_returned_with_a_name(document: Any, name: str, problems: list[Problem] | None) -> None:
    found = check(document)
    assert (found.name, found.model) == (name, None)
    assert list(found.problems) == problems if problems is not None else found.problems


def test_a_document_of_another_group_is_not_checked() -> None:
    found = check({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}})
    assert (found.name, found.ours, found.problems) == ("Deployment a", False, ())


@pytest.mark.parametrize(
    ("version", "kind", "ours"),
    [
        ("cotenant.dve/v1alpha1", "TrainingJobs", True),
        ("cotenant.io/v1", "Queue", True),
        ("kubeflow.org/v1", "PyTorchJob", False),
        ("kueue.x-k8s.io/v1beta1", "ClusterQueue", False),
        ("batch/v1", "Job", False),
        ("v1", "Node", False),
    ],
)
def test_a_document_is_ours_when_it_was_meant_to_be(version: str, kind: str, ours: bool) -> None:
    assert check({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}).ours is ours


def test_a_kind_of_ours_in_another_group_is_a_mistake() -> None:
    assert [problem.field for problem in check({**QUEUE, "apiVersion": "v1"}).problems] == ["apiVersion"]


def test_half_of_a_surrogate_pair_out_of_yaml_is_a_problem_and_no_traceback() -> None:
    document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "TrainingJob", "metadata": {"name": "a"}}
    spec = {"queue": "team-a", "gpu": {"count": 1}, "runtime": {"command": ["caf\udce9"]}}
    found = check(document | {"spec": spec})
    message = 'holds what is no character of UTF-8: "caf\\udce9"; write the text without it'
    assert (found.name, found.problems) == ("TrainingJob a", (Problem("spec.runtime.command[0]", message),))
    found = check(document | {"spec": spec | {"queue": "caf\udce9", "runtime": {"command": ["a"]}}})
    message = 'must be a name of at most 63 lower-case letters, digits and \'-\', such as "team-a", not "caf\\udce9"'
    assert (found.name, found.problems) == ("TrainingJob a", (Problem("spec.queue", message),))
