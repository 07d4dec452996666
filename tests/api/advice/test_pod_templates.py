"""A pod's program, resources and limits as fields of a TrainingJob."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.advice import pod_templates

CONTAINER = {"image": "a:1", "command": ["python", "a.py"], "resources": {"limits": {"nvidia.com/gpu": 2, "cpu": 4}}}
FIELDS = {
    "spec.runtime.image": "a:1",
    "spec.runtime.command": ["python", "a.py"],
    "spec.resources.cpu": 4,
    "spec.gpu.count": 2,
}


@pytest.mark.parametrize(
    "value",
    [
        {"spec": {"containers": [CONTAINER]}},
        [{"name": "worker", "template": {"spec": {"containers": [CONTAINER, {"image": "side"}]}}}],
        CONTAINER,
    ],
    ids=["a template", "a list of tasks", "a container"],
)
def test_a_program_is_read_off_the_first_container(value: Any) -> None:
    assert pod_templates.program(value) == FIELDS


def test_a_container_without_a_command_gets_an_example_of_one() -> None:
    assert pod_templates.program({"image": "a:1"}) == {
        "spec.runtime.image": "a:1",
        "spec.runtime.command": ["python", "train.py"],
    }


def test_replicas_of_all_roles_are_workers() -> None:
    roles = {"Master": {"template": {"spec": {"containers": [CONTAINER]}}}, "Worker": {"replicas": 3}}
    assert pod_templates.roles(roles) == {"spec.workers": 4, **FIELDS}


@pytest.mark.parametrize("value", [None, 1, "a", [], {}, {"spec": {"containers": "a"}}, {"a": {"a": {"a": {}}}}])
def test_what_has_no_container_gives_nothing(value: Any) -> None:
    assert pod_templates.program(value) is None


def test_a_template_without_end_is_given_up() -> None:
    deep: Any = {"image": "a"}
    for _ in range(1000):
        deep = {"spec": deep}
    assert pod_templates.program(deep) is None


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ({"requests": {"cpu": 2, "memory": "8Gi"}, "limits": {"cpu": "4"}}, {".cpu": "4", ".memory": "8Gi"}),
        ({"cpu": 0.5, "memory": 16}, {".cpu": "0.5", ".memory": "16Gi"}),
        ({"amd.com/gpu": "2"}, {"spec.gpu.count": 2}),
        ({"requests": []}, None),
        ("4", None),
    ],
)
def test_requests_and_limits_are_one(value: Any, want: Any) -> None:
    assert pod_templates.resources(value) == want


def test_the_limits_of_a_run_policy_are_fields_of_their_own() -> None:
    value = {"backoffLimit": 0, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 60, "cleanPodPolicy": "None"}
    assert pod_templates.policy(value) == {
        "spec.retries": 0,
        "spec.maxRuntime": "1m",
        "spec.ttlAfterFinished": "1m",
    }
    assert pod_templates.policy({}) is None
