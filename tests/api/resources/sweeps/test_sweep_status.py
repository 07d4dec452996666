"""The status of the largest sweep that is admitted fits into etcd, however its texts are escaped."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.resources.sweeps.parameters import MAX_CHOICES
from cotenant.api.resources.sweeps.sweep_status import (
    MAX_MEMBERS,
    MAX_PARAMETERS,
    MAX_RUNGS,
    MAX_TRIALS,
    MAX_VALUES,
    MESSAGE_CHARS_MAX,
    Rung,
    SweepStatus,
    TrialStatus,
)
from tests.support.largest_job import largest_spec, stored_bytes

ETCD_BYTES = 1_572_864
SPEC_BYTES = 408_000
"""Of the largest template, beside as many choices as there may be."""
ANNOTATIONS_BYTES = 33_000
"""Of as many as the policy `cotenant-job-sizes` lets through, in plain characters."""


VALUE = -1.2345678901234567e-300
EARLY_STOP = {"rungs": tuple(Rung(step=10**12, value=VALUE) for _ in range(MAX_RUNGS)), "seen": (0,)}
ENSEMBLE = {
    "members": {str(member): VALUE for member in range(MAX_MEMBERS)},
    "seen": tuple(range(MAX_MEMBERS)),
}


def owned(value: Any) -> Any:
    """What the API server keeps of who wrote which field (`managedFields`)."""
    return {".": {}} | {f"f:{key}": owned(inner) for key, inner in value.items()} if isinstance(value, dict) else {}


@pytest.mark.parametrize("more", [EARLY_STOP, ENSEMBLE], ids=["with rungs", "with members"])
@pytest.mark.parametrize("parameters", [1, 4])
def test_the_largest_sweep_fits_into_etcd(parameters: int, more: dict[str, Any]) -> None:
    trial = TrialStatus(
        parameters={f"{number:0>32}": "v" * 64 for number in range(parameters)},
        step=10**12,
        value=VALUE,
        message="<" * 2 * MESSAGE_CHARS_MAX,
        **more,
    )
    assert MAX_TRIALS * 4 == MAX_VALUES
    status = SweepStatus(trials={str(number): trial for number in range(MAX_TRIALS)}).to_document()
    assert stored_bytes(status) + stored_bytes(owned(status)) + SPEC_BYTES + ANNOTATIONS_BYTES < ETCD_BYTES


def test_its_spec_is_not_larger_than_what_is_left_for_it() -> None:
    choices = [f"{number:0>64}" for number in range(MAX_CHOICES)]
    parameters = [{"name": "p" * 32, "env": "E" * 128, "choices": choices}] * MAX_PARAMETERS
    spec = {"parameters": parameters, "template": {"spec": largest_spec()}}
    assert SPEC_BYTES - 10_000 < stored_bytes(spec) < SPEC_BYTES
