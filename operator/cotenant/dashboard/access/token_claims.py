"""What a token says about itself, unverified: its expiry, issuer and audience.

The claims let nobody in; only the API server does. They explain why it refused a token, and say when a session ends.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

UNKNOWN: Final = "the API server does not know this token, or it has ended"
SHOWN_CHARS: Final = 200
AUDIENCES_SHOWN: Final = 5
LATEST: Final = 253_402_300_799
"""The end of the year 9999 in Unix seconds. `datetime` has no later date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenClaims:
    issuer: str = ""
    audiences: tuple[str, ...] = ()
    ends_at: float | None = None
    """Expiry, in Unix seconds."""


def claims_of(token: str) -> TokenClaims | None:
    """Claims of a JSON Web Token (RFC 7519); None if the text is not one."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    return _read(claims) if isinstance(claims, dict) else None


def refusal(token: str, now: float) -> str:
    """Why the API server refused the token, as far as the claims show it. `now`: Unix seconds."""
    claims = claims_of(token)
    if claims is None:
        return UNKNOWN
    if claims.ends_at is not None and claims.ends_at <= now:
        at = datetime.fromtimestamp(claims.ends_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"the API server does not know this token: it ended at {at}; log in again for another one"
    return (
        f"the API server does not know this token of issuer {claims.issuer or '(none)'} for audience"
        f" {', '.join(claims.audiences) or '(none)'}: its --authentication-config has to name just this issuer and"
        " audience, and reach the issuer's keys"
    )


def _read(claims: dict[str, Any]) -> TokenClaims:
    given, ends = claims.get("aud"), claims.get("exp")
    audiences = given if isinstance(given, list) else [given]
    return TokenClaims(
        issuer=_shown(claims.get("iss")),
        audiences=tuple(_shown(one) for one in audiences[:AUDIENCES_SHOWN] if one),
        ends_at=float(ends) if isinstance(ends, int | float) and 0 <= ends <= LATEST else None,
    )


def _shown(value: object) -> str:
    return value[:SHOWN_CHARS] if isinstance(value, str) else ""
