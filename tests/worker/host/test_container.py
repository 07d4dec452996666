"""What the kernel says about a container."""

import errno
import os
import resource
from pathlib import Path

import pytest

from cotenant_worker.host import container


@pytest.mark.parametrize(
    ("file", "text", "want"),
    [
        ("memory.events", "low 0\noom 4\noom_kill 3\n", 3),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2),
        ("memory/memory.usage_in_bytes", "7\n", 0),
    ],
    ids=["version 2", "version 1", "it cannot be told"],
)
def test_kills_for_memory_are_counted_by_either_version_of_cgroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, want: int
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    monkeypatch.setattr(container, "_CGROUP", tmp_path)
    assert container.oom_kills() == want


@pytest.mark.parametrize(
    ("soft", "hard", "want"),
    [(1024, 524_288, 65_536), (1024, 4096, 4096), (1024, -1, 65_536), (1_048_576, 1_048_576, None), (-1, -1, None)],
    ids=["containerd 2", "no more than may be", "no end", "containerd 1", "no limit"],
)
def test_a_program_may_open_many_files(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, want: int | None) -> None:
    done: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, limits: done.append(limits))
    container.allow_open_files()
    assert done == ([] if want is None else [(want, hard)])


def test_a_process_that_crashes_writes_no_core_file_unless_its_program_wants_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (-1, -1))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: done.append((which, limits)))
    container.write_no_core_files()
    assert done == [(resource.RLIMIT_CORE, (0, -1))]


@pytest.mark.parametrize(
    ("files", "want"),
    [
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({}, 8),
    ],
    ids=["version 2", "less than one", "no limit", "version 1", "no limit in version 1", "it cannot be told"],
)
def test_a_limit_of_cpus_is_read_by_either_version_of_cgroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], want: int
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(container, "_CGROUP", tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    assert container.available_cpus() == want


def test_a_user_without_a_name_has_its_number_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert container.user_name() == f"uid-{os.getuid()}"


@pytest.mark.parametrize(
    ("refusal", "lost"),
    [(None, False), (errno.ENOENT, False), (errno.EACCES, False), (errno.EPERM, True)],
    ids=["open to all", "no GPUs", "the mode of the file", "the kernel's rules of devices"],
)
def test_gpus_are_lost_only_if_the_kernel_forbids_their_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int | None, lost: bool
) -> None:
    device = tmp_path / "nvidiactl"
    device.touch()
    opened = os.open

    def played(path: Path, flags: int) -> int:
        if refusal is not None:
            raise OSError(refusal, os.strerror(refusal))
        return opened(path, flags)

    monkeypatch.setattr(container, "_GPUS", device)
    monkeypatch.setattr(os, "open", played)
    assert container.has_lost_gpus() is lost
