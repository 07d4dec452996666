"""Headers between a browser and an application: what neither gets of the other."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from cotenant.dashboard.opened.headers import COOKIES_MAX, OwnCookies, to_application, to_browser

ADDRESS = "http://127.0.0.1:8888"


def asked(headers: dict[str, str], cookies: OwnCookies | None = None) -> CIMultiDict[str]:
    """What an application gets of a browser's request with these headers."""
    return to_application(
        CIMultiDictProxy(CIMultiDict(headers)),
        address=ADDRESS,
        credentials={"Authorization": "token its-own"},
        cookies=cookies or OwnCookies("cotenant-opened"),
        hidden="X-Token",
    )


@pytest.mark.parametrize(
    "name",
    ["X-Token", "X-Forwarded-Access-Token", "X-Auth-Request-User", "X-Remote-User", "Impersonate-User", "Forwarded",
     "Referer", "Connection", "Upgrade", "Sec-WebSocket-Key", "Proxy-Authorization", "Cf-Access-Jwt-Assertion"],
)  # fmt: skip
def test_what_says_who_the_person_is_does_not_reach_the_application(name: str) -> None:
    assert name not in asked({name: "secret"})


def test_the_application_lets_its_own_token_in_and_sees_itself_as_the_origin() -> None:
    found = asked(
        {
            "Authorization": "Bearer token-of-the-cluster",
            "Host": "nb.sessions.example.com",
            "Origin": "https://nb.sessions.example.com",
            "X-XSRFToken": "of the page",
            "Connection": "keep-alive, X-Hop",
            "X-Hop": "1",
        }
    )
    assert dict(found) == {
        "Authorization": "token its-own",
        "Host": "127.0.0.1:8888",
        "Origin": ADDRESS,
        "X-XSRFToken": "of the page",
    }


def test_an_application_gets_the_cookies_that_it_has_set_and_no_others() -> None:
    cookies = OwnCookies("cotenant-opened")
    assert cookies.note("_xsrf=2|a; Path=/; Domain=sessions.example.com; HttpOnly") == "_xsrf=2|a; Path=/; HttpOnly"
    sent = "cotenant-opened=secret; _oauth2_proxy=of-the-domain; _xsrf=2|a; _xsrf=tossed; theme=dark"
    assert asked({"Cookie": sent}, cookies)["Cookie"] == "_xsrf=2|a"
    assert "Cookie" not in asked({"Cookie": "_oauth2_proxy=of-the-domain"}, cookies)


def test_the_cookie_of_the_opening_is_not_for_an_application_to_set() -> None:
    cookies = OwnCookies("__Host-cotenant-opened")
    assert cookies.note("__Host-cotenant-opened=mine; Path=/; Secure") == ""
    assert cookies.note("no cookie") == ""
    assert cookies.among("__Host-cotenant-opened=mine") == []


def test_cookies_that_are_remembered_are_bounded() -> None:
    cookies = OwnCookies("x")
    for number in range(COOKIES_MAX + 1):
        cookies.note(f"c{number}=1")
    assert cookies.among("c0=1; c1=1") == ["c1=1"]
    assert cookies.note("long=" + "x" * 5000) == ""


def test_an_answer_reaches_no_other_host_of_the_domain() -> None:
    given = CIMultiDict(
        {
            "Clear-Site-Data": '"cookies"',
            "Strict-Transport-Security": "max-age=1; includeSubDomains",
            "Alt-Svc": 'h2="elsewhere:443"',
            "Transfer-Encoding": "chunked",
            "Content-Type": "text/html",
            "Content-Security-Policy": "default-src 'self'",
            "Location": f"{ADDRESS}/lab",
        }
    )
    found = to_browser(CIMultiDictProxy(given), address=ADDRESS, cookies=OwnCookies("x"))
    assert sorted(found.items()) == [
        ("Content-Security-Policy", "default-src 'self'"),
        ("Content-Security-Policy", "frame-ancestors 'self'"),
        ("Content-Type", "text/html"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Location", "/lab"),
    ]
