"""The loop of a shim with a real program at its end: log, clients, input, and the protocol.

A client asks before the loop runs: what it sent waits in its socket.
"""

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from cotenant_local.runtime.inside import io_loop
from cotenant_local.runtime.inside.io_loop import IoLoop, frame
from cotenant_local.runtime.inside.logs import LogFile
from cotenant_local.runtime.inside.start import StartedProgram

OK = b'{"ok": true}\n'


class Container:
    """A shell script with pipes, its log, and the socket of its shim."""

    def __init__(self, folder: Path, script: str, *, stdin: bool = False) -> None:
        self.log = folder / "0.log"
        self.path = str(folder / "ctl.sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        inner, self.stdin = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
        out, out_inner = os.pipe()
        err, err_inner = os.pipe()
        pairs = ((inner, 0), (out_inner, 1), (err_inner, 2))
        streams = [(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in pairs]
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", script], dict(os.environ), file_actions=streams)
        for fd, _ in pairs:
            os.close(fd)
        self.program = StartedProgram(pid, self.stdin, {out: "stdout", err: "stderr"})

    def client(self, *sent: bytes) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.path)
        client.sendall(b"".join(sent))
        return client

    def run(self, *, stdin_once: bool = True) -> int:
        """Run a program to its end. Returns its exit code, or minus the signal."""
        loop = IoLoop(self.program, LogFile(str(self.log)), self.listener, stdin_once=stdin_once)
        status = loop.run()
        loop.log.finish()
        loop.close()
        return os.waitstatus_to_exitcode(status)

    def logged(self) -> list[str]:
        return sorted(line.split(" ", 1)[1] for line in self.log.read_text().splitlines())


def asked(**request: object) -> bytes:
    return json.dumps(request).encode() + b"\n"


def received(client: socket.socket) -> bytes:
    """Everything until the shim hangs up."""
    with client, client.makefile("rb") as file:
        return file.read()


def test_output_is_in_the_log_to_its_last_byte_and_the_code_is_the_programs(tmp_path: Path) -> None:
    container = Container(tmp_path, "echo out; echo err >&2; printf rest; exit 3")
    assert container.run() == 3
    assert container.logged() == ["stderr F err", "stdout F out", "stdout F rest"]


def test_output_that_another_process_may_still_write_does_not_hold_the_end_back(tmp_path: Path) -> None:
    container = Container(tmp_path, "sleep 1000 & echo $!")
    assert container.run() == 0
    (line,) = container.logged()
    os.kill(int(line.split()[-1]), signal.SIGKILL)


def test_who_attaches_sees_output_and_gives_input_to_its_end(tmp_path: Path) -> None:
    container = Container(tmp_path, "cat", stdin=True)
    attached = container.client(
        asked(op="attach"), frame(io_loop.STDIN, b"hel"), frame(io_loop.STDIN, b"lo"), frame(io_loop.STDIN_END)
    )
    assert container.run() == 0
    answer = received(attached)
    assert answer.startswith(OK)
    shown = answer.removeprefix(OK)
    said = b""
    while shown:
        kind, length = io_loop.HEADER.unpack_from(shown)
        assert kind == io_loop.STDOUT
        said, shown = said + shown[5 : 5 + length], shown[5 + length :]
    assert said == b"hello"
    assert container.logged() == ["stdout F hello"]


def test_more_input_than_a_pipe_holds_arrives_whole(tmp_path: Path) -> None:
    container = Container(tmp_path, "wc -c", stdin=True)
    pieces = [frame(io_loop.STDIN, bytes(9000)) for _ in range(10)]
    attached = container.client(asked(op="attach"), *pieces, frame(io_loop.STDIN_END))
    assert container.run() == 0
    assert container.logged() == ["stdout F 90000"]
    attached.close()


@pytest.mark.parametrize(("stdin_once", "code"), [(True, 0), (False, 7)])
def test_the_first_clients_leaving_ends_the_input_only_where_the_pod_says_so(
    tmp_path: Path, stdin_once: bool, code: int
) -> None:
    """Input that goes on is ended by a second client, who sends a line more."""
    container = Container(tmp_path, "read first; read second && exit 7; exit 0", stdin=True)
    first = container.client(asked(op="attach"), frame(io_loop.STDIN, b"one\n"))
    first.shutdown(socket.SHUT_WR)
    second = container.client(asked(op="attach"), frame(io_loop.STDIN, b"two\n")) if not stdin_once else None
    assert container.run(stdin_once=stdin_once) == code
    for client in (first, *([second] if second else [])):
        client.close()


def test_a_signal_goes_to_the_program_and_is_answered(tmp_path: Path) -> None:
    container = Container(tmp_path, "exec sleep 1000")
    client = container.client(asked(op="signal", number=int(signal.SIGUSR1)))
    assert container.run() == -signal.SIGUSR1
    assert received(client) == OK


def test_a_refusal_of_the_kernel_is_the_answer(tmp_path: Path) -> None:
    container = Container(tmp_path, "exec sleep 1000")
    refused = container.client(asked(op="signal", number=999))
    ended = container.client(asked(op="signal", number=int(signal.SIGKILL)))
    assert container.run() == -signal.SIGKILL
    assert received(refused) == b'{"ok": false, "error": "Invalid argument"}\n'
    ended.close()


def test_a_log_goes_on_in_a_new_file_when_that_is_asked(tmp_path: Path) -> None:
    container = Container(tmp_path, "read word; echo after", stdin=True)
    log = LogFile(str(container.log))
    container.log.rename(tmp_path / "0.log.old")
    asking = container.client(asked(op="reopen"))
    going_on = container.client(asked(op="attach"), frame(io_loop.STDIN, b"on\n"))
    loop = IoLoop(container.program, log, container.listener, stdin_once=False)
    loop.run()
    loop.close()
    assert container.logged() == ["stdout F after"]
    assert (tmp_path / "0.log.old").read_bytes() == b""
    assert received(asking) == OK
    going_on.close()


@pytest.mark.parametrize("sent", [b"no json\n", b"{}\n", asked(op="signal")])
def test_a_client_that_breaks_the_protocol_loses_its_connection_alone(tmp_path: Path, sent: bytes) -> None:
    container = Container(tmp_path, "read word; exit 5", stdin=True)
    broken = container.client(sent)
    going_on = container.client(asked(op="attach"), frame(io_loop.STDIN, b"on\n"))
    assert container.run() == 5
    assert received(broken) == b""
    going_on.close()
