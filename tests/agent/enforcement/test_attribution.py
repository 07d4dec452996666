"""Ways in which nodes write a pod into a cgroup path, and PIDs that are used again."""

import os
from pathlib import Path
from typing import Any

import pytest

from cotenant_agent.enforcement.attribution import (
    FOREIGN,
    GONE,
    HostProcesses,
    OwnerKind,
    ProcessOwner,
    boot_time_in,
    owner_in,
    start_time_in,
)

UID = "0d6ab4a3-9f4e-4f7b-8c51-1a2b3c4d5e6f"
SLICE_UID = UID.replace("-", "_")
STATIC = "5c9a2d1b7e8f40315c9a2d1b7e8f4031"
CID = "ab" * 32
POD = ProcessOwner(OwnerKind.POD, UID, CID)


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param(
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE_UID}.slice/cri-containerd-{CID}.scope",
            POD,
            id="containerd under systemd",
        ),
        pytest.param(
            f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/cri-containerd-{CID}.scope", POD, id="guaranteed pod"
        ),
        pytest.param(f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/crio-{CID}.scope", POD, id="CRI-O"),
        pytest.param(
            f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/crio-{CID}.scope/container", POD, id="CRI-O with crun"
        ),
        pytest.param(
            f"0::/system.slice/containerd.service/kubepods-burstable-pod{SLICE_UID}.slice:cri-containerd:{CID}",
            POD,
            id="containerd without systemd, under a kubelet with it",
        ),
        pytest.param(
            f"11:memory:/kubepods-besteffort-pod{SLICE_UID}.slice:cri-containerd:{CID}", POD, id="the same in version 1"
        ),
        pytest.param(f"0::/kubepods/burstable/pod{UID}/{CID}", POD, id="cgroupfs"),
        pytest.param(f"0::/kubepods/pod{UID}/{CID}", POD, id="cgroupfs, guaranteed"),
        pytest.param(f"11:memory:/kubepods/besteffort/pod{UID}/{CID}", POD, id="cgroup version 1"),
        pytest.param(
            f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SLICE_UID}.slice/cri-containerd-{CID}.scope",
            POD,
            id="kind",
        ),
        pytest.param(
            f"0::/../../kubepods-pod{SLICE_UID}.slice/cri-containerd-{CID}.scope", POD, id="private cgroup namespace"
        ),
        pytest.param(
            f"0::/kubepods/burstable/pod{STATIC}/{CID}", ProcessOwner(OwnerKind.POD, STATIC, CID), id="static pod"
        ),
        pytest.param(f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/docker-{CID}.scope", POD, id="cri-dockerd"),
        pytest.param(
            f"0::/kubepods/pod{UID}/{CID}/kubepods/pod{'0' * 32}/{'cd' * 32}",
            POD,
            id="a cluster inside a pod: the outer one",
        ),
        pytest.param(
            f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/crio-conmon-{CID}.scope", FOREIGN, id="CRI-O's monitor"
        ),
        pytest.param("0::/user.slice/user-1000.slice/session-3.scope", FOREIGN, id="somebody at the machine"),
        pytest.param("0::/system.slice/docker-" + CID + ".scope", FOREIGN, id="a container outside Kubernetes"),
        pytest.param("", FOREIGN, id="nothing"),
    ],
)
def test_a_cgroup_path_names_its_pod(path: str, want: ProcessOwner) -> None:
    assert owner_in(path) == want


def test_the_first_line_that_names_a_pod_counts() -> None:
    assert owner_in(f"12:pids:/system.slice\n11:memory:/kubepods/pod{UID}/{CID}\n0::/\n") == POD


@pytest.mark.parametrize("command", ["python", "a b", "evil) R 1 2 3 4 5 6", "((("])
def test_the_start_time_survives_any_command_name(command: str) -> None:
    fields = " ".join(str(n) for n in range(4, 53))
    assert start_time_in(f"4711 ({command}) S {fields}") == 22


def test_the_boot_time_is_read_from_the_hosts_stat() -> None:
    assert boot_time_in("cpu  1 2 3\nctxt 5\nbtime 1700000000\nprocesses 3\n") == 1_700_000_000.0


