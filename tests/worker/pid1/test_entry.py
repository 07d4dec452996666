"""What a contract must also be, beyond its shape: refused by the field's name before anything starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.contract import ContractError, PodGrant
from cotenant_worker.pid1.entry import check
from tests.support.pod_sandbox import contract

ENV = {"POD_IP": "10.0.0.1", "RAY_AUTH_TOKEN": "of this attempt"}


@pytest.mark.parametrize(
    ("pods", "fields"),
    [
        ([1], {"command": ("x",)}),
        ([2, 1], {"command": ("x",), "node_rank": 1}),
        ([1], {"mode": "entrypoint", "entrypoint": "module:function"}),
        ([1], {"command": ("x",), "strategy": "ParameterServer", "servers": ("s0",), "node_rank": 1}),
    ],
)
def test_a_contract_that_holds_is_taken(pods: list[int], fields: dict[str, Any]) -> None:
    check(contract(pods, **fields), ENV)


@pytest.mark.parametrize(
    ("pods", "fields", "env", "why"),
    [
        ([], {"command": ("x",)}, ENV, "pods: every pod needs at least one rank"),
        ([1, 0], {"command": ("x",)}, ENV, "pods: every pod needs at least one rank"),
        ([1], {"command": ("x",), "node_rank": 1}, ENV, "node_rank: 1 is not one of the 1 pods"),
        ([1], {"command": ("x",), "servers": ("s",)}, ENV, "servers: strategy AllReduce has 1 of them"),
        ([1], {"command": ("x",), "strategy": "ParameterServer"}, ENV, "servers: strategy ParameterServer has 0"),
        ([1], {"command": ()}, ENV, "command: mode command needs one"),
        ([1], {"command": (), "mode": "rayTrain"}, ENV, "command: mode rayTrain needs one"),
        ([1], {"mode": "entrypoint", "entrypoint": "module"}, ENV, "entrypoint: 'module' is not module:function"),
        ([1], {"command": ("x",), "mode": "magic"}, ENV, "mode: 'magic' is not command, entrypoint or rayTrain"),
        ([1, 1], {"command": ("x",)}, {"POD_IP": "10.0.0.1"}, "RAY_AUTH_TOKEN is not set"),
        ([1, 1], {"command": ("x",)}, {"RAY_AUTH_TOKEN": "a"}, "POD_IP is not set"),
    ],
)
def test_what_does_not_hold_is_refused_by_the_fields_name(
    pods: list[int], fields: dict[str, Any], env: dict[str, str], why: str
) -> None:
    with pytest.raises(ContractError) as refused:
        check(contract(pods, **fields), env)
    assert str(refused.value).startswith(why)


def test_ranks_are_numbered_from_0_without_gaps() -> None:
    job = contract([1, 1], command=("x",))
    turned = replace(job, pods=tuple(PodGrant(pod.host, pod.ranks) for pod in reversed(job.pods)))
    with pytest.raises(ContractError, match=r"pods: ranks must be 0 to 1 in order, not \[1, 0\]"):
        check(turned, ENV)
