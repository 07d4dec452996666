"""Ranks of a pod whose GPUs MPS serves: each is a client in the pod's namespace on its own GPU."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from cotenant.contract import GpuGrant
from cotenant_worker.ranks import memory_limits
from cotenant_worker.ranks.device_environment import apart, compute_namespace
from cotenant_worker.ranks.environment import shares_pod_gpus
from tests.support.pod_sandbox import contract

SERVED = {"COTENANT_MPS_PIPES": "/run/cotenant-mps"}


def share(uuid: str) -> GpuGrant:
    return GpuGrant(uuid, 32_768, 400, whole=False)


def test_a_rank_finds_the_namespace_of_its_gpu_and_without_mps_none() -> None:
    assert compute_namespace(SERVED, [share("GPU-a")]) == {"CUDA_MPS_PIPE_DIRECTORY": "/run/cotenant-mps/GPU-a"}
    assert compute_namespace({}, [share("GPU-a")]) == {}
    assert compute_namespace(SERVED, []) == {}


@pytest.mark.parametrize("platform", [{}, {"gpuVisibility": "Pod"}])
def test_ranks_see_their_own_gpu_alone_because_a_process_is_a_client_of_one_daemon(platform: dict[str, Any]) -> None:
    job = contract([2], command=("torchrun", "x.py"), platform=platform)
    assert shares_pod_gpus(apart(job, {}), job.pods[0])
    assert not shares_pod_gpus(apart(job, SERVED), job.pods[0])


def test_every_gpu_is_looked_at_by_a_client_of_its_own_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[tuple[list[str], str | None]] = []

    def run(command: list[str], env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        uuids = command[command.index("cotenant_worker.ranks.visible_gpus") + 1 :]
        looks.append((uuids, env.get("CUDA_MPS_PIPE_DIRECTORY")))
        return subprocess.CompletedProcess(command, 0, json.dumps(dict.fromkeys(uuids, 1 << 30)), "")

    monkeypatch.setattr(subprocess, "run", run)
    assert memory_limits.probe(["GPU-a", "GPU-b"]) == dict.fromkeys(["GPU-a", "GPU-b"], 1 << 30)
    assert looks == [(["GPU-a", "GPU-b"], None)]
    looks.clear()
    monkeypatch.setenv("COTENANT_MPS_PIPES", "/p")
    assert memory_limits.probe(["GPU-a", "GPU-b"]) == dict.fromkeys(["GPU-a", "GPU-b"], 1 << 30)
    assert looks == [(["GPU-a"], "/p/GPU-a"), (["GPU-b"], "/p/GPU-b")]


def test_a_gpu_that_cannot_be_looked_at_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "cuInit: CUDA_ERROR_MPS_CONNECTION_FAILED\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setenv("COTENANT_MPS_PIPES", "/p")
    said = "cannot see the GPUs of this pod: cuInit: CUDA_ERROR_MPS_CONNECTION_FAILED"
    assert memory_limits.probe(["GPU-a", "GPU-b"]) == said
