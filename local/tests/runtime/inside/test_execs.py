"""One more program beside a running one: its reports, its streams, and its end with the request."""

import json
import os
import socket
from typing import Any

import pytest

from cotenant_local.runtime.inside import execs, identity, syscalls


@pytest.fixture(autouse=True)
def _as_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "apply", lambda _: None)
    monkeypatch.setattr(syscalls, "set_name", lambda _: None)


class Caller:
    """The runtime's ends of the descriptors that a request carries."""

    def __init__(self) -> None:
        self.report, report = os.pipe()
        self.control, control = socket.socketpair()
        self.stdin, stdin = os.pipe()[::-1]
        self.stdout, stdout = os.pipe()
        self.theirs = [report, control.detach(), stdin, stdout, os.dup(stdout)]

    def run(self, *args: str, pid: int = os.getpid()) -> list[dict[str, Any]]:
        """Runs a program in the container of `pid`, to its end; the reports."""
        env = {"PATH": "/usr/bin:/bin"}
        process = {"args": list(args), "env": env, "cwd": "/", "uid": os.geteuid(), "map_user": False}
        execs.run({"pid": pid, "process": process, "tty": False, "cgroup_files": []}, list(self.theirs))
        for fd in self.theirs[:2]:
            os.close(fd)
        with os.fdopen(self.report, "rb") as reports:
            return [json.loads(line) for line in reports]

    def output(self) -> bytes:
        with os.fdopen(self.stdout, "rb") as file:
            return file.read()


def test_a_program_reports_that_it_runs_and_how_it_ended() -> None:
    caller = Caller()
    os.write(caller.stdin, b"typed\n")
    first, last = caller.run("sh", "-c", "read word; echo out $word; echo err >&2; exit 3")
    assert (list(first), last) == (["pid"], {"exit_code": 3})
    assert caller.output() == b"out typed\nerr\n"


def test_a_program_that_dies_of_a_signal_has_the_code_of_a_shell() -> None:
    assert Caller().run("sh", "-c", "kill -TERM $$")[1:] == [{"exit_code": 143}]


def test_a_program_that_cannot_run_is_one_report() -> None:
    message = 'exec: "no-such": executable file not found in $PATH (/usr/bin:/bin)'
    assert Caller().run("no-such") == [{"error": message}]


def test_a_caller_that_hangs_up_takes_the_program_with_it() -> None:
    caller = Caller()
    caller.control.close()
    assert caller.run("sleep", "1000")[1:] == [{"exit_code": 137}]


def test_nothing_runs_in_a_container_that_is_gone() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert Caller().run("true", pid=pid) == [{"error": "the container is not running: No such file or directory"}]
