"""Exec, attach and port-forward as kubectl and the Python client reach them, as root and as an ordinary user."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any, cast

import pytest

from cotenant_local.runtime.containers import exec_sessions
from cotenant_local.runtime.containers.exec_sessions import ExecSession
from cotenant_local.runtime.inside import io_loop
from cotenant_local.runtime.interface import proto
from cotenant_local.runtime.shim.zygote_client import LaunchError
from cotenant_local.runtime.streaming import remote_command
from cotenant_local.runtime.streaming.channels import Event
from tests.local.runtime.cri_messages import Message
from tests.local.runtime.sandbox import Kubelet, wait_for
from tests.local.runtime.spdy_client import EXEC, Client, visit


def execute(node: Kubelet, container: str, *command: str, stdin: bool = False, tty: bool = False) -> Client:
    request = proto.pb.ExecRequest(
        container_id=container, cmd=command, stdin=stdin, tty=tty, stdout=True, stderr=not tty
    )
    return visit(node, node.runtime.Exec(request).url, EXEC)


@pytest.mark.sandbox
def test_exec_carries_three_streams_and_the_exit_code(node: Kubelet, shell: str) -> None:
    client = execute(node, shell, "/bin/sh", "-c", "cat; echo problem >&2; exit 3", stdin=True)
    error, stdin = client.open(streamtype="error"), client.open(streamtype="stdin")
    stdout, stderr = client.open(streamtype="stdout"), client.open(streamtype="stderr")
    client.send(stdin, b"hello ")
    client.send(stdin, b"there", end=True)
    assert client.until(stdout) == b"hello there"
    assert client.until(stderr) == b"problem\n"
    status = json.loads(client.until(error))
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert not client.read_frame()  # the server hangs up


@pytest.mark.sandbox
def test_exec_of_a_success_and_of_a_missing_program(node: Kubelet, shell: str) -> None:
    for command, want in (("true", "Success"), ("no-such", "Failure")):
        client = execute(node, shell, command)
        error, _, stderr = (client.open(streamtype=kind) for kind in ("error", "stdout", "stderr"))
        assert json.loads(client.until(error))["status"] == want
        assert (b'exec: "no-such": executable file not found' in client.until(stderr)) == (want == "Failure")


@pytest.mark.sandbox
def test_a_terminal_has_the_size_that_the_client_says(node: Kubelet, shell: str) -> None:
    script = "trap 'stty size' WINCH; stty size; echo ready; while :; do sleep 0.05; done"
    client = execute(node, shell, "/bin/sh", "-c", script, stdin=True, tty=True)
    kinds = ("error", "stdin", "stdout", "resize")
    _, stdin, stdout, resize = (client.open(streamtype=kind) for kind in kinds)
    client.until(stdout, b"ready")
    client.send(resize, b'{"Width":91,"Height":37}\n')
    client.until(stdout, b"37 91")
    client.send(stdin, b"\x03")  # Ctrl-C comes through the terminal as a signal
    assert b"^C" in client.until(stdout)


@pytest.mark.sandbox
def test_a_client_that_leaves_takes_its_program_with_it(node: Kubelet, shell: str) -> None:
    client = execute(node, shell, "sleep", "7777")
    for kind in ("error", "stdout", "stderr"):
        client.open(streamtype=kind)
    count = ("pgrep", "-c", "-f", "^sleep 7777")
    wait_for(lambda: node.execute(shell, *count).stdout == b"1\n", "the program to run")
    client.connection.close()
    wait_for(lambda: node.execute(shell, *count).stdout == b"0\n", "the program to end")


@pytest.mark.sandbox
def test_much_output_arrives_whole(node: Kubelet, shell: str) -> None:
    client = execute(node, shell, "/bin/sh", "-c", "head -c 5000000 /dev/zero")
    _, stdout, _ = (client.open(streamtype=kind) for kind in ("error", "stdout", "stderr"))
    assert len(client.until(stdout)) == 5_000_000


@pytest.mark.sandbox
def test_an_address_is_good_once_and_for_one_thing(node: Kubelet, shell: str) -> None:
    request = proto.pb.ExecRequest(container_id=shell, cmd=["true"], stdout=True)
    url = node.runtime.Exec(request).url
    assert visit(node, url.replace("/exec/", "/attach/"), EXEC).status == 404
    url = node.runtime.Exec(request).url
    assert visit(node, url, EXEC).status == 101
    assert visit(node, url, EXEC).status == 404
    assert visit(node, node.runtime.Exec(request).url, "v9.channel.k8s.io").status == 403


@pytest.mark.sandbox
def test_attach_shows_what_comes_and_gives_input_to_the_program(node: Kubelet) -> None:
    pod = node.pod("attach")
    script = "while read line; do echo got $line; done; echo end"
    container = node.start(pod, "/bin/sh", "-c", script, stdin=True, stdin_once=True)
    asked = proto.pb.AttachRequest(container_id=container, stdin=True, stdout=True, stderr=True)
    client = visit(node, node.runtime.Attach(asked).url, EXEC)
    error, stdin = client.open(streamtype="error"), client.open(streamtype="stdin")
    stdout, _ = client.open(streamtype="stdout"), client.open(streamtype="stderr")
    client.send(stdin, b"one\n")
    client.until(stdout, b"got one\n")
    client.send(stdin, b"two\n", end=True)
    assert client.until(stdout) == b"got one\ngot two\nend\n"
    assert json.loads(client.until(error))["status"] == "Success"
    assert node.finish(container).exit_code == 0
    assert [line.split(" ", 3)[3] for line in node.log(container)] == ["got one", "got two", "end"]


@pytest.mark.sandbox
def test_attach_to_a_terminal_shares_it_and_leaving_does_not_end_the_program(node: Kubelet) -> None:
    pod = node.pod("terminal")
    # Size and input come by different streams: the program waits until it has the size that the input names.
    script = (
        'stty -echo; while read size; do until [ "$(stty size)" = "$size" ]; do sleep 0.05; done; echo "<$size>"; done'
    )
    container = node.start(pod, "/bin/sh", "-c", script, stdin=True, tty=True)
    asked = proto.pb.AttachRequest(container_id=container, stdin=True, stdout=True, tty=True)
    for columns in (80, 101):
        client = visit(node, node.runtime.Attach(asked).url, EXEC)
        kinds = ("error", "stdin", "stdout", "resize")
        _, stdin, stdout, resize = (client.open(streamtype=kind) for kind in kinds)
        client.send(resize, json.dumps({"Width": columns, "Height": 24}).encode())
        client.send(stdin, f"24 {columns}\n".encode())
        client.until(stdout, f"<24 {columns}>".encode())
        client.connection.close()
    assert node.status(container).state == proto.pb.CONTAINER_RUNNING
    node.stop(container)


class PlayedClient:
    """A client whose input is given, and who keeps what comes."""

    def __init__(self, *events: Event) -> None:
        self.events = list(events)
        self.sent: list[Event] = []
        self.status: dict[str, Any] = {}

    async def receive(self) -> Event | None:
        return self.events.pop(0) if self.events else None

    async def send(self, stream: str, data: bytes) -> None:
        self.sent.append((stream, data))

    async def finish(self, status: dict[str, Any]) -> None:
        self.status = status


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b'{"Width":91,"Height":37}\n', (37, 91)),
        (b'{"Width":"91","Height":"37"}', (37, 91)),
        (b'{"Width":91}', None),
        (b"[]", None),
        (b"\xff", None),
    ],
)
def test_a_size_is_rows_and_columns_and_what_is_none_is_left_out(data: bytes, size: tuple[int, int] | None) -> None:
    assert remote_command.terminal_size(data) == size


def test_the_status_of_an_end_has_the_code_that_kubectl_exits_with() -> None:
    assert remote_command.exited(0) == {"metadata": {}, "status": "Success"}
    assert remote_command.exited(3) == {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": "command terminated with non-zero exit code: exit status 3",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        ('exec: "x": executable file not found in $PATH (/bin)', 127),
        ('exec: "/x": No such file or directory', 127),
        ('exec: "/x": permission denied', 126),
    ],
)
@pytest.mark.parametrize("tty", [True, False])
async def test_a_program_that_cannot_run_has_the_code_of_a_shell(
    problem: str, code: int, tty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise LaunchError(problem)

    monkeypatch.setattr(exec_sessions, "start", refuse)
    client, nothing = PlayedClient(), cast(Any, None)
    await remote_command.run_exec(client, nothing, nothing, ["x"], stdin=False, tty=tty)
    assert client.sent == [("stdout" if tty else "stderr", f"error: {problem}\r\n".encode())]
    assert client.status == remote_command.exited(code)


class PlayedSession(ExecSession):
    """A program that ends with `code`, or goes on where there is none."""

    def __init__(self, code: int | None, output: bytes = b"") -> None:
        super().__init__(-1, cast(Any, None))
        self.closed = False
        self.sizes: list[tuple[int, int]] = []
        read, write = os.pipe()
        os.write(write, output)
        os.close(write)
        self.outputs = {"stdout": read}
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if code is not None:
            ended.set_result(code)

        async def wait() -> int:
            return await ended

        self.code = asyncio.create_task(wait())

    def resize(self, rows: int, columns: int) -> None:
        self.sizes.append((rows, columns))

    def close(self) -> None:
        self.closed = True


async def executed(client: PlayedClient, session: PlayedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(*_: object, **__: object) -> ExecSession:
        return session

    monkeypatch.setattr(exec_sessions, "start", start)
    nothing = cast(Any, None)
    await remote_command.run_exec(client, nothing, nothing, ["x"], stdin=False, tty=False)


class Patient(PlayedClient):
    """A client that stays until the session is over."""

    async def receive(self) -> Event | None:
        if self.events:
            return self.events.pop(0)
        await asyncio.Event().wait()
        return None


async def test_a_session_ends_with_the_program_and_all_of_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    client, session = Patient(("resize", b'{"Width":91,"Height":37}')), PlayedSession(3, b"out")
    await executed(client, session, monkeypatch)
    assert (client.sent, client.status) == ([("stdout", b"out")], remote_command.exited(3))
    assert session.closed


class Slow(Patient):
    """A client, or a runtime on a busy machine, that takes ten seconds for each piece."""

    async def send(self, stream: str, data: bytes) -> None:
        await asyncio.sleep(10)
        await super().send(stream, data)


@pytest.mark.looptime
async def test_output_is_whole_however_slowly_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    client, written = Slow(), b"x" * 60_000
    await executed(client, PlayedSession(0, written), monkeypatch)
    assert (b"".join(data for _, data in client.sent), client.status) == (written, remote_command.SUCCESS)


async def test_what_a_program_leaves_in_the_background_does_not_keep_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, session = Patient(), PlayedSession(0)
    reader, held = os.pipe()
    os.write(held, b"before the end")
    session.outputs["stderr"] = reader
    await executed(client, session, monkeypatch)
    os.close(held)
    assert (client.sent, client.status) == ([("stderr", b"before the end")], remote_command.SUCCESS)


async def test_a_client_that_is_gone_ends_the_session_without_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    client, session = PlayedClient(("resize", b'{"Width":91,"Height":37}'), ("resize", b"?")), PlayedSession(None)
    await executed(client, session, monkeypatch)
    assert (client.status, session.sizes, session.closed) == ({}, [(37, 91)], True)
    assert session.code is not None
    session.code.cancel()


async def test_nobody_attaches_to_a_container_that_has_ended(tmp_path: Path) -> None:
    client, container = PlayedClient(), cast(Any, Message(folder=tmp_path))
    await remote_command.run_attach(client, container, stdin=True)
    assert client.status == remote_command.failure("the container is not running: No such file or directory")


async def test_attached_input_goes_to_the_shim_in_frames_and_its_output_to_the_client(tmp_path: Path) -> None:
    arrived = asyncio.get_running_loop().create_future()

    async def shim(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"ok": true}\n')
        frames = [io_loop.frame(io_loop.STDIN, b"in"), io_loop.frame(io_loop.RESIZE, b"\x00\x25\x00\x5b")]
        want = b'{"op": "attach"}\n' + b"".join([*frames, io_loop.frame(io_loop.STDIN_END)])
        arrived.set_result((await reader.readexactly(len(want)), want))
        writer.write(io_loop.frame(io_loop.STDERR, b"err") + io_loop.frame(io_loop.STDOUT, b"out"))
        writer.close()

    server = await asyncio.start_unix_server(shim, tmp_path / "ctl.sock")
    client = Patient(("stdin", b"in"), ("resize", b'{"Width":91,"Height":37}'), ("stdin", b""))
    await remote_command.run_attach(client, cast(Any, Message(folder=tmp_path)), stdin=True)
    server.close()
    got, want = await arrived
    assert got == want
    assert (client.sent, client.status) == ([("stderr", b"err"), ("stdout", b"out")], remote_command.SUCCESS)
