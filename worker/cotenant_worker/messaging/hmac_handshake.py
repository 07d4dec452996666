"""Who may talk to a rank of this job: whoever knows its secret.

The secret is made from the attempt's token, so it is new with every attempt and never Ray's own. Whoever serves sends a
nonce and the other side answers with an HMAC of it: a listener on the way learns nothing that it could use later. The
ring connects in a circle, where nobody can wait for a nonce first: there each rank makes its nonce beforehand, rank 0
hands all of them out with the addresses (`meeting`), and a ticket for one opens one door once. What travels afterwards
is not encrypted; the job's NetworkPolicy keeps other pods away from it.
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
"""How long the other side may take to say who it is."""


class AuthenticationError(ConnectionError):
    """The other side does not know this job's secret."""


def secret_of(token: str, uid: str, attempt: int) -> str:
    """The secret of one attempt, from the token that its pods got."""
    return hmac.new(token.encode(), f"cotenant ranks {uid} {attempt}".encode(), "sha256").hexdigest()


def own_secret() -> str:
    """This rank's, as its launcher set it."""
    return os.environ.get(layout.ENV_SECRET, "")


def authenticate_client(connection: socket.socket, secret: str) -> None:
    """The server's part; StrangerError, or OSError when the other side leaves or says nothing."""
    before = connection.gettimeout()
    connection.settimeout(_TIMEOUT_S)
    nonce = os.urandom(_NONCE)
    connection.sendall(nonce)
    answer = connection.recv(_DIGEST, socket.MSG_WAITALL)
    if not hmac.compare_digest(answer, _proof(secret, nonce)):
        raise AuthenticationError("somebody who does not know this job's secret tried to connect")
    connection.settimeout(before)


def authenticate_to_server(connection: socket.socket, secret: str) -> None:
    """The client's part."""
    nonce = connection.recv(_NONCE, socket.MSG_WAITALL)
    if len(nonce) < _NONCE:
        raise ConnectionResetError("closed before the handshake")
    connection.sendall(_proof(secret, nonce))


async def authenticate_client_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str) -> None:
    """`admit` for asyncio. IncompleteReadError, which is an EOFError, when the other side leaves."""
    nonce = os.urandom(_NONCE)
    writer.write(nonce)
    async with asyncio.timeout(_TIMEOUT_S):
        answer = await reader.readexactly(_DIGEST)
    if not hmac.compare_digest(answer, _proof(secret, nonce)):
        raise AuthenticationError("somebody who does not know this job's secret tried to connect")


async def authenticate_to_server_stream(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str
) -> None:
    """`introduce` for asyncio."""
    async with asyncio.timeout(_TIMEOUT_S):
        nonce = await reader.readexactly(_NONCE)
    writer.write(_proof(secret, nonce))


def new_nonce() -> bytes:
    """For a door that opens once."""
    return os.urandom(_NONCE)


def one_time_token(secret: str, nonce: bytes, rank: int) -> bytes:
    """What `rank` shows at the door with this nonce; nothing that `introduce` ever says."""
    return hmac.new(secret.encode(), b"ticket %d " % rank + nonce, "sha256").digest()


def verify_one_time_token(connection: socket.socket, secret: str, nonce: bytes, rank: int) -> bool:
    """Whether this is `rank`, of this job; OSError when the other side leaves or says nothing."""
    connection.settimeout(_TIMEOUT_S)
    shown = connection.recv(_DIGEST, socket.MSG_WAITALL)
    return hmac.compare_digest(shown, one_time_token(secret, nonce, rank))


def _proof(secret: str, nonce: bytes) -> bytes:
    return hmac.new(secret.encode(), nonce, "sha256").digest()
