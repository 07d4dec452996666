"""Asking the API server who may read `/metrics`: how often, and what its failures mean."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from cotenant.controller.client.kube import Outcome, Reply, Resource, UnreachableError
from cotenant.controller.reports.metrics_access import MetricsAccess
from cotenant.serving.metrics_access import ASKING_MAX, REMEMBER_S, Access
from tests.support.fake_kube import FakeKube

pytestmark = pytest.mark.looptime


class ReviewingKube(FakeKube):
    """Knows the token `good`, of a user who may read, and `poor`, of one who may not."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Reply:
        spec = body["spec"]
        self.asked.append(f"{resource.plural} {spec.get('token') or spec.get('user')}")
        await asyncio.sleep(1.0)
        if spec.get("token") == "unreachable" or spec.get("user") == "unlucky":
            raise UnreachableError("no answer")
        if spec.get("token") == "refused":
            return Reply(Outcome.REFUSED, code=403)
        if "token" in spec:
            known = spec["token"] in {"good", "poor", "unlucky"}
            return Reply(Outcome.DONE, {"status": {"authenticated": known, "user": {"username": spec["token"]}}})
        return Reply(Outcome.DONE, {"status": {"allowed": spec["user"] == "good"}})


@pytest.mark.parametrize(
    ("header", "access"),
    [
        ("", Access.UNAUTHENTICATED),
        ("Bearer good", Access.ALLOWED),
        ("Bearer poor", Access.FORBIDDEN),
        ("Bearer guessed", Access.UNAUTHENTICATED),
        ("Bearer unreachable", Access.UNKNOWN),
        ("Bearer unlucky", Access.UNKNOWN),
        ("Bearer refused", Access.UNKNOWN),
    ],
)
async def test_the_answer_is_the_api_servers(header: str, access: Access) -> None:
    assert await MetricsAccess(ReviewingKube()).access(header) is access


async def test_the_same_token_is_looked_up_once_in_a_while() -> None:
    kube = ReviewingKube()
    access = MetricsAccess(kube)
    for _ in range(3):
        await access.access("Bearer good")
    await asyncio.sleep(REMEMBER_S)
    await access.access("Bearer good")
    assert kube.asked == ["tokenreviews good", "subjectaccessreviews good"] * 2


async def test_guesses_cost_the_api_server_a_few_questions_at_a_time() -> None:
    kube = ReviewingKube()
    access = MetricsAccess(kube)
    answers = await asyncio.gather(*(access.access(f"Bearer guess-{number}") for number in range(50)))
    assert (answers.count(Access.UNAUTHENTICATED), answers.count(Access.BUSY)) == (ASKING_MAX, 50 - ASKING_MAX)
    assert len(kube.asked) == ASKING_MAX
    assert await access.access("Bearer good") is Access.ALLOWED, "and then others are asked for again"
