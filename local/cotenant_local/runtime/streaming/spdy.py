"""A small SPDY/3.1 server: one connection, its streams, their frames. The port-forward and remote-command peers of
Kubernetes need no more: no server push, no priorities, and no flow control (their library never enforces windows).

Frames: a control frame has the top bit set, version 3, a type, flags and a 24-bit length; a data frame has the stream's
number instead. Header blocks are compressed with zlib and a fixed dictionary, one compression stream per direction.
"""

import asyncio
import contextlib
import struct
import zlib
from collections.abc import Callable
from typing import Final

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN: Final = 1
REFUSED_STREAM: Final = 3
HEAD = struct.Struct(">II")
LENGTH = struct.Struct(">I")
CONTROL: Final = 0x80030000
MAX_DATA = 1 << 15
MAX_HEADERS = 1 << 20
QUEUE: Final = 64

WORDS = """options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age
allow authorization cache-control connection content-base content-encoding content-language content-length
content-location content-md5 content-range content-type date etag expect expires from host if-match if-modified-since
if-none-match if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate
proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning
www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin"""
VALUES = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417"
    "502504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 "
    "Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun "
    "Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,"
    "image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,"
    "sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def sized(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


DICTIONARY = b"".join(sized(word.replace("_", " ").encode()) for word in WORDS.split()) + VALUES.encode()
"""Fixed by the specification: names with their lengths, then common values run together."""


class SpdyError(Exception):
    """The peer broke the protocol; the connection ends."""


class SpdyStream:
    """One stream that the peer opened."""

    def __init__(self, connection: "SpdyConnection", number: int, headers: dict[str, str]) -> None:
        self.connection = connection
        self.number = number
        self.headers = headers
        self.closed = False
        self._received: asyncio.Queue[bytes] = asyncio.Queue(QUEUE)
        self._ending: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """Some bytes, or nothing at the end."""
        return await self._received.get()

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), MAX_DATA):
            await self.connection.send_data(self.number, data[at : at + MAX_DATA])

    async def close(self) -> None:
        """Ends this side of the stream."""
        if not self.closed:
            self.closed = True
            await self.connection.send_data(self.number, b"", FIN)

    async def deliver(self, data: bytes) -> None:
        await self._received.put(data)

    def end(self) -> None:
        """The peer will send no more. Data in the queue is read first, even if the queue is full."""
        self._ending = asyncio.ensure_future(self._received.put(b""))


class SpdyConnection:
    """Reads frames until the peer is gone; calls `opened` with each stream; a ValueError refuses it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opened: Callable[[SpdyStream], None]
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.opened = opened
        self.streams: dict[int, SpdyStream] = {}
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def run(self) -> None:
        """Returns when the peer has closed or broken the protocol; every stream has ended then."""
        try:
            while True:
                first, second = HEAD.unpack(await self.reader.readexactly(HEAD.size))
                body = await self.reader.readexactly(second & 0xFFFFFF)
                flags = second >> 24
                if first & 0x80000000:
                    await self._control(first, flags, body)
                else:
                    await self._data(first, flags, body)
        except (asyncio.IncompleteReadError, ConnectionError, SpdyError, zlib.error, struct.error):
            return
        finally:
            for stream in self.streams.values():
                stream.end()

    def forget(self, *streams: SpdyStream) -> None:
        for stream in streams:
            self.streams.pop(stream.number, None)

    async def _control(self, first: int, flags: int, body: bytes) -> None:
        if first & 0x7FFF0000 != CONTROL & 0x7FFF0000:
            raise SpdyError(f"SPDY version {first >> 16 & 0x7FFF}")
        kind = first & 0xFFFF
        if kind == SYN_STREAM:
            await self._open(flags, body)
        elif kind == RST_STREAM:
            stream = self.streams.pop(struct.unpack(">I", body[:4])[0], None)
            if stream:
                stream.closed = True
                stream.end()
        elif kind == PING and struct.unpack(">I", body[:4])[0] % 2:  # even ones would be answers to ours
            await self.send_control(PING, body)
        elif kind == GOAWAY:
            raise SpdyError("the peer goes away")

    async def _open(self, flags: int, body: bytes) -> None:
        number = struct.unpack(">I", body[:4])[0] & 0x7FFFFFFF
        stream = SpdyStream(self, number, self._headers(body[10:]))
        try:
            self.opened(stream)
        except ValueError:
            await self.send_control(RST_STREAM, struct.pack(">II", number, REFUSED_STREAM))
            return
        self.streams[number] = stream
        empty = self._deflate.compress(LENGTH.pack(0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self.send_control(SYN_REPLY, LENGTH.pack(number) + empty)
        if flags & FIN:
            stream.end()

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block, MAX_HEADERS)
        (count,), at = LENGTH.unpack_from(plain), LENGTH.size
        texts = []
        for _ in range(2 * count):
            (size,) = LENGTH.unpack_from(plain, at)
            texts.append(plain[at + LENGTH.size : at + LENGTH.size + size].decode())
            at += LENGTH.size + size
        return dict(zip(texts[::2], texts[1::2], strict=True))

    async def _data(self, number: int, flags: int, body: bytes) -> None:
        stream = self.streams.get(number)
        if stream is None:
            return  # data under way while we reset it
        if body:
            await stream.deliver(body)
        if flags & FIN:
            stream.end()

    async def send_data(self, number: int, data: bytes, flags: int = 0) -> None:
        await self._send(HEAD.pack(number, flags << 24 | len(data)) + data)

    async def send_control(self, kind: int, body: bytes, flags: int = 0) -> None:
        await self._send(HEAD.pack(CONTROL | kind, flags << 24 | len(body)) + body)

    async def _send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # the reading side notices, and ends everything
            self.writer.write(data)
            await self.writer.drain()
