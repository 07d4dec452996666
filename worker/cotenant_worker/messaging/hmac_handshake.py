"""Authenticates connections between ranks and parameter servers of one job, by the secret of their attempt.

The secret is made from the attempt's token, so it is new in every attempt and never Ray's own. The server sends a nonce
and the client answers with its HMAC, so a listener learns nothing that can be used later. Later traffic is not
encrypted; the job's NetworkPolicy keeps other pods away.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import socket

from cotenant_worker.host import layout

_NONCE = 16
_DIGEST = 32
_TIMEOUT_S = 10.0
"""Deadline for the other side's proof."""


class AuthenticationError(ConnectionError):
    """The other side does not know this job's secret."""


def secret_of(token: str, uid: str, attempt: int) -> str:
    """The secret of one attempt, from the token that its pods got."""
    return hmac.new(token.encode(), f"cotenant ranks {uid} {attempt}".encode(), "sha256").hexdigest()


def own_secret() -> str:
    """The secret of this rank, as its launcher set it."""
    return os.environ.get(layout.ENV_SECRET, "")


def authenticate_client(connection: socket.socket, secret: str) -> None:
    """Authenticate a client. Raises AuthenticationError, or OSError if the other side leaves or stays silent."""
    before = connection.gettimeout()
    connection.settimeout(_TIMEOUT_S)
    nonce = os.urandom(_NONCE)
    connection.sendall(nonce)
    answer = connection.recv(_DIGEST, socket.MSG_WAITALL)
    if not hmac.compare_digest(answer, _proof(secret, nonce)):
        raise AuthenticationError("somebody who does not know this job's secret tried to connect")
    connection.settimeout(before)


def authenticate_to_server(connection: socket.socket, secret: str) -> None:
    """Prove to the server that this side knows the secret. Raises ConnectionResetError if it has closed."""
    nonce = connection.recv(_NONCE, socket.MSG_WAITALL)
    if len(nonce) < _NONCE:
        raise ConnectionResetError("closed before the handshake")
    connection.sendall(_proof(secret, nonce))


async def authenticate_client_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str) -> None:
    """`authenticate_client` for asyncio. Raises IncompleteReadError, an EOFError, if the other side leaves."""
    nonce = os.urandom(_NONCE)
    writer.write(nonce)
    async with asyncio.timeout(_TIMEOUT_S):
        answer = await reader.readexactly(_DIGEST)
    if not hmac.compare_digest(answer, _proof(secret, nonce)):
        raise AuthenticationError("somebody who does not know this job's secret tried to connect")


async def authenticate_to_server_stream(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str
) -> None:
    """`authenticate_to_server` for asyncio."""
    async with asyncio.timeout(_TIMEOUT_S):
        nonce = await reader.readexactly(_NONCE)
    writer.write(_proof(secret, nonce))


def _proof(secret: str, nonce: bytes) -> bytes:
    return hmac.new(secret.encode(), nonce, "sha256").digest()
