"""Passes one request of a browser to a session's application, and the response back.

Bodies are passed on piece by piece. WebSocket messages are passed on whole, up to a size limit.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, TypeAlias

import aiohttp
from aiohttp import WSMsgType, web
from multidict import CIMultiDict
from yarl import URL

from cotenant.dashboard.opened.connector import until_one_ends
from cotenant.dashboard.opened.headers import to_application, to_browser
from cotenant.dashboard.opened.host import is_socket
from cotenant.dashboard.opened.openings import SOCKETS_MAX, Opening

MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Largest WebSocket message. Jupyter sends at most some MiB of output per second."""
HEARTBEAT_S: Final = 30.0
CLOSE_S: Final = 5.0
NORMAL, LOST = 1000, 1011
"""Close codes of a WebSocket: closed normally; the other end was lost."""
NEVER_SENT: Final = frozenset({1005, 1006, 1015})
AS_IT_IS: Final = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
"""Headers that the HTTP client would add if the browser did not send them."""
Socket: TypeAlias = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


async def pass_on(request: web.Request, opening: Opening, hidden: str) -> web.StreamResponse:
    """Pass on one request. Raises DeniedError, UnreachableError, aiohttp.ClientError or TimeoutError only before the
    response starts.
    """
    headers = to_application(
        request.headers,
        address=opening.target.address,
        credentials=opening.credentials,
        cookies=opening.cookies,
        hidden=hidden,
    )
    there = URL(opening.target.address + request.rel_url.raw_path_qs, encoded=True)
    if is_socket(request.headers):
        return await _socket(request, opening, there, headers)
    async with opening.http.request(
        request.method,
        there,
        headers=headers,
        data=request.content if request.body_exists else None,
        allow_redirects=False,
        skip_auto_headers=AS_IT_IS,
    ) as answer:
        kept = to_browser(answer.headers, address=opening.target.address, cookies=opening.cookies)
        response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=kept)
        await response.prepare(request)
        try:
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
        except (aiohttp.ClientError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()  # the browser sees that the answer is not whole
        return response


async def _socket(request: web.Request, opening: Opening, there: URL, headers: CIMultiDict[str]) -> web.StreamResponse:
    if opening.sockets >= SOCKETS_MAX:
        raise web.HTTPTooManyRequests(text=f"this session has {SOCKETS_MAX} WebSockets open already")
    wanted = [one.strip() for one in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if one.strip()]
    opening.sockets += 1
    try:
        async with opening.http.ws_connect(
            there,
            protocols=wanted,
            headers=headers,
            max_msg_size=MESSAGE_BYTES,
            timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
        ) as far:
            near = web.WebSocketResponse(
                protocols=[far.protocol] if far.protocol else (),
                max_msg_size=MESSAGE_BYTES,
                heartbeat=HEARTBEAT_S,
                compress=False,
            )
            await near.prepare(request)
            await _relay(near, far)
            return near
    except aiohttp.WSServerHandshakeError as error:
        return web.Response(status=error.status, text=f"The application answered {error.status} to a WebSocket.")
    finally:
        opening.sockets -= 1


async def _relay(near: web.WebSocketResponse, far: aiohttp.ClientWebSocketResponse) -> None:
    """Pass on messages until one end closes. Then close the other with the same code."""
    await until_one_ends(_messages(near, far), _messages(far, near))
    with suppress(ConnectionError, aiohttp.ClientError):
        await far.close(code=_code(near))
        await near.close(code=_code(far))


async def _messages(source: Socket, sink: Socket) -> None:
    with suppress(ConnectionError, aiohttp.ClientError):
        async for message in source:
            if message.type is WSMsgType.TEXT:
                await sink.send_str(message.data)
            elif message.type is WSMsgType.BINARY:
                await sink.send_bytes(message.data)


def _code(closed: Socket) -> int:
    """The close code for the other end."""
    code = closed.close_code
    if code is None:
        return NORMAL
    return LOST if code in NEVER_SENT else code
