"""The hook that plays the container toolkit's, and the faults that can be asked of it."""

from pathlib import Path

import pytest

from cotenant_local.runtime.isolation.gpu_memory_hook import HookError, MemoryLimitHook

MIB = 1 << 20
GPUS = ["gpu 0 GPU-a|H100|80|0|18", "gpu 1 GPU-b|H100|80|0|2A"]
BOTH = {
    "NVIDIA_VISIBLE_DEVICES": "GPU-a",
    "NVIDIA_GPU_MEMORY_REQUEST": "1",
    "NVIDIA_GPU_MEMORY_LIMIT": "9",
}


def limits(folder: Path) -> dict[str, tuple[str, int, str]]:
    """Last part of the cgroup → GPU, soft MiB, hard limit."""
    lines = [line.split() for line in (folder / "state").read_text().splitlines() if line.startswith("limit")]
    return {Path(path).name: (index, int(soft) // MIB, hard) for _, index, path, soft, hard, _ in lines}


@pytest.fixture
def hook(tmp_path: Path) -> MemoryLimitHook:
    (tmp_path / "state").write_text("\n".join(GPUS) + "\n")
    return MemoryLimitHook(tmp_path)


@pytest.mark.parametrize(
    ("env", "fault", "leaf"),
    [
        pytest.param(BOTH, "", ("0", 1, str(9 * MIB)), id="both variables"),
        pytest.param(BOTH | {"NVIDIA_GPU_MEMORY_REQUEST": ""}, "", None, id="one alone sets nothing and says nothing"),
        pytest.param(BOTH | {"NVIDIA_GPU_MEMORY_LIMIT": ""}, "", None, id="nor does the other"),
        pytest.param(BOTH, "missing", None, id="without the hook"),
        pytest.param(BOTH, "limit 20", ("0", 1, str(20 * MIB)), id="a wrong limit"),
        pytest.param(BOTH, "other-gpu", ("1", 1, str(9 * MIB)), id="another GPU"),
    ],
)
def test_a_limit_is_that_of_the_leaf(
    hook: MemoryLimitHook, env: dict[str, str], fault: str, leaf: tuple[str, int, str] | None
) -> None:
    (hook.folder / "faults").write_text(fault)
    hook.create_runtime(env, "u", "c1")
    assert limits(hook.folder).get("c1") == leaf
    assert (hook.folder / "sys/fs/cgroup/kubepods/podu/c1").is_dir()


@pytest.mark.parametrize(
    ("env", "fault", "why"),
    [
        (BOTH, "old-driver", "the driver has no nvmlDeviceSetMemoryLimits_v1"),
        (BOTH | {"NVIDIA_GPU_MEMORY_REQUEST": "10"}, "", "request 10 MiB is more than limit 9 MiB"),
    ],
)
def test_what_it_cannot_do_fails_the_container(
    hook: MemoryLimitHook, env: dict[str, str], fault: str, why: str
) -> None:
    (hook.folder / "faults").write_text(fault)
    with pytest.raises(HookError, match=why):
        hook.create_runtime(env, "u", "c1")


def test_the_reservation_of_a_container_stays_with_the_parents_when_it_has_ended(hook: MemoryLimitHook) -> None:
    for name in ("c1", "c2"):
        hook.create_runtime(BOTH, "u", name)
        hook.post_stop(name)
    assert limits(hook.folder) == {"podu": ("0", 2, "max"), "kubepods": ("0", 2, "max")}
    assert not list((hook.folder / "sys/fs/cgroup/kubepods/podu").iterdir())
