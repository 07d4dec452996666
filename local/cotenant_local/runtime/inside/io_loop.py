"""The shim's loop: copies output to the log and to attached clients, input to the program, answers on `ctl.sock`.

A client sends one JSON line: {"op": "watch" | "signal" | "reopen" | "attach" | "resize"}. `watch` stays open until the
container has ended and its record is written. After `attach` both sides send frames: kind (1 byte), length (4), data.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
from typing import Any, Final

from cotenant_local.runtime.inside import reports
from cotenant_local.runtime.inside.logs import LogFile
from cotenant_local.runtime.inside.start import StartedProgram

STDIN, STDOUT, STDERR, STDIN_END, RESIZE = range(5)
HEADER = struct.Struct(">BI")
SIZE = struct.Struct(">HH")
KINDS = {"stdout": STDOUT, "stderr": STDERR}
CHUNK_BYTES = 1 << 16
TIOCSWINSZ: Final = 0x5414


def frame(kind: int, data: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(data)) + data


def resize(terminal: int, rows: int, columns: int) -> None:
    with contextlib.suppress(OSError):  # the program may be gone
        fcntl.ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class IoLoop:
    """Serves one program until it ends."""

    def __init__(self, program: StartedProgram, log: LogFile, listener: socket.socket, *, stdin_once: bool) -> None:
        self.program = program
        self.pidfd = os.pidfd_open(program.pid)
        self.log = log
        self.listener = listener
        self.stdin_once = stdin_once
        self.poll = select.poll()
        self.clients: dict[int, socket.socket] = {}
        self.waiting: dict[int, bytes] = {}  # bytes of clients that are not a whole message yet
        self.attached: set[int] = set()
        self.pending = bytearray()  # input that the program has not taken yet
        self.stdin_ends = False

    def run(self) -> int:
        """Returns the wait status; clients that watch stay connected until the process exits."""
        end = self.pidfd
        for fd in (end, self.listener.fileno(), *self.program.outputs):
            self.poll.register(fd, select.POLLIN)
        if self.program.stdin >= 0:
            os.set_blocking(self.program.stdin, False)
        while True:
            for fd, events in self.poll.poll():
                if fd == end:
                    self._drain()
                    return os.waitpid(self.program.pid, 0)[1]
                self._handle(fd, events)

    def close(self) -> None:
        self.listener.close()
        for client in self.clients.values():
            client.close()

    def _handle(self, fd: int, events: int) -> None:
        if fd == self.listener.fileno():
            client, _ = self.listener.accept()
            client.settimeout(10)
            self.clients[client.fileno()] = client
            self.poll.register(client, select.POLLIN)
        elif fd in self.clients:
            self._read_client(fd)
        elif fd == self.program.stdin and events & (select.POLLOUT | select.POLLERR):
            self._write_stdin()
        if fd in self.program.outputs and events & (select.POLLIN | select.POLLHUP):
            self._read_output(fd)

    def _read_output(self, fd: int) -> bool:
        try:
            data = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # a terminal whose other side is closed
            data = b""
        if not data:
            self._forget_output(fd)
            return False
        stream = self.program.outputs[fd]
        self.log.write(stream, data)
        for client in list(self.attached):
            self._send(client, frame(KINDS[stream], data))
        return True

    def _forget_output(self, fd: int) -> None:
        self.poll.unregister(fd)
        del self.program.outputs[fd]
        if fd != self.program.terminal:
            os.close(fd)

    def _drain(self) -> None:
        """Reads what the program wrote before it ended. Does not wait for the pipe's end: others may hold it."""
        for fd in list(self.program.outputs):
            os.set_blocking(fd, False)
            while fd in self.program.outputs and self._read_output(fd):
                pass

    def _send(self, fd: int, data: bytes) -> None:
        try:
            self.clients[fd].sendall(data)
        except OSError:  # gone, or not reading for ten seconds
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        self.poll.unregister(fd)
        self.clients.pop(fd).close()
        self.waiting.pop(fd, None)
        if fd in self.attached:
            self.attached.discard(fd)
            self._end_stdin()

    def _read_client(self, fd: int) -> None:
        try:
            data = self.clients[fd].recv(CHUNK_BYTES)
        except OSError:
            data = b""
        if not data:
            self._drop(fd)
            return
        buffer = self.waiting.pop(fd, b"") + data
        try:
            self._parse(fd, buffer)
        except (ValueError, KeyError, struct.error):  # a client that breaks the protocol loses its connection, no more
            if fd in self.clients:
                self._drop(fd)

    def _parse(self, fd: int, buffer: bytes) -> None:
        if fd in self.attached:
            self._read_frames(fd, buffer)
            return
        line, newline, rest = buffer.partition(b"\n")
        if not newline:
            self.waiting[fd] = buffer
            return
        self._answer(fd, json.loads(line))
        if fd in self.attached and rest:
            self._read_frames(fd, rest)

    def _answer(self, fd: int, request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"ok": True}
        try:
            match request["op"]:
                case "signal":
                    signal.pidfd_send_signal(self.pidfd, request["number"])
                case "reopen":
                    self.log.reopen()
                case "resize" if self.program.terminal >= 0:
                    resize(self.program.terminal, request["rows"], request["columns"])
                case "attach":
                    self.attached.add(fd)
        except OSError as error:
            answer = {"ok": False, "error": error.strerror}
        self._send(fd, reports.encode(**answer))

    def _read_frames(self, fd: int, buffer: bytes) -> None:
        while len(buffer) >= HEADER.size:
            kind, length = HEADER.unpack_from(buffer)
            if len(buffer) < HEADER.size + length:
                break
            data, buffer = buffer[HEADER.size : HEADER.size + length], buffer[HEADER.size + length :]
            if kind == STDIN and self.program.stdin >= 0:
                self.pending += data
                self._write_stdin()
            elif kind == STDIN_END:
                self._end_stdin()
            elif kind == RESIZE and self.program.terminal >= 0:
                resize(self.program.terminal, *SIZE.unpack(data))
        if buffer:
            self.waiting[fd] = buffer

    def _end_stdin(self) -> None:
        """A pod's `stdinOnce`: the first client's end of input is the program's."""
        if self.stdin_once and self.program.stdin >= 0:
            self.stdin_ends = True
            self._write_stdin()

    def _write_stdin(self) -> None:
        """Writes what the program takes now; while some is left, clients wait."""
        fd = self.program.stdin
        if fd < 0:
            return
        try:
            while self.pending:
                del self.pending[: os.write(fd, self.pending)]
        except BlockingIOError:
            pass
        except OSError:
            self.pending.clear()
            self.stdin_ends = True
        shared = fd in self.program.outputs  # a terminal is one descriptor for both ways
        if self.pending or shared:
            waits = select.POLLOUT if self.pending else 0
            self.poll.register(fd, waits | (select.POLLIN if shared else 0))
        elif not shared:
            self._unregister(fd)
        for client in self.attached:
            self.poll.register(self.clients[client], 0 if self.pending else select.POLLIN)
        if self.stdin_ends and not self.pending:
            self._close_stdin(shared=shared)

    def _unregister(self, fd: int) -> None:
        try:
            self.poll.unregister(fd)
        except KeyError:
            return

    def _close_stdin(self, *, shared: bool) -> None:
        self.stdin_ends = False
        if shared:
            return  # a terminal has no end of input but the user's Ctrl-D
        if self.program.stdin != self.program.terminal:
            os.close(self.program.stdin)
        self.program.stdin = -1
