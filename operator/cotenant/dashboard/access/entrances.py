"""The ways to log in: a one-time code on the person's own machine, a pasted token, a token from a trusted proxy.

Each way yields a client with the caller's own credentials, after the API server has recognised them (SelfSubjectReview,
which everyone may create). So the dashboard needs no rights, and nobody gains rights by it.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

from cotenant import names
from cotenant.dashboard.access.sessions import Sessions, Viewer
from cotenant.dashboard.access.token_claims import UNKNOWN, claims_of, refusal
from cotenant.dashboard.reading.caller_client import (
    SELF_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    CallerClient,
    DeniedError,
)

TOKEN_CHARS_MAX: Final = 8192
LOGINS_MAX: Final = 4
"""At most this many tokens are checked at one time. It bounds the load that guessing causes on the API server."""
BEARER: Final = "bearer "
SERVICE_ACCOUNT: Final = "system:serviceaccount:"


class EntryError(RuntimeError):
    """The login failed. The text is a sentence for the person."""


class UnknownTokenError(EntryError):
    """The API server does not accept the credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxy:
    """A proxy that logs people in and passes on their token for the API server: its addresses, and the header."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """Networks of the proxy. If empty, there is no proxy and the header is ignored."""
    header: str = "Authorization"

    def token(self, peer: str | None, headers: Mapping[str, str]) -> str:
        """The token of a request that comes from the proxy; otherwise empty."""
        try:
            address = ip_address(peer or "")
        except ValueError:
            return ""
        if not any(address in network for network in self.networks):
            return ""
        value = headers.get(self.header, "").strip()
        return value[len(BEARER) :].strip() if value[: len(BEARER)].lower() == BEARER else value


class Entrances:
    def __init__(
        self,
        sessions: Sessions,
        *,
        client_of: Callable[[str], CallerClient] | None = None,
        own: Callable[[], Awaitable[Viewer]] | None = None,
        code: str = "",
        proxy: TrustedProxy = TrustedProxy(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """The ways to log in.

        `client_of`: makes a client from a token; without it no token is accepted. `own` with its `code`: the viewer
        with the credentials that started this process. `clock`: Unix seconds, compared with the end of a token.
        """
        self._sessions, self._client_of, self._own, self._code = sessions, client_of, own, code
        self._proxy, self._clock = proxy, clock
        self._logins = asyncio.Semaphore(LOGINS_MAX)

    @property
    def takes_tokens(self) -> bool:
        return self._client_of is not None

    async def by_code(self, code: str) -> str:
        """Log in by the one-time code. Returns the cookie of a new session. Raises EntryError."""
        if not self._code or self._own is None or not hmac.compare_digest(code.encode(), self._code.encode()):
            raise EntryError("this address is good once: start `cotenant dashboard` again for another one")
        self._code = ""
        try:
            return await self._sessions.open(await self._own())
        except BaseException:
            self._code = code  # it was of no use
            raise

    async def by_token(self, token: str, namespace: str = "") -> str:
        """Log in by a token. Returns the cookie of a new session. `namespace`: shown first. Raises EntryError."""
        token = token.strip()
        return await self._sessions.open(await self._viewer(token, namespace), lasts_s=self._left_s(token))

    def is_by_proxy(self, peer: str | None, headers: Mapping[str, str]) -> bool:
        """True if the request comes from the trusted proxy with a token."""
        return bool(self._proxy.token(peer, headers))

    async def by_proxy(self, peer: str | None, headers: Mapping[str, str]) -> Viewer | None:
        """The viewer that the proxy names. No cookie is needed."""
        token = self._proxy.token(peer, headers)
        if not token:
            return None
        found = self._sessions.find(f"proxy {token}")
        if found is None:
            found = await self._viewer(token, "")
            await self._sessions.open(found, f"proxy {token}", lasts_s=self._left_s(token))
        return found

    def _left_s(self, token: str) -> float | None:
        """Seconds until an accepted token expires; None if the token does not say."""
        claims = claims_of(token)
        return None if claims is None or claims.ends_at is None else claims.ends_at - self._clock()

    async def _viewer(self, token: str, namespace: str) -> Viewer:
        if self._client_of is None:
            raise EntryError("no tokens are taken here")
        if not token or len(token) > TOKEN_CHARS_MAX or not token.isascii() or not token.isprintable():
            raise EntryError("this is no token; `kubectl create token NAME` makes one for an account")
        async with self._logins:
            client = self._client_of(token)
            try:
                return await viewer_of(client, namespace)
            except UnknownTokenError as error:
                await client.close()
                raise EntryError(refusal(token, self._clock())) from error
            except BaseException:
                await client.close()
                raise


async def viewer_of(client: CallerClient, namespace: str = "", home: str = "") -> Viewer:
    """The viewer behind this client, as the API server names them.

    The viewer starts at the given namespace, otherwise at all namespaces, or at their own if they may not list all.
    `home`: the namespace of a person who is not a ServiceAccount. Raises EntryError, UnreachableError.
    """
    try:
        user = ((await client.review(SELF_SUBJECT_REVIEWS, {})).get("userInfo") or {}).get("username") or ""
        if not user or user == "system:anonymous":
            raise UnknownTokenError(UNKNOWN)
        everything = await client.review(
            SELF_ACCESS_REVIEWS,
            {"resourceAttributes": {"group": names.GROUP, "resource": "trainingjobs", "verb": "list"}},
        )
    except DeniedError as error:
        raise UnknownTokenError(UNKNOWN) from error
    if everything.get("allowed") is True:
        return Viewer(client, user, namespace)
    if user.startswith(SERVICE_ACCOUNT):
        home = user.removeprefix(SERVICE_ACCOUNT).partition(":")[0]
    return Viewer(client, user, namespace or home or "default")
