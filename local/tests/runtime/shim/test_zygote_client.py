"""What a forked child reports first, over a real pipe; and the zygote that is started again when it died."""

import asyncio
import os
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_local.runtime.shim import pipes
from cotenant_local.runtime.shim.zygote_client import LaunchError, ZygoteClient, read_report


async def reported(line: bytes) -> dict[str, Any]:
    mine, theirs = os.pipe()
    os.write(theirs, line)
    os.close(theirs)
    async with pipes.reading(mine) as reader:
        return await read_report(reader)


async def test_a_child_reports_its_process() -> None:
    assert await reported(b'{"pid": 42}\n') == {"pid": 42}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"error": "mount /data: Permission denied"}\n', "mount /data: Permission denied"),
        (b"", "the process ended before it said why"),
        (b'{"pid": 4', "the process ended before it said why"),
    ],
    ids=["an error", "nothing", "half of a line"],
)
async def test_a_child_that_did_not_start_is_an_error_with_its_own_words(line: bytes, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        await reported(line)


async def test_reading_closes_the_pipe_also_where_the_reader_fails() -> None:
    mine, theirs = os.pipe()
    with pytest.raises(KeyError):
        async with pipes.reading(mine):
            raise KeyError
    await asyncio.sleep(0)
    with pytest.raises(BrokenPipeError):
        os.write(theirs, b"x")
    os.close(theirs)


@pytest.mark.parametrize(("code", "starts"), [(None, 0), (1, 1)], ids=["it runs", "it died"])
def test_a_request_starts_the_zygote_again_only_where_it_died(
    code: int | None, starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr("socket.send_fds", lambda *request: sent.append(request))
    client = ZygoteClient()
    client.process, client.requests = SimpleNamespace(poll=lambda: code), "socket"  # type: ignore[assignment]
    begun: list[int] = []
    monkeypatch.setattr(ZygoteClient, "start", lambda self: begun.append(1))
    client.send({"run": "true"}, [7])
    assert (len(begun), sent) == (starts, [("socket", [b'{"run": "true"}'], [7])])
