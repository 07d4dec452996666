"""How much GPU memory a rank's framework may take."""

import json
from dataclasses import replace

import pytest

from cotenant.contract import GpuGrant, PodGrant, RankGrant
from cotenant_worker.ranks import memory_limits
from cotenant_worker.ranks.device_environment import visibility
from cotenant_worker.ranks.environment import visible_gpus
from tests.support.pod_sandbox import contract

GIB = 1 << 30


def share(mib: int, uuid: str = "GPU-a") -> GpuGrant:
    return GpuGrant(uuid, mib, 400, whole=False)


@pytest.mark.parametrize(
    ("grant", "total", "processes", "nccl", "pool_mib"),
    [
        pytest.param(share(32768), 80 * GIB, 1, 0, 32256, id="the context comes off"),
        pytest.param(share(32768), 80 * GIB, 1, 640, 31616, id="and the buffers of NCCL"),
        pytest.param(share(32768), 80 * GIB, 2, 0, 15872, id="two processes halve what two contexts leave"),
        pytest.param(share(32768), 30 * GIB, 1, 0, 30208, id="a hard limit below the quota counts"),
    ],
)
def test_the_pool_is_the_share_less_what_cuda_takes(
    grant: GpuGrant, total: int, processes: int, nccl: int, pool_mib: int
) -> None:
    found = memory_limits.memory_budget(grant, total, processes=processes, context_mib=512, nccl_mib=nccl)
    assert found.pool == pool_mib << 20
    assert found.fraction * total <= found.pool
    assert found.fraction * total > found.pool - total // 500_000


@pytest.mark.parametrize(("gib", "mib"), [(16, 512), (24, 512), (39.6, 768), (80, 768), (141, 768)])
def test_a_large_gpu_needs_more_for_a_context(gib: float, mib: int) -> None:
    assert memory_limits.context_mib(int(gib * GIB)) == mib


def test_a_share_that_cannot_hold_so_many_contexts_says_that_there_may_be_too_many() -> None:
    with pytest.raises(memory_limits.ShareTooSmallError, match=r"gpu\.memoryFraction, or for fewer gpuProcesses$"):
        memory_limits.memory_budget(share(1600), 80 * GIB, processes=2, context_mib=768, nccl_mib=640)


def test_a_share_that_cannot_hold_the_context_is_refused_with_what_to_change() -> None:
    with pytest.raises(memory_limits.ShareTooSmallError, match=r"share of 600 MiB .* gpu\.memoryFraction"):
        memory_limits.memory_budget(share(600), 80 * GIB, context_mib=512, nccl_mib=640)


def test_every_framework_is_told_in_its_own_words() -> None:
    env = memory_limits.limit_variables(
        [memory_limits.memory_budget(share(32768), 80 * GIB, context_mib=512, nccl_mib=0)]
    )
    assert {name: env[name] for name in env if name != "COTENANT_LIMITS"} == {
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.393750",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_ALLOCATOR": "default",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "CUPY_GPU_MEMORY_LIMIT": str(32256 << 20),
    }
    assert json.loads(env["COTENANT_LIMITS"]) == {
        "GPU-a": {"pool": 32256 << 20, "total": 80 * GIB, "quota": 32768 << 20, "processes": 1}
    }


OF_AN_IMAGE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "XLA_CLIENT_MEM_FRACTION": "0.9"}


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param({}, OF_AN_IMAGE | {"A": "1"}, id="nothing limited: as it was"),
        pytest.param({"LIMIT": "2"}, {"A": "1", "LIMIT": "2"}, id="limited: gone, not empty"),
    ],
)
def test_an_image_can_neither_lift_the_limits_nor_contradict_them(found: dict[str, str], want: dict[str, str]) -> None:
    assert memory_limits.with_limits(OF_AN_IMAGE | {"A": "1"}, found) == want


def test_jax_gets_its_limit_by_one_name() -> None:
    """With both names JAX ends its plugin of CUDA by a ValueError, and goes on with the CPU."""
    (budget,) = [memory_limits.MemoryBudget("GPU-a", 4, 8, 2)]
    assert [name for name in memory_limits.limit_variables([budget]) if name.endswith("_MEM_FRACTION")] == [
        "XLA_PYTHON_CLIENT_MEM_FRACTION"
    ]


def test_simulated_gpus_are_not_limited_and_that_is_said() -> None:
    assert memory_limits.memory_limits_of(contract([1])) == (
        {},
        [("limits", "GPU memory limits are not applied: the GPUs of this pod are simulated")],
    )


def test_a_pod_without_gpus_is_not_limited_and_nothing_is_said() -> None:
    job = replace(contract([1]), pods=(PodGrant("a", (RankGrant(0, ()),)),))
    assert memory_limits.memory_limits_of(job) == ({}, [])


