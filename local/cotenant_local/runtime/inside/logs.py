"""A container's log in the format of the kubelet: `<RFC 3339 time> <stream> <F|P> <content>`, one line each.

A line longer than 16 KiB is written in parts (P), the last one F. The kubelet rotates: it renames and asks to reopen.
"""

import os
import time
from typing import Final

LINE_LIMIT_BYTES: Final = 16384


def stamp(now: int) -> str:
    """Nanoseconds since the epoch as RFC 3339 with nine digits."""
    seconds, rest = divmod(now, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


class LogFile:
    """Splits two streams into lines; keeps an unfinished line of each."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1
        self.rest: dict[str, bytes] = {}
        self.reopen()

    def reopen(self) -> None:
        if not self.path:
            return
        fresh = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = fresh

    def write(self, stream: str, data: bytes) -> None:
        if self.fd < 0:
            return
        data = self.rest.pop(stream, b"") + data
        head = f"{stamp(time.time_ns())} {stream} ".encode()
        *lines, rest = data.split(b"\n")
        out = bytearray()
        for line in lines:
            last = max(0, len(line) - 1) // LINE_LIMIT_BYTES * LINE_LIMIT_BYTES
            for at in range(0, last, LINE_LIMIT_BYTES):
                out += head + b"P " + line[at : at + LINE_LIMIT_BYTES] + b"\n"
            out += head + b"F " + line[last:] + b"\n"
        while len(rest) > LINE_LIMIT_BYTES:
            out += head + b"P " + rest[:LINE_LIMIT_BYTES] + b"\n"
            rest = rest[LINE_LIMIT_BYTES:]
        if rest:
            self.rest[stream] = rest
        self._append(bytes(out))

    def finish(self) -> None:
        """Writes the last line of a program, which often has no newline, as a full line."""
        for stream in list(self.rest):
            self.write(stream, b"\n")

    def _append(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self.fd, data) :]
            except OSError:
                return  # a full disk loses log lines; it must not stop or kill the container