def write_process(proc: Path, pid: int, started: int, cgroup: str) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{pid} (python) S " + " ".join(["0"] * 18) + f" {started} 0 0")
    (folder / "cgroup").write_text(cgroup)


def test_a_used_again_pid_gets_its_new_owner(tmp_path: Path) -> None:
    processes = HostProcesses(tmp_path)
    write_process(tmp_path, 7, 100, f"0::/kubepods/pod{UID}/{CID}")
    assert processes.owner(7) == POD
    write_process(tmp_path, 7, 200, "0::/system.slice/sshd.service")
    assert processes.owner(7) == FOREIGN


def test_an_owner_is_remembered_while_the_process_lives(tmp_path: Path) -> None:
    processes = HostProcesses(tmp_path)
    write_process(tmp_path, 7, 100, f"0::/kubepods/pod{UID}/{CID}")
    assert processes.owner(7) == POD
    (tmp_path / "7" / "cgroup").unlink()
    assert processes.owner(7) == POD
    (tmp_path / "7" / "stat").unlink()
    assert processes.owner(7) == GONE


def test_a_process_that_ended_is_gone_not_foreign(tmp_path: Path) -> None:
    assert HostProcesses(tmp_path).owner(99) == GONE


def test_a_process_whose_name_is_no_text_is_found_all_the_same(tmp_path: Path) -> None:
    write_process(tmp_path, 1, started=1, cgroup="0::/init.scope")
    write_process(tmp_path, 7, started=70, cgroup=f"0::/kubepods/pod{UID}/{CID}")
    stat = tmp_path / "7" / "stat"
    stat.write_bytes(stat.read_bytes().replace(b"(", b"(\xff\xfe\n) ", 1))
    processes = HostProcesses(tmp_path)
    assert (processes.owner(7), processes.running_pods()) == (POD, frozenset({UID}))


def test_a_process_that_cannot_be_looked_at_is_foreign_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(path: Path, **_: object) -> str:
        raise PermissionError(path)

    monkeypatch.setattr(Path, "read_text", hidden)
    assert HostProcesses(tmp_path).owner(7) == FOREIGN


def test_only_a_proc_with_process_1_is_the_hosts(tmp_path: Path) -> None:
    assert not HostProcesses(tmp_path).readable()
    write_process(tmp_path, 1, 1, "0::/init.scope")
    assert HostProcesses(tmp_path).readable()


@pytest.mark.parametrize(
    ("numbers", "ours"),
    [("ours", True), ("another namespace's", False), ("none", False)],
)
def test_a_proc_is_ours_if_it_counts_as_our_pid_namespace_does(tmp_path: Path, numbers: str, ours: bool) -> None:
    if numbers != "none":
        (tmp_path / "self").symlink_to(str(os.getpid() + (numbers != "ours")))
    assert HostProcesses(tmp_path).are_ours() is ours
    assert HostProcesses(Path("/proc")).are_ours()


def test_the_pods_that_run_are_those_with_a_living_process(tmp_path: Path) -> None:
    processes = HostProcesses(tmp_path)
    assert processes.running_pods() is None
    write_process(tmp_path, 1, 1, "0::/init.scope")
    assert processes.running_pods() == frozenset()
    write_process(tmp_path, 7, 100, f"0::/kubepods/pod{UID}/{CID}")
    write_process(tmp_path, 8, 100, f"0::/kubepods/pod{UID}/{CID}")
    assert processes.running_pods() == frozenset({UID})
    (tmp_path / "7" / "stat").unlink()
    (tmp_path / "8" / "stat").write_text("8 (a ) b) Z 1 1")
    assert processes.running_pods() == frozenset()


def test_where_processes_are_hidden_nothing_is_known_of_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_process(tmp_path, 1, 1, "0::/init.scope")
    write_process(tmp_path, 7, 100, f"0::/kubepods/pod{UID}/{CID}")
    read = Path.read_text

    def hidden(path: Path, **words: Any) -> str:
        if path.name == "stat":
            raise PermissionError(path)
        return read(path, **words)

    monkeypatch.setattr(Path, "read_text", hidden)
    assert HostProcesses(tmp_path).running_pods() is None
