"""The runtime's side of a shim's control socket: one request per connection, or a watch that lasts until the end."""

import asyncio
import json
from pathlib import Path
from typing import Any


class ShimError(Exception):
    """The shim refused or is gone."""


async def connect(folder: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(str(folder / "ctl.sock"))


async def request(folder: Path, **request: Any) -> None:
    """One request, one answer."""
    try:
        reader, writer = await connect(folder)
    except OSError as error:
        raise ShimError(f"the container's shim is gone: {error.strerror}") from error
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        answer = json.loads(await reader.readline() or b'{"ok": false, "error": "the container has ended"}')
    except ConnectionError as error:
        raise ShimError("the container has ended") from error
    finally:
        writer.close()
    if not answer["ok"]:
        raise ShimError(answer["error"])


async def attach(folder: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which both sides send frames from now on."""
    reader, writer = await connect(folder)
    writer.write(b'{"op": "attach"}\n')
    await reader.readline()
    return reader, writer


async def wait_ended(folder: Path) -> None:
    """Returns when the shim is gone; its record, if it wrote one, is then complete."""
    try:
        reader, writer = await connect(folder)
    except OSError:
        return
    try:
        writer.write(b'{"op": "watch"}\n')
        while await reader.read(4096):
            pass
    except ConnectionError:
        return
    finally:
        writer.close()
