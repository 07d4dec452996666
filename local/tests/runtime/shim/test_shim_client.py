"""The runtime's side of a shim's socket, against a shim that is only played."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.runtime.shim import shim_client
from cotenant_local.runtime.shim.shim_client import ShimError


@contextlib.asynccontextmanager
async def shim(folder: Path, answer: bytes) -> AsyncIterator[list[dict[str, Any]]]:
    """One that sends this answer to whatever it is asked, and then hangs up."""
    asked: list[dict[str, Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(json.loads(await reader.readline()))
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(serve, str(folder / "ctl.sock")):
        yield asked


async def test_a_request_that_is_granted_returns(tmp_path: Path) -> None:
    async with shim(tmp_path, b'{"ok": true}\n') as asked:
        await shim_client.request(tmp_path, op="signal", number=15)
    assert asked == [{"op": "signal", "number": 15}]


@pytest.mark.parametrize(
    ("answer", "message"),
    [(b'{"ok": false, "error": "no such op"}\n', "no such op"), (b"", "the container has ended")],
    ids=["refused", "it ends meanwhile"],
)
async def test_a_request_that_is_not_is_an_error_with_the_shims_words(
    tmp_path: Path, answer: bytes, message: str
) -> None:
    async with shim(tmp_path, answer):
        with pytest.raises(ShimError, match=message):
            await shim_client.request(tmp_path, op="signal")


async def test_a_shim_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ShimError, match="the container's shim is gone: No such file or directory"):
        await shim_client.request(tmp_path, op="reopen")


async def test_its_end_is_waited_for_and_has_come_where_there_is_none(tmp_path: Path) -> None:
    await shim_client.wait_ended(tmp_path)
    async with shim(tmp_path, b"still here\n") as asked:
        await shim_client.wait_ended(tmp_path)
    assert asked == [{"op": "watch"}]
