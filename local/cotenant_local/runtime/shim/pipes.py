"""The read end of a pipe as a stream of asyncio: output of programs, reports of forked children."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator


async def open_reader(fd: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """Owns `fd` from now on: closing the transport closes it."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(fd, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    return reader, transport


@contextlib.asynccontextmanager
async def reading(fd: int) -> AsyncIterator[asyncio.StreamReader]:
    """The stream; closes `fd` at the end."""
    reader, transport = await open_reader(fd)
    try:
        yield reader
    finally:
        transport.close()
