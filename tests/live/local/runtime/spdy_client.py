"""The client's side of SPDY/3.1, as kubectl's library speaks it, on a blocking socket. For tests only."""

import socket
import struct
import urllib.parse
import zlib

from cotenant_local.runtime.streaming import spdy
from tests.live.local.runtime.sandbox import Kubelet

EXEC, FORWARD = "v4.channel.k8s.io", "portforward.k8s.io"


class Client:
    """Opens streams, sends data, and collects what comes back by stream."""

    def __init__(self, connection: socket.socket, path: str, protocol: str) -> None:
        self.connection = connection
        connection.settimeout(90)
        head = ["POST " + path + " HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
        head.append(f"X-Stream-Protocol-Version: {protocol}")
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            data = connection.recv(4096)
            assert data, self.buffer
            self.buffer += data
        answer, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        self.status = int(answer.split(b" ")[1])
        self.deflate = zlib.compressobj(zdict=spdy.DICTIONARY)
        self.next = 1
        self.received: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.refused: set[int] = set()

    def open(self, **headers: str) -> int:
        number, self.next = self.next, self.next + 2
        pairs = [spdy.sized(text.encode()) for pair in headers.items() for text in pair]
        plain = struct.pack(">I", len(headers)) + b"".join(pairs)
        block = self.deflate.compress(plain) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        self.control(spdy.SYN_STREAM, struct.pack(">IIH", number, 0, 0) + block)
        self.received[number] = b""
        return number

    def control(self, kind: int, body: bytes) -> None:
        self.connection.sendall(struct.pack(">II", spdy.CONTROL | kind, len(body)) + body)

    def send(self, number: int, data: bytes, *, end: bool = False) -> None:
        self.connection.sendall(struct.pack(">II", number, (spdy.FIN if end else 0) << 24 | len(data)) + data)

    def read_frame(self) -> bool:
        """One frame into `received`, `ended`, `refused`; False at the end of the connection."""
        head = self._exactly(8)
        if not head:
            return False
        first, second = struct.unpack(">II", head)
        body = self._exactly(second & 0xFFFFFF)
        if not first & 0x80000000:
            self.received[first] += body
            if second >> 24 & spdy.FIN:
                self.ended.add(first)
        elif first & 0xFFFF == spdy.RST_STREAM:
            self.refused.add(struct.unpack(">I", body[:4])[0])
        elif first & 0xFFFF == spdy.PING:
            self.received[0] = body
        return True

    def until(self, number: int, wanted: bytes = b"") -> bytes:
        """Reads until the stream ended, or until it has said `wanted`."""
        while number not in self.ended and not (wanted and wanted in self.received[number]):
            if not self.read_frame():
                break
        return self.received[number]

    def _exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            data = self.connection.recv(65536)
            if not data:
                return b""
            self.buffer += data
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data


def visit(node: Kubelet, url: str, protocol: str) -> Client:
    parts = urllib.parse.urlsplit(url)
    return Client(node.connect(parts.port or 80), parts.path, protocol)
