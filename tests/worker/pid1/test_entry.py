"""What a contract must also be, beyond its shape: refused by the field's name before anything starts."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cotenant
import cotenant_worker
from cotenant.contract import ContractError, PodGrant, RankGrant
from cotenant_worker.host.container import OPEN_FILES
from cotenant_worker.pid1.entry import check
from tests.support.pod_sandbox import contract
from tests.worker.processes import behave, launched

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


def test_a_path_of_the_programs_may_name_the_folders_of_our_packages(tmp_path: Path) -> None:
    """This happens in a checkout that is not installed. Process 1 takes nothing from other folders there."""
    ours = {Path(module.__file__ or "").parents[1] for module in (cotenant, cotenant_worker)}
    (tmp_path / "selectors.py").write_text("raise ImportError('the one of the program')")
    path = ":".join(map(str, (tmp_path, *ours)))
    job = contract([1], command=("true",), platform={"codePath": str(tmp_path)})
    with launched(tmp_path, job.to_json(), PYTHONPATH=path) as pod:
        code, log, _ = pod.finish()
    assert code == 0, log


@pytest.mark.parametrize("given", [None, "C.UTF-8"])
def test_ranks_have_no_locale_that_python_chose_for_process_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    job = contract([1], command=("bash", "-c", "echo locale=$LC_CTYPE"), platform={"codePath": str(tmp_path)})
    with launched(tmp_path, job.to_json(), **({"LC_CTYPE": given} if given else {})) as pod:
        code, log, _ = pod.finish()
    assert (code, f"locale={given or ''}\n" in log) == (0, True), log


def test_ranks_may_open_more_files_than_containerd_2_begins_with(tmp_path: Path) -> None:
    job = contract([1], command=("bash", "-c", "echo files=$(ulimit -n)"), platform={"codePath": str(tmp_path)})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        with launched(tmp_path, job.to_json()) as pod:
            code, log, _ = pod.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    assert (code, f"files={most}\n" in log) == (0, True), log


def test_ranks_that_abort_fill_no_disk_with_core_files(tmp_path: Path) -> None:
    """As each rank does if NCCL gives up. Their program may raise the limit."""
    code = "echo core=$(ulimit -c); ulimit -c $(ulimit -Hc); echo raised=$(ulimit -c)"
    job = contract([1], command=("bash", "-c", code), platform={"codePath": str(tmp_path)})
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        with launched(tmp_path, job.to_json()) as pod:
            ended, log, _ = pod.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    raised = "unlimited" if hard == resource.RLIM_INFINITY else str(hard // 1024)
    assert (ended, "core=0\n" in log, f"raised={raised}\n" in log) == (0, True, True), log


def test_ranks_are_numbered_from_0_without_gaps() -> None:
    job = contract([1, 1], command=("x",))
    turned = replace(job, pods=tuple(PodGrant(pod.host, pod.ranks) for pod in reversed(job.pods)))
    with pytest.raises(ContractError, match=r"pods: ranks must be 0 to 1 in order, not \[1, 0\]"):
        check(turned, ENV)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param("", "COTENANT_CONTRACT is not JSON", id="nothing"),
        pytest.param("[]", "must be an object with version 1", id="not an object"),
        pytest.param(replace(behave(), command=()).to_json(), "command: mode command needs one", id="no command"),
        pytest.param(
            replace(behave(), mode="entrypoint", entrypoint="train").to_json(),
            "entrypoint: 'train' is not module:function",
            id="no function",
        ),
        pytest.param(replace(behave(), node_rank=3).to_json(), "node_rank: 3 is not one of the 1 pods", id="node"),
        pytest.param(contract([2], command=("x",)).to_json(), "RAY_AUTH_TOKEN is not set", id="no token"),
        pytest.param(
            replace(
                contract([1]), pods=(replace(contract([1]).pods[0], ranks=(RankGrant(4, ()),)),), command=("x",)
            ).to_json(),
            "ranks must be 0 to 0 in order, not [4]",
            id="ranks",
        ),
    ],
)
def test_a_bad_contract_ends_with_84_and_names_the_field(tmp_path: Path, document: str, message: str) -> None:
    with launched(tmp_path, document) as pod:
        ended, log, termination = pod.finish()
    assert (ended, termination.code, termination.reason) == (84, 84, "BadContract")
    assert message in termination.message
    assert message in log


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("cotenant_worker.pid1.launcher", {"supervision.conductor", "supervision.supervisor", "parameter_server.pod"}),
        ("cotenant_worker.parameter_server.pod", {"supervision.conductor", "pid1.launcher", "ranks.rank_processes"}),
        ("cotenant_worker.pid1.entry", {"pid1.launcher", "parameter_server.pod"}),
    ],
)
def test_process_1_imports_nothing_of_what_another_kind_of_pod_needs(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {f"cotenant_worker.{name}" for name in absent} & set(found) == set()
