"""A job whose PriorityClass or Queue is deleted while it holds GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, observed, pod
from tests.support.reconcile_cases import ONE, SETTINGS

GONE = "spec.priorityClassName: there is no PriorityClass 'batch' in this cluster"


@pytest.mark.parametrize(
    ("spec", "reason", "more"),
    [
        ({"suspend": True}, "Suspended", {}),
        ({"maxRuntime": "10m"}, "MaxRuntimeExceeded", {}),
        ({"idleTimeout": "5m"}, "IdleTimeout", {"idle_since": T0 + 100}),
    ],
    ids=["suspend", "maxRuntime", "idleTimeout"],
)
def test_everything_else_of_its_spec_holds(spec: dict[str, Any], reason: str, more: dict[str, Any]) -> None:
    status = admitted(Phase.RUNNING, *ONE)
    o = observed(status, pod(0, ready=True), now=T0 + 5_000, spec={"priorityClassName": "batch", **spec},
                 problem=GONE, **more)  # fmt: skip
    after = reconcile(o, SETTINGS).status
    assert after is not None
    assert after.reason == reason


@pytest.mark.parametrize(
    ("kind", "field"), [("PriorityClassMissing", "missing_class"), ("QueueMissing", "missing_queue")]
)
def test_a_condition_says_that_it_is_gone_and_that_it_is_back(kind: str, field: str) -> None:
    said = []
    status = admitted(Phase.RUNNING, *ONE)
    for missing in ("batch", "batch", "", ""):
        o = observed(status, pod(0, ready=True), now=T0 + 20, **{field: missing})
        result = reconcile(o, SETTINGS)
        status = result.status or status
        told = [one.status for one in status.conditions if one.type == kind]
        said.append((result.status is not None, told, result.event is not None))
    assert said == [
        (True, ["True"], True),
        (False, ["True"], False),
        (True, ["False"], False),
        (False, ["False"], False),
    ]