def test_a_granted_gpu_that_the_container_does_not_see_stops_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    job = replace(contract([1]), pods=(PodGrant("a", (RankGrant(0, (share(32768, "GPU-b"),)),)),))
    monkeypatch.setattr(memory_limits, "probe", lambda _uuids: {"GPU-a": 80 * GIB})
    with pytest.raises(memory_limits.GpusUnusableError, match=r"^granted GPU-b, but the container sees GPU-a$"):
        memory_limits.memory_limits_of(job)


@pytest.mark.parametrize(
    "error",
    [
        "CUDA_ERROR_UNKNOWN",
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
    ],
)
def test_cuda_that_fails_before_any_program_is_the_fault_of_the_node(
    monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    job = replace(contract([1]), pods=(PodGrant("a", (RankGrant(0, (share(32768, "GPU-a"),)),)),))
    monkeypatch.setattr(memory_limits, "probe", lambda _uuids: f"cannot see the GPUs of this pod: cuInit: {error}")
    with pytest.raises(memory_limits.GpusUnusableError, match=error):
        memory_limits.memory_limits_of(job)


@pytest.mark.parametrize(
    "error",
    ["CUDA_ERROR_STUB_LIBRARY", "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"],
)
def test_libraries_of_the_image_that_do_not_fit_are_the_jobs_own_fault(
    monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    job = replace(contract([1]), pods=(PodGrant("a", (RankGrant(0, (share(32768, "GPU-a"),)),)),))
    said = f"cannot see the GPUs of this pod: cuInit: {error}"
    monkeypatch.setattr(memory_limits, "probe", lambda _uuids: said)
    assert memory_limits.memory_limits_of(job) == (said, [])


def test_only_shares_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = (RankGrant(0, (GpuGrant("GPU-a", 81920, 1000, whole=True),)), RankGrant(1, (share(32768, "GPU-b"),)))
    job = replace(contract([1]), pods=(PodGrant("a", ranks),))
    monkeypatch.setattr(memory_limits, "probe", lambda _uuids: {"GPU-a": 80 * GIB, "GPU-b": 80 * GIB})
    found, problems = memory_limits.memory_limits_of(job)
    assert isinstance(found, dict)
    assert problems == []
    assert found[0] == {}
    # NCCL is in use: its buffers come off the share too.
    assert json.loads(found[1]["COTENANT_LIMITS"])["GPU-b"]["pool"] == (32768 - 768 - 640) << 20


def test_a_rank_with_shares_of_two_gpus_sees_both_and_is_limited_on_each(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = PodGrant("a", (RankGrant(0, (share(32768, "GPU-b"), share(16384, "GPU-a"))),))
    job = replace(contract([1]), pods=(pod,))
    monkeypatch.setattr(memory_limits, "probe", lambda _uuids: {"GPU-a": 40 * GIB, "GPU-b": 80 * GIB})
    found, _ = memory_limits.memory_limits_of(job)
    assert isinstance(found, dict)
    limits = json.loads(found[0]["COTENANT_LIMITS"])
    assert {uuid: one["quota"] >> 20 for uuid, one in limits.items()} == {"GPU-a": 16384, "GPU-b": 32768}
    assert found[0]["CUPY_GPU_MEMORY_LIMIT"] == str(limits["GPU-a"]["pool"])
    shown = visibility(pod, visible_gpus(job, pod, pod.ranks[0]))
    assert shown == {"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a", "COTENANT_GPUS": "GPU-b,GPU-a"}


def test_a_rank_that_sees_its_whole_pod_is_limited_on_every_gpu_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = (RankGrant(0, (share(32768, "GPU-a"),)), RankGrant(1, (share(32768, "GPU-b"),)))
    job = replace(contract([1]), command=("torchrun", "train.py"), pods=(PodGrant("a", ranks),))
    monkeypatch.setattr(memory_limits, "probe", lambda _uuids: {"GPU-a": 80 * GIB, "GPU-b": 80 * GIB})
    found, _ = memory_limits.memory_limits_of(job)
    assert isinstance(found, dict)
    assert [sorted(json.loads(env["COTENANT_LIMITS"])) for env in found.values()] == [["GPU-a", "GPU-b"]] * 2


def test_whole_devices_of_other_makers_are_neither_limited_nor_looked_for_by_the_driver_of_cuda() -> None:
    gpu = GpuGrant("AMD-1", 0, 1000, whole=True, resource="amd.com/gpu")
    job = replace(contract([1]), pods=(PodGrant("a", (RankGrant(0, (gpu,)),)),))
    assert memory_limits.memory_limits_of(job) == ({}, [])
