"""Variables that a job may set, and those that it may not, each with its reason."""

from typing import Any

import pytest
from pydantic import ValidationError

from cotenant.api.resources.job_spec.env_vars import EnvVar

PLACEMENT, MEMORY = "which GPUs a job sees is decided by its placement", "the memory limit of a job's GPUs is set"
RANKS, RAY = "ranks and addresses are given by the operator", "the job's Ray cluster is set up by the operator"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("NVIDIA_VISIBLE_DEVICES", PLACEMENT),
        ("CUDA_VISIBLE_DEVICES", PLACEMENT),
        ("LD_PRELOAD", "libraries cannot be put in front of the container's own"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", MEMORY),
        ("RAY_ADDRESS", RAY),
        ("RANK", RANKS),
        ("COTENANT_CONTRACT", RANKS),
        ("HOROVOD_RANK", RANKS),
    ],
)
def test_a_variable_that_the_operator_sets_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=f"this variable is not for the job to set: {reason}"):
        EnvVar.model_validate({"name": name, "value": "x"})


@pytest.mark.parametrize("name", ["A", "_", "NVIDIA", "LD_LIBRARY_PATH", "RANKS", "MY_RANK", "HOROVOD_CYCLE_TIME"])
def test_other_variables_are_the_jobs_own(name: str) -> None:
    assert EnvVar.model_validate({"name": name, "value": ""}).value == ""


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A" * 129])
def test_a_name_that_no_shell_knows_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="must be the name of a variable"):
        EnvVar.model_validate({"name": name})


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("expandable_segments:True", True),
        ("max_split_size_mb:128,expandable_segments:True", True),
        ("backend:cudaMallocAsync", False),
        ("expandable_segments:True,per_process_memory_fraction:1.0", False),
        (None, False),
    ],
)
def test_the_allocator_takes_keys_that_do_not_touch_the_limit(value: str | None, fits: bool) -> None:
    document = {"name": "PYTORCH_CUDA_ALLOC_CONF", "value": value}
    if fits:
        EnvVar.model_validate(document)
        return
    with pytest.raises(ValidationError, match="the allocator takes only keys that do not touch the memory limit"):
        EnvVar.model_validate({key: item for key, item in document.items() if item is not None})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, "value and valueFrom exclude"),
        ({"valueFrom": {}}, "valueFrom takes exactly one of secretKeyRef and configMapKeyRef"),
        ({"valueFrom": {"secretKeyRef": {"name": "s", "key": "a b"}}}, "must be a key of letters"),
        ({"value": "a\0b"}, "must not contain the character NUL"),
    ],
    ids=str,
)
def test_a_value_has_one_source(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        EnvVar.model_validate({"name": "A", **fields})
