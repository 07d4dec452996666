"""Programs in a running container, with a zygote that plays the program itself: streams, reports, deadlines."""

import asyncio
import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.runtime.containers import disk_records, exec_sessions
from cotenant_local.runtime.containers.container import Container, StateError
from cotenant_local.runtime.shim.zygote_client import LaunchError
from local.tests.runtime.cri_messages import Message

PROCESS = {"args": ["main"], "env": {"A": "1"}, "cwd": "/"}


@pytest.fixture
def container(tmp_path: Path) -> Container:
    disk_records.write(tmp_path / "spec.json", {"process": PROCESS, "cgroup_files": ["/cg/procs"]})
    config = Message(metadata=Message(name="main"))
    return Container("c", tmp_path, config, "s", "i", 1, 0, 0, [], "", [], started={"pid": 77})


class PlayedProgram:
    """A zygote whose program writes what it is told to, reports, and ends; without an exit code it goes on."""

    def __init__(self, *reports: dict[str, Any], out: bytes = b"", err: bytes = b"") -> None:
        self.reports, self.out, self.err = reports, out, err
        self.requests: list[dict[str, Any]] = []
        self.kept: list[int] = []

    def send(self, request: dict[str, Any], fds: list[int]) -> None:
        self.requests.append(request)
        report, control, _, out, err = fds
        fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, 1 << 17)  # more than one read takes
        os.write(out, self.out)
        os.write(err, self.err)
        for each in self.reports:
            os.write(report, json.dumps(each).encode() + b"\n")
        if len(self.reports) < 2 and "error" not in self.reports[0]:
            self.kept = [os.dup(report), os.dup(control)]


async def run(program: PlayedProgram, container: Container, *, limit: int = 99, timeout: float = 10) -> Any:
    zygote: Any = program
    return await exec_sessions.run(zygote, container, ["ls"], timeout=timeout, limit=limit)


async def test_a_program_sees_what_the_containers_own_sees_and_its_output_is_cut_at_the_limit(
    container: Container,
) -> None:
    program = PlayedProgram({"pid": 5}, {"exit_code": 3}, out=bytes(70_000), err=b"oh")
    assert await run(program, container, limit=66_000) == (bytes(66_000), b"oh", 3)
    want = {"task": "exec", "pid": 77, "process": {**PROCESS, "args": ["ls"]}, "tty": False}
    assert program.requests == [{**want, "cgroup_files": ["/cg/procs"]}]


def test_a_program_on_a_terminal_has_its_kind_in_the_environment(container: Container) -> None:
    document = exec_sessions.request(container, ["sh"], tty=True)
    assert document["process"]["env"] == {"A": "1", "TERM": "xterm"}


async def test_a_program_that_cannot_run_is_an_error_with_its_report(container: Container) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LaunchError, match=r"^no such file$"):
        await run(PlayedProgram({"error": "no such file"}), container)
    await asyncio.sleep(0)  # a transport closes its pipe with the loop's next turn
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_program_that_does_not_end_in_time_is_hung_up_on(container: Container) -> None:
    program = PlayedProgram({"pid": 5})
    with pytest.raises(TimeoutError, match=r"^command \['ls'\] timed out after 0 s$"):
        await run(program, container, timeout=0.01)
    report, control = program.kept
    assert os.read(control, 1) == b""  # the end of the session: the program's waiter kills it
    os.close(report)
    os.close(control)


async def test_nothing_runs_in_a_container_that_has_ended(container: Container) -> None:
    container.exit = {"exit_code": 0}
    with pytest.raises(StateError, match=r"^container main \(c\) is not running$"):
        await run(PlayedProgram({"pid": 5}), container)
