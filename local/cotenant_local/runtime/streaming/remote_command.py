"""Exec and attach: moves bytes between a client's channels and a program, and ends with its status."""

import asyncio
import contextlib
import json
import os
from collections.abc import Coroutine
from typing import Any, Final

from cotenant_local.runtime.containers import exec_sessions
from cotenant_local.runtime.containers.container import Container
from cotenant_local.runtime.containers.exec_sessions import ExecSession
from cotenant_local.runtime.inside import io_loop
from cotenant_local.runtime.shim import shim_client
from cotenant_local.runtime.shim.zygote_client import LaunchError, ZygoteClient
from cotenant_local.runtime.streaming.channels import Channels

SUCCESS: dict[str, Any] = {"metadata": {}, "status": "Success"}
CHUNK_BYTES: Final = 1 << 15


def failure(message: str) -> dict[str, Any]:
    return {"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500, "message": message}


def exited(code: int) -> dict[str, Any]:
    """The status of a program's end; kubectl exits with the code in it."""
    if code == 0:
        return SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def run_exec(
    channels: Channels, zygote: ZygoteClient, container: Container, command: list[str], *, stdin: bool, tty: bool
) -> None:
    """One exec session, to the program's end or the client's."""
    try:
        session = await exec_sessions.start(zygote, container, command, stdin=stdin, tty=tty)
    except (LaunchError, OSError) as error:
        # runc's codes: a shell script that asks for a missing program sees 127, as from a shell
        message = str(error)
        missing = "not found" in message or "no such file" in message.lower()
        await channels.send("stderr" if not tty else "stdout", f"error: {message}\r\n".encode())
        await channels.finish(exited(127 if missing else 126))
        return
    assert session.code is not None
    outputs = [_copy(channels, stream, fd, session.code) for stream, fd in session.outputs.items()]
    ending = asyncio.create_task(_ended(outputs, session.code))
    client = asyncio.create_task(_listen(channels, session))
    try:
        done, _ = await asyncio.wait([client, ending], return_when=asyncio.FIRST_COMPLETED)
        if ending not in done:
            return  # the client is gone: closing kills the program
        code = await ending
        client.cancel()
        await channels.finish(exited(code))
    except LaunchError as error:
        await channels.finish(failure(str(error)))
    finally:
        client.cancel()
        ending.cancel()
        session.close()


async def _ended(outputs: list[Coroutine[None, None, None]], code: asyncio.Task[int]) -> int:
    """The program's exit code, when all of its output has been sent."""
    await asyncio.gather(*outputs)
    return await asyncio.shield(code)


async def _copy(channels: Channels, stream: str, fd: int, ended: asyncio.Task[int]) -> None:
    """Sends everything that the program has written. Owns `fd`.

    It does not wait for the pipe's end, because a background process may hold it. Once the program has ended,
    all its output is in the pipe, so an empty pipe is the end.
    """
    loop, something = asyncio.get_running_loop(), asyncio.Event()
    os.set_blocking(fd, False)
    ended.add_done_callback(lambda _: something.set())
    try:
        while True:
            over = ended.done()
            something.clear()
            try:
                data = os.read(fd, CHUNK_BYTES)
            except BlockingIOError:
                if over:
                    return
                loop.add_reader(fd, something.set)  # only now: what is not read yet would wake the loop all the time
                await something.wait()
                loop.remove_reader(fd)
                continue
            except OSError:  # a terminal ends with EIO
                return
            if not data:
                return
            await channels.send(stream, data)
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def _listen(channels: Channels, session: ExecSession) -> None:
    """The client's input until it is gone."""
    writer = await _writer(session.stdin) if session.stdin >= 0 else None
    try:
        while event := await channels.receive():
            kind, data = event
            if kind == "resize":
                _resize(session, data)
            elif writer is not None and not data:
                writer.close()
                writer = None
            elif writer is not None:
                writer.write(data)
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
    finally:
        if writer is not None:
            writer.close()


async def _writer(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(fd, "wb", 0))
    return asyncio.StreamWriter(transport, protocol, None, loop)


def terminal_size(data: bytes) -> tuple[int, int] | None:
    """Rows and columns of a resize message; None when it is not one."""
    try:
        size = json.loads(data)
        return int(size["Height"]), int(size["Width"])
    except (ValueError, KeyError, TypeError):
        return None


def _resize(session: ExecSession, data: bytes) -> None:
    if size := terminal_size(data):
        session.resize(*size)


async def run_attach(channels: Channels, container: Container, *, stdin: bool) -> None:
    """One attach session, until the container ends or the client leaves."""
    try:
        reader, writer = await shim_client.attach(container.folder)
    except OSError as error:
        await channels.finish(failure(f"the container is not running: {error.strerror}"))
        return
    client = asyncio.create_task(_forward(channels, writer, stdin=stdin))
    output = asyncio.create_task(_show(channels, reader))
    try:
        done, _ = await asyncio.wait([client, output], return_when=asyncio.FIRST_COMPLETED)
        if output in done:
            client.cancel()
            await channels.finish(SUCCESS)
    finally:
        client.cancel()
        output.cancel()
        writer.close()


async def _forward(channels: Channels, writer: asyncio.StreamWriter, *, stdin: bool) -> None:
    while event := await channels.receive():
        kind, data = event
        if kind == "resize":
            if size := terminal_size(data):
                writer.write(io_loop.frame(io_loop.RESIZE, io_loop.SIZE.pack(*size)))
        elif stdin:
            writer.write(io_loop.frame(io_loop.STDIN, data) if data else io_loop.frame(io_loop.STDIN_END))
        with contextlib.suppress(ConnectionError):
            await writer.drain()


async def _show(channels: Channels, reader: asyncio.StreamReader) -> None:
    names = {io_loop.STDOUT: "stdout", io_loop.STDERR: "stderr"}
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            kind, length = io_loop.HEADER.unpack(await reader.readexactly(io_loop.HEADER.size))
            await channels.send(names[kind], await reader.readexactly(length))
