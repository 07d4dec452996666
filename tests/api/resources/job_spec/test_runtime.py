"""Rules of what runs in a job's pods."""

from typing import Any

import pytest
from pydantic import ValidationError

from cotenant.api.resources.job_spec.parameter_servers import ParameterServer
from cotenant.api.resources.job_spec.runtime import Runtime

COMMAND: dict[str, Any] = {"command": ["train"]}
RAY: dict[str, Any] = {**COMMAND, "rayTrain": True}


def volume(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "mountPath": path, "emptyDir": {}}


@pytest.mark.parametrize(
    ("fields", "servers"),
    [
        ({}, None),
        ({"strategy": "ParameterServer"}, 1),
        ({"strategy": "ParameterServer", "parameterServer": {"servers": 3}}, 3),
    ],
)
def test_servers_are_there_with_their_strategy_only(fields: dict[str, Any], servers: int | None) -> None:
    found: ParameterServer | None = Runtime.model_validate({**COMMAND, **fields}).servers
    assert (found and found.servers) == servers


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "runtime takes exactly one of command and entrypoint"),
        ({**COMMAND, "entrypoint": "train:main"}, "runtime takes exactly one of command and entrypoint"),
        ({"command": [""]}, "the first word of command is the program to run"),
        ({"entrypoint": "train:main", "args": ["x"]}, "args belong to command"),
        ({"entrypoint": "train:main", "rayTrain": True}, "rayTrain needs command"),
        ({"entrypoint": "train"}, "must be module:function, such as train:main"),
        ({**COMMAND, "parameterServer": {}}, "parameterServer needs strategy: ParameterServer"),
        ({**RAY, "strategy": "ParameterServer"}, "a Ray Train driver brings its own strategy"),
        ({**RAY, "gpuVisibility": "Pod"}, "Ray Train's workers get their GPUs from Ray"),
        ({**RAY, "hangTimeout": "10m"}, "a Ray Train driver watches its own workers; leave hangTimeout out"),
        ({**RAY, "stallTimeout": "10m"}, "a Ray Train driver watches its own workers; leave stallTimeout out"),
        ({**COMMAND, "volumes": [volume("a", "/data"), volume("b", "/data")]}, "two volumes have the same mountPath"),
        ({**COMMAND, "volumes": [volume("a", "/data"), volume("a", "/more")]}, "the name 'a' appears twice"),
        ({**COMMAND, "image": "two words"}, "must be the name of an image, without spaces"),
        ({**COMMAND, "gpuProcesses": 65}, "less than or equal to 64"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_runtime_that_contradicts_itself_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Runtime.model_validate(fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"entrypoint": "my.train:main"},
        {**COMMAND, "args": []},
        RAY,
        {**COMMAND, "gpuProcesses": 64, "volumes": [volume("a", "/data"), volume("b", "/more")]},
    ],
    ids=str,
)
def test_what_can_run_is_taken(fields: dict[str, Any]) -> None:
    Runtime.model_validate(fields)
