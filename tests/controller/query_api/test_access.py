"""What a caller may ask, as the API server says: how often it is asked, and what its silence means."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from cotenant.controller.client.kube import Outcome, Reply, Resource, UnreachableError
from cotenant.controller.query_api.access import (
    NAMESPACES_MAX,
    REMEMBER_S,
    REVIEWS_MAX,
    CallerAccess,
    UnknownAccessError,
)
from cotenant.controller.query_api.front_proxy import Caller
from tests.support.fake_kube import FakeKube

pytestmark = pytest.mark.looptime

ALICE = Caller("alice", ("team-a",), "7", {"scopes": ("x",)})


class AuthorizingKube(FakeKube):
    """Allows what stands in `allowed`, as `user verb group/resource namespace`."""

    def __init__(self, *allowed: str) -> None:
        super().__init__()
        self.allowed, self.reviews, self.at_once, self.most = set(allowed), list[dict[str, Any]](), 0, 0
        self.fails: Exception | Reply | None = None

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Reply:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.1)
        self.at_once -= 1
        if isinstance(self.fails, Exception):
            raise self.fails
        if self.fails is not None:
            return self.fails
        spec = body["spec"]
        self.reviews.append(spec)
        asked = spec["resourceAttributes"]
        kind = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        line = f"{spec['user']} {asked['verb']} {asked['group']}/{kind} {asked['namespace']}".strip()
        return Reply(Outcome.DONE, {"status": {"allowed": line in self.allowed}})


async def test_the_api_server_is_told_all_that_it_told_of_the_caller() -> None:
    kube = AuthorizingKube("alice get query.cotenant.dev/explanations red")
    access = CallerAccess(kube)
    assert await access.may(ALICE, "get", "explanations", "red")
    assert not await access.may(ALICE, "get", "explanations", "blue")
    assert kube.reviews[0] == {
        "user": "alice",
        "uid": "7",
        "groups": ["team-a"],
        "extra": {"scopes": ["x"]},
        "resourceAttributes": {
            "group": "query.cotenant.dev", "verb": "get", "resource": "explanations", "namespace": "red"
        },
    }  # fmt: skip


async def test_an_answer_is_remembered_for_a_while_and_for_nobody_else() -> None:
    kube = AuthorizingKube("alice get query.cotenant.dev/explanations red")
    access = CallerAccess(kube)
    for _ in range(3):
        assert await access.may(ALICE, "get", "explanations", "red")
    assert not await access.may(Caller("bob", ("team-a",)), "get", "explanations", "red")
    await asyncio.sleep(REMEMBER_S)
    kube.allowed.clear()
    assert not await access.may(ALICE, "get", "explanations", "red")
    assert len(kube.reviews) == 3


async def test_jobs_are_seen_in_the_namespaces_where_they_may_be_read() -> None:
    sees = await CallerAccess(AuthorizingKube("alice get cotenant.dev/trainingjobs red")).sees(ALICE, {"red", "blue"})
    assert (sees("red"), sees("blue"), sees("never asked about")) == (True, False, False)


async def test_who_may_read_all_jobs_costs_one_review() -> None:
    kube = AuthorizingKube("alice get cotenant.dev/trainingjobs")
    sees = await CallerAccess(kube).sees(ALICE, {f"ns-{number}" for number in range(100)})
    assert (sees("any"), len(kube.reviews)) == (True, 1)


async def test_one_answer_asks_about_so_many_namespaces_and_so_many_at_a_time() -> None:
    kube = AuthorizingKube()
    await CallerAccess(kube).sees(ALICE, {f"ns-{number}" for number in range(500)})
    assert (len(kube.reviews), kube.most) == (1 + NAMESPACES_MAX, REVIEWS_MAX)


@pytest.mark.parametrize("failure", [UnreachableError("no answer"), Reply(Outcome.REFUSED, message="no", code=403)])
async def test_silence_is_no_permission_and_is_not_remembered(failure: Exception | Reply) -> None:
    kube = AuthorizingKube("alice get query.cotenant.dev/explanations red")
    access, kube.fails = CallerAccess(kube), failure
    with pytest.raises(UnknownAccessError):
        await access.may(ALICE, "get", "explanations", "red")
    kube.fails = None
    assert await access.may(ALICE, "get", "explanations", "red")
