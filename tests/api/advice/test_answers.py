"""Answers to a refusal: names, places, shapes, words; none that is too long, and no failure whatever is written."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cotenant.api.advice.answers import example_of_a_name
from cotenant.api.conversion.decode import check
from cotenant.api.resources.trainingjobs import TrainingJob

JOB: dict[str, Any] = {
    "apiVersion": "cotenant.dev/v1beta1",
    "kind": "TrainingJob",
    "metadata": {"name": "a"},
    "spec": {"queue": "team-a", "gpu": {"count": 1}, "runtime": {"command": ["python", "train.py"]}},
}
ANY = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.booleans().map(lambda _: 10**5000)
    | some.floats()
    | some.text(max_size=80),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)
NAMES = some.sampled_from(
    [
        "replicas",
        "gpus",
        "template",
        "image",
        "command",
        "env",
        "resources",
        "checkpoint",
        "time",
        "runPolicy",
        "trainer",
        "volumes",
        "code",
        "gpu",
        "workers",
        "priority",
        "topology",
        "runtime",
        "queue",
        "maxRuntime",
        "pytorchReplicaSpecs",
        "nprocPerNode",
        "metadata",
    ]
)


def problems(spec: dict[str, Any]) -> list[str]:
    return [str(one) for one in check({**JOB, "spec": {**JOB["spec"], **spec}}).problems]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"replicas": None}, []),
        (
            {"image": None},
            [],
        ),
        ({"colours": 1, "gpu": {"count": 1, "colour": 2}}, None),
        (
            {"memory": "16Gi"},
            ["is not a field of this object; write it as `spec.gpu.memory` or `spec.resources.memory`"],
        ),
    ],
    ids=["null of a refused name", "null of a refused name in the wrong place", "names like nothing", "two places"],
)
def test_names_that_are_no_fields(spec: dict[str, Any], want: list[str] | None) -> None:
    found = problems(spec)
    if want is None:
        assert ["the fields of" in line for line in found] == [True, True]
    else:
        assert [line.partition(": ")[2] for line in found] == want


def test_that_a_field_is_missing_is_left_out_where_an_answer_writes_it() -> None:
    spec = copy.deepcopy(JOB["spec"])
    del spec["gpu"]
    body = {**JOB, "spec": {**spec, "gpus": 2}}
    assert [str(one) for one in check(body).problems] == [
        "spec.gpus: is not a field of this object; write for example `spec.gpu: {count: 1}`"
    ]


def test_a_name_without_its_value_gets_an_example() -> None:
    assert example_of_a_name("replicas", "TrainingJobSpec", TrainingJob) == "write `spec.workers: 2`"
    assert example_of_a_name("image", "TrainingJobSpec", TrainingJob) == "write it as `spec.runtime.image`"
    assert example_of_a_name("tolerations", "TrainingJobSpec", TrainingJob).startswith("leave it out: ")


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"replicas": 4}, "spec.replicas: is not a field of this object; write `spec.workers: 4`"),
        ({"replicas": "four"}, "spec.replicas: is not a field of this object; write for example `spec.workers: 2`"),
        ({"timeLimit": 3600}, 'spec.timeLimit: is not a field of this object; write `spec.maxRuntime: "1h"`'),
        ({"priority": "high"},
         'spec.priority: must be a whole number, not "high"; a name goes into spec.priorityClassName'),
        ({"nprocPerNode": 8}, "spec.nprocPerNode: is not a field of this object; write for example `spec.workers: 2`"
         " (a worker is one process: write as many workers as nodes × processes per node)"),
    ],
    ids=["a value that fits", "one that does not", "in another spelling", "for another field", "one that means more"],
)  # fmt: skip
def test_the_value_that_was_given_is_shown_if_the_right_field_takes_it(spec: dict[str, Any], want: str) -> None:
    assert problems(spec) == [want]


@given(NAMES, ANY)
def test_whatever_is_written_gets_sentences_that_are_plain_and_short(name: str, value: Any) -> None:
    for body in (
        {**JOB, "spec": {**JOB["spec"], name: value}},
        {**JOB, "spec": {**JOB["spec"], "runtime": {name: value}}},
        {**JOB, name: value},
        {**JOB, "kind": "Queue", "spec": {name: value}},
        {**JOB, "spec": value, "kind": name},
    ):
        found = [problem.message for problem in check(body).problems]
        assert [line for line in found if not line.isprintable() or len(line) > 1000] == []
