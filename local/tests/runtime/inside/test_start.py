"""Start of a program: streams, cgroups, and one sentence for whatever keeps it from running. Without its own root."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.runtime.inside import identity, rootfs, start
from cotenant_local.runtime.inside.reports import SetupError
from cotenant_local.runtime.inside.start import StartedProgram


@pytest.fixture(autouse=True)
def _on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child stays in the machine's root, as the test's own user."""
    for module, name in ((rootfs, "enter"), (rootfs, "make_readonly"), (identity, "apply")):
        monkeypatch.setattr(module, name, lambda _: None)


def spec(*args: str, cwd: str = "/", tty: bool = False, stdin: bool = False, cgroups: tuple[str, ...] = ()) -> Any:
    env = {"PATH": "/no/such:/usr/bin:/bin", "WORD": "caf\udcff"}
    user = {"uid": os.geteuid(), "map_user": False, "oom_score_adj": 1000}
    return {
        "namespaces": {"net": "", "uts": "", "ipc": "", "pid": ""},
        "process": {"args": list(args), "env": env, "cwd": cwd, **user},
        "tty": tty,
        "stdin": stdin,
        "cgroup_files": cgroups,
    }


def finished(program: StartedProgram) -> tuple[dict[str, bytes], int]:
    """Outputs and exit code."""
    outputs = {}
    for fd, stream in program.outputs.items():
        with os.fdopen(fd, "rb") as file:
            outputs[stream] = file.read()
    return outputs, os.waitstatus_to_exitcode(os.waitpid(program.pid, 0)[1])


def test_a_program_has_its_streams_its_folder_and_its_environment(tmp_path: Path) -> None:
    script = 'pwd; echo "$WORD" >&2; cat; exit 3'
    program = start.start(spec("sh", "-c", script, cwd=str(tmp_path / "new"), stdin=True))
    os.write(program.stdin, b"typed")
    os.close(program.stdin)
    assert finished(program) == ({"stdout": f"{tmp_path}/new\ntyped".encode(), "stderr": b"caf\xff\n"}, 3)
    assert program.mounts == os.readlink("/proc/self/ns/mnt")


def test_a_program_without_input_reads_its_end_at_once() -> None:
    program = start.start(spec("cat"))
    assert program.stdin == -1
    assert finished(program) == ({"stdout": b"", "stderr": b""}, 0)


def test_a_terminal_is_one_descriptor_for_both_ways() -> None:
    program = start.start(spec("sh", "-c", "test -t 0 && tty -s && exit 4", tty=True, stdin=True))
    assert (program.outputs, program.stdin) == ({program.terminal: "stdout"}, program.terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(program.pid, 0)[1]) == 4
    os.close(program.terminal)


def test_a_program_is_in_its_cgroups_before_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "cgroup.procs"
    program = start.start(spec("cat", str(file), "/proc/self/oom_score_adj", cgroups=(str(file),)))
    assert finished(program) == ({"stdout": f"{program.pid}1000\n".encode(), "stderr": b""}, 0)


def test_a_program_whose_limits_cannot_be_set_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran, pids, fork = tmp_path / "ran", [0], os.fork

    def remembered() -> int:
        pids[0] = fork()
        return pids[0]

    monkeypatch.setattr(os, "fork", remembered)
    with pytest.raises(OSError, match="No such file"):
        start.start(spec("touch", str(ran), cgroups=(str(tmp_path / "absent" / "procs"),)))
    assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == -signal.SIGKILL
    assert not ran.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such", 'exec: "no-such": executable file not found in $PATH (/no/such:/usr/bin:/bin)'),
        ("/no/such", 'exec: "/no/such": no such file or directory'),
        ("/etc/passwd", 'exec: "/etc/passwd": permission denied'),
        ("{tmp}/text", 'exec: "{tmp}/text": exec format error: no interpreter line and not a program'),
    ],
)
def test_a_program_that_cannot_run_is_named(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("just words\n")
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(SetupError) as refusal:
        start.start(spec(name.format(tmp=tmp_path)))
    assert str(refusal.value) == message.format(tmp=tmp_path)


def test_a_working_directory_that_cannot_be_made_is_named() -> None:
    with pytest.raises(SetupError, match=r"^working directory /etc/passwd/x: Not a directory$"):
        start.start(spec("true", cwd="/etc/passwd/x"))


@pytest.mark.parametrize(
    ("content", "killed"),
    [
        ("oom 1\noom_kill 2\n", True),
        ("oom 1\noom_kill 0\n", False),
        ("oom 1\n", False),
        ("not a table of counts\n", False),
        (None, False),
    ],
)
def test_the_kernels_counter_tells_whether_it_killed_for_memory(
    content: str | None, killed: bool, tmp_path: Path
) -> None:
    file = tmp_path / "memory.events"
    if content is not None:
        file.write_text(content)
    assert start.out_of_memory({"oom_file": str(file)}) is killed
    assert start.out_of_memory({"oom_file": ""}) is False
