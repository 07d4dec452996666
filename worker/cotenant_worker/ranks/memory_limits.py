"""Limits of GPU memory for each rank, and the variables that make each framework respect them.

pool = quota - CUDA context - NCCL buffers, divided by the processes that the rank runs on the GPU; fraction = pool /
the total that the container sees. Worked example: 0.4 of an 80 GiB GPU is 32,768 MiB; less 768 (context) and 640 (NCCL)
leaves 31,360 MiB; of 81,559 MiB seen that is 0.3845. The fraction is computed inside the container, because under a
hard limit the container sees less than the host.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from cotenant import names
from cotenant.contract import Contract, GpuGrant, RankGrant
from cotenant_worker.host import layout
from cotenant_worker.ranks.device_environment import MPS_PIPE, pod_uuids
from cotenant_worker.ranks.environment import choose_collective, visible_gpus

_CONTEXT_MIB = 512
"""CUDA context, kernels and library handles of one process, as bench/gpu.py measures them."""
_LARGE_CONTEXT_MIB = 768
_LARGE_MIB = 40 << 10
"""GPUs with this much memory have twice the multiprocessors of smaller ones, and so a larger context."""
NCCL_MIB = 640
"""Buffers of one communicator, outside every framework's pool."""
JAX_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
"""The name that all versions of JAX read. If `XLA_CLIENT_MEM_FRACTION` is there too, JAX computes on the CPU."""
_OF_THE_IMAGE = ("PYTORCH_NO_CUDA_MEMORY_CACHING", "TF_GPU_ALLOCATOR", "XLA_CLIENT_MEM_FRACTION")
"""Variables of an image that are removed: the first two switch to allocators without limits, and some versions of torch
take even an empty one for a yes.
"""
_PROBE_S = 60
_OF_THE_JOB = re.compile(
    r"CUDA_ERROR_(STUB_LIBRARY|COMPAT_NOT_SUPPORTED_ON_DEVICE|SYSTEM_DRIVER_MISMATCH|OUT_OF_MEMORY)"
)
"""Errors of CUDA that another node does not mend: of libraries that the job's image brings, or of too small a share."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """One rank's limit on one GPU, in bytes."""

    uuid: str
    quota: int
    total: int
    pool: int
    """Bytes for each process."""
    processes: int = 1

    @property
    def fraction(self) -> float:
        """The pool as a part of the GPU, rounded down, so that the limit does not exceed the share."""
        return int(self.pool / self.total * 1e6) / 1e6


def context_mib(total: int) -> int:
    """MiB that one process takes before its first tensor, on a GPU of `total` bytes."""
    return _LARGE_CONTEXT_MIB if total >> 20 >= _LARGE_MIB * 0.95 else _CONTEXT_MIB


class ShareTooSmallError(ValueError):
    """The share is smaller than what CUDA and NCCL take before the first tensor."""


class GpusUnusableError(RuntimeError):
    """CUDA does not work in this pod, or does not show its GPUs, before any program has run: the node is at fault."""


def memory_budget(grant: GpuGrant, total: int, *, processes: int = 1, context_mib: int, nccl_mib: int) -> MemoryBudget:
    overhead = context_mib * processes + nccl_mib
    pool = (min(grant.memory_mib << 20, total) - (overhead << 20)) // processes
    if pool <= 0:
        raise ShareTooSmallError(
            f"the share of {grant.memory_mib} MiB on {grant.uuid} is smaller than what {processes} process(es) need"
            f" before the first tensor: {context_mib} MiB of CUDA context each and {nccl_mib} MiB for NCCL."
            f" Ask for more in gpu.memory or gpu.memoryFraction" + (", or for fewer gpuProcesses" * (processes > 1))
        )
    return MemoryBudget(grant.uuid, grant.memory_mib << 20, total, pool, processes)


