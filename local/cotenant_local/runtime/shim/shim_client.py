"""The runtime's side of a shim's control socket: one request per connection, or a watch that lasts until the end."""

import asyncio
from pathlib import Path
from typing import Any

from cotenant_local.host import json_lines
from cotenant_local.host.json_lines import JsonLines


class ShimError(Exception):
    """The shim refused the request, or is gone."""


async def connect(folder: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(str(folder / "ctl.sock"))


async def request(folder: Path, **message: Any) -> None:
    """One request, one answer; raises ShimError."""
    try:
        reader, writer = await connect(folder)
    except OSError as error:
        raise ShimError(f"the container's shim is gone: {error.strerror}") from error
    peer = JsonLines(reader, writer)
    try:
        peer.send(**message)
        answer = await peer.receive()
    finally:
        writer.close()
    if answer is None:
        raise ShimError("the container has ended")
    if not answer["ok"]:
        raise ShimError(answer["error"])


async def attach(folder: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which both sides send frames from now on."""
    reader, writer = await connect(folder)
    writer.write(json_lines.encode(op="attach"))
    await reader.readline()
    return reader, writer


async def wait_ended(folder: Path) -> None:
    """Returns when the shim is gone; its record, if it wrote one, is then complete."""
    try:
        reader, writer = await connect(folder)
    except OSError:
        return
    try:
        writer.write(json_lines.encode(op="watch"))
        while await reader.read(4096):
            pass
    except ConnectionError:
        return
    finally:
        writer.close()
