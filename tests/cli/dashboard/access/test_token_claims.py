"""What a token says of itself: read without trust, and told to who cannot get in with it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from cotenant.dashboard.access.token_claims import SHOWN_CHARS, UNKNOWN, TokenClaims, claims_of, refusal

NOW = 1_000.0


def token(claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{body}.signature"


@pytest.mark.parametrize(
    ("given", "claims"),
    [
        (
            token({"iss": "https://login.example", "aud": "cotenant", "exp": 1500}),
            TokenClaims(issuer="https://login.example", audiences=("cotenant",), ends_at=1500.0),
        ),
        (token({"aud": ["a", "b"]}), TokenClaims(audiences=("a", "b"))),
        (token({"iss": 7, "aud": {"x": 1}, "exp": "soon"}), TokenClaims(audiences=("",))),
        (token({"exp": 1e400}), TokenClaims()),
        (token({"exp": -1, "iss": "x" * 1000}), TokenClaims(issuer="x" * SHOWN_CHARS)),
        (token([]), None),
        ("an.opaque", None),
        ("a.b.c", None),
        ("a.é.c", None),
        ("", None),
    ],
    ids=["whole", "audiences", "odd", "without end", "long", "no object", "opaque", "no JSON", "no text", "nothing"],
)
def test_claims_are_those_of_a_web_token_and_nothing_breaks(given: str, claims: TokenClaims | None) -> None:
    assert claims_of(given) == claims


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("opaque", UNKNOWN),
        (
            token({"exp": 1000}),
            "the API server does not know this token: it ended at 1970-01-01 00:16:40 UTC;"
            " log in again for another one",
        ),
        (
            token({"iss": "https://login.example", "aud": ["shop", "mail"], "exp": 1001}),
            "the API server does not know this token of issuer https://login.example for audience shop, mail: its"
            " --authentication-config has to name just this issuer and audience, and reach the issuer's keys",
        ),
    ],
    ids=["opaque", "ended", "for others"],
)
def test_who_is_refused_reads_what_to_do(given: str, says: str) -> None:
    assert refusal(given, NOW) == says
