"""One `GET /progress` of a worker pod: at its own address, within limits of time and size.

A usual HTTP client does more than is safe with a tenant's process: it follows redirects, unpacks compressed bodies,
uses proxies of its environment, and keeps unlimited header lines. This one sends HTTP/1.0, reads one answer with status
200, and closes.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from cotenant.contract.decoding.bounded_json import Malformed

DEADLINE_S: Final = 2.0
"""Deadline of the whole request, from the first packet to the last."""
HEAD_BYTES_MAX: Final = 16 << 10
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: |\r)")
_HEADER: Final = re.compile(rb"\r\n(content-length|content-encoding|transfer-encoding):[ \t]*([^\r\n]{0,64})", re.I)


async def get_progress(host: str, port: int, *, bytes_max: int) -> bytes | Malformed | None:
    """Body of the answer; None if it is refused or does not come in time. `host` is a literal address."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection(host, port, limit=HEAD_BYTES_MAX)
            try:
                writer.write(_request(host))
                return await read_answer(reader, bytes_max)
            finally:
                writer.transport.abort()
    except (TimeoutError, OSError, asyncio.IncompleteReadError):
        return None
    except asyncio.LimitOverrunError:
        return Malformed(f"has a header of more than {HEAD_BYTES_MAX} bytes")


def _request(host: str) -> bytes:
    shown = f"[{host}]" if ":" in host else host
    return f"GET /progress HTTP/1.0\r\nHost: {shown}\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n".encode()


async def read_answer(reader: asyncio.StreamReader, bytes_max: int) -> bytes | Malformed | None:
    """Body of the answer. Raises IncompleteReadError if the other end closes too early."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = _STATUS_LINE.match(head)
    if status is None:
        return Malformed("is not HTTP")
    if status[1].startswith(b"3"):
        return Malformed("is a redirect, which is not followed")
    if status[1] != b"200":
        return None
    headers = {name.lower(): value.strip() for name, value in _HEADER.findall(head)}
    if headers.get(b"content-encoding", b"identity").lower() != b"identity" or b"transfer-encoding" in headers:
        return Malformed("is compressed or in chunks, which was not asked for")
    length = headers.get(b"content-length")
    if length is None:
        return await _until_end(reader, bytes_max)
    if not length.isdigit() or len(length) > 9 or int(length) > bytes_max:
        return Malformed(f"is longer than {bytes_max} bytes")
    return await reader.readexactly(int(length))


async def _until_end(reader: asyncio.StreamReader, bytes_max: int) -> bytes | Malformed:
    body = bytearray()
    while chunk := await reader.read(HEAD_BYTES_MAX):
        body += chunk
        if len(body) > bytes_max:
            return Malformed(f"is longer than {bytes_max} bytes")
    return bytes(body)