def limit_variables(budgets: list[MemoryBudget]) -> dict[str, str]:
    """Variables that limit JAX, TensorFlow and CuPy in every child process, and the shim's limit for torch."""
    if not budgets:
        return {}
    least = min(each.fraction for each in budgets)
    pool = min(each.pool for each in budgets)
    document = {
        each.uuid: {"pool": each.pool, "total": each.total, "quota": each.quota, "processes": each.processes}
        for each in budgets
    }
    return {
        layout.ENV_LIMITS: json.dumps(document, sort_keys=True),
        JAX_FRACTION: f"{least:.6f}",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_ALLOCATOR": "default",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "CUPY_GPU_MEMORY_LIMIT": str(pool),
    }


def with_limits(env: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """A process's environment with `limit_variables`; unchanged without limits."""
    return {name: value for name, value in env.items() if not found or name not in _OF_THE_IMAGE} | dict(found)


Limits = dict[int, Mapping[str, str]]
Problems = list[tuple[str, str]]


def memory_limits_of(contract: Contract) -> tuple[Limits | str, Problems]:
    """(grant → environment, warnings); a text instead of the environments if the job asks for what cannot be had.
    Raises GpusUnusableError.

    It blocks while a short process looks at the GPUs. No process is started if all GPUs are simulated, or are devices
    that the kubelet handed out whole.
    """
    pod = contract.pods[contract.node_rank]
    grants = [gpu for rank in pod.ranks for gpu in rank.gpus]
    real = [gpu for gpu in grants if not gpu.simulated and not gpu.resource]
    if not real:
        note = "GPU memory limits are not applied: the GPUs of this pod are simulated"
        return {}, [("limits", note)] if any(gpu.simulated for gpu in grants) else []
    seen = probe(pod_uuids(pod))
    if isinstance(seen, str) and _OF_THE_JOB.search(seen):
        return seen, []
    if isinstance(seen, str):
        raise GpusUnusableError(seen)
    missing = [gpu.uuid for gpu in real if gpu.uuid not in seen]
    if missing:
        raise GpusUnusableError(f"granted {', '.join(missing)}, but the container sees {', '.join(seen) or 'no GPU'}")
    try:
        return {rank.rank: _of_rank(contract, rank, seen) for rank in pod.ranks}, []
    except ShareTooSmallError as error:
        return str(error), []


def _of_rank(contract: Contract, rank: RankGrant, seen: Mapping[str, int]) -> Mapping[str, str]:
    nccl = choose_collective(contract)[0] == "nccl" and contract.world_size > 1
    return limit_variables(
        [
            memory_budget(
                gpu,
                seen[gpu.uuid],
                processes=int(contract.platform.get("gpuProcesses", 1)),
                context_mib=context_mib(seen[gpu.uuid]),
                nccl_mib=NCCL_MIB if nccl else 0,
            )
            for gpu in visible_gpus(contract, contract.pods[contract.node_rank], rank)
            if not gpu.whole
        ]
    )


def probe(uuids: list[str]) -> dict[str, int] | str:
    """UUID → total bytes as this container sees them, or an error text. Runs in a child, because CUDA must not be in
    PID 1.

    With MPS daemons, each is probed in a child of its own: a process is a client of one of them.
    """
    pipes = os.environ.get(names.ENV_MPS_PIPES)
    if not pipes:
        return _probe(uuids, {})
    found: dict[str, int] = {}
    for uuid in uuids:
        one = _probe([uuid], {MPS_PIPE: f"{pipes}/{uuid}"})
        if isinstance(one, str):
            return one
        found |= one
    return found


def _probe(uuids: list[str], variables: Mapping[str, str]) -> dict[str, int] | str:
    command = [sys.executable, "-P", "-m", "cotenant_worker.ranks.visible_gpus", *uuids]
    try:
        environment = {**os.environ, **variables}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PROBE_S, check=False)
    except subprocess.TimeoutExpired:
        return f"looking at the GPUs took more than {_PROBE_S} s: the driver does not answer"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return f"cannot see the GPUs of this pod: {lines[-1] if lines else done.returncode}"
    return {str(uuid): int(total) for uuid, total in json.loads(done.stdout).items()}
