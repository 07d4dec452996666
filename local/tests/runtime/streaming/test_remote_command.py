"""Exec, attach and port-forward as kubectl and the Python client reach them, as root and as an ordinary user."""

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import pytest

from cotenant_local.runtime.containers import exec_sessions
from cotenant_local.runtime.containers.exec_sessions import ExecSession
from cotenant_local.runtime.inside import io_loop
from cotenant_local.runtime.shim.zygote_client import LaunchError
from cotenant_local.runtime.streaming import remote_command
from cotenant_local.runtime.streaming.channels import Event
from local.tests.runtime.cri_messages import Message


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
