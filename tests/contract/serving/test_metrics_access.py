"""Access to `/metrics`: the reviews that are asked, what their answers mean, and how long they are remembered."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.serving.metrics_access import (
    REMEMBER_S,
    REMEMBERED_MAX,
    TOKEN_CHARS_MAX,
    Access,
    RememberedAccess,
    access_of,
    subject_access_review,
    token_of,
    token_review,
    user_of,
)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("", ""),
        ("abc", ""),
        ("Basic abc", ""),
        ("Bearer", ""),
        ("Bearer é", ""),
        ("Bearer " + "x" * TOKEN_CHARS_MAX, "x" * TOKEN_CHARS_MAX),
        ("Bearer " + "x" * (TOKEN_CHARS_MAX + 1), ""),
    ],
    ids=lambda text: text[:12],
)
def test_the_token_is_what_stands_after_bearer(header: str, token: str) -> None:
    assert token_of(header) == token


def test_the_token_goes_into_a_review() -> None:
    assert token_review("abc") == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "abc"},
    }


@pytest.mark.parametrize(
    ("status", "known"),
    [
        ({"authenticated": True, "user": {"username": "a"}}, True),
        ({"authenticated": True, "user": {"username": ""}}, False),
        ({"authenticated": True}, False),
        ({"authenticated": "yes", "user": {"username": "a"}}, False),
        ({"authenticated": False, "user": {"username": "a"}}, False),
        ({"user": {"username": "a"}, "error": "expired"}, False),
        ({}, False),
        (None, False),
    ],
    ids=str,
)
def test_only_a_token_that_is_authenticated_has_a_user(status: Any, known: bool) -> None:
    assert (user_of({"status": status}) is not None) == known


def test_the_access_review_asks_for_the_url_with_all_that_is_known_of_the_user() -> None:
    user = {"username": "a", "uid": "u", "groups": ["g"], "extra": {"node": ["n"]}}
    assert subject_access_review(user)["spec"] == {
        "user": "a",
        "uid": "u",
        "groups": ["g"],
        "extra": {"node": ["n"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize(
    ("status", "access"),
    [
        ({"allowed": True}, Access.ALLOWED),
        ({"allowed": False}, Access.FORBIDDEN),
        ({"allowed": "true"}, Access.FORBIDDEN),
        ({"denied": True}, Access.FORBIDDEN),
        (None, Access.FORBIDDEN),
    ],
    ids=str,
)
def test_what_is_not_allowed_is_forbidden(status: Any, access: Access) -> None:
    assert access_of({"status": status}) is access


@pytest.mark.parametrize("access", [Access.ALLOWED, Access.UNAUTHENTICATED, Access.FORBIDDEN])
def test_an_answer_is_remembered_for_some_seconds(access: Access) -> None:
    remembered = RememberedAccess()
    remembered.keep("t", access, 100.0)
    found = [remembered.find("t", 100.0 + later) for later in (0.0, REMEMBER_S - 1, REMEMBER_S)]
    assert (found, remembered.find("other", 100.0)) == ([access, access, None], None)


@pytest.mark.parametrize("access", [Access.BUSY, Access.UNKNOWN])
def test_what_may_be_otherwise_at_once_is_not_remembered(access: Access) -> None:
    remembered = RememberedAccess()
    remembered.keep("t", access, 100.0)
    assert remembered.find("t", 100.0) is None


def test_guessed_tokens_take_no_memory_without_end() -> None:
    remembered = RememberedAccess()
    for number in range(REMEMBERED_MAX + 1):
        remembered.keep(str(number), Access.UNAUTHENTICATED, 0.0)
    found = [remembered.find(str(number), 0.0) for number in (0, 1, REMEMBERED_MAX)]
    assert found == [None, Access.UNAUTHENTICATED, Access.UNAUTHENTICATED]
