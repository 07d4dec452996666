"""A replica waits for definitions that have what it writes, and says for what it waits."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from cotenant.api.schema.crds import document
from cotenant.api.schema.kinds import RESOURCES
from cotenant.controller.client.kube import Outcome, Reply, Resource, UnreachableError
from cotenant.controller.leader import definitions
from cotenant.controller.leader.definitions import Definitions

HERE = {f"{one.plural}.cotenant.dev": document(one) for one in RESOURCES}
MISSING = Reply(Outcome.MISSING, code=404)
FORBIDDEN = Reply(Outcome.REFUSED, message="forbidden", code=403)


def older() -> Reply:
    made = deepcopy(HERE["queues.cotenant.dev"])
    for version in made["spec"]["versions"]:
        version["schema"] = deepcopy(version["schema"])
        del version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return Reply(Outcome.DONE, made)


class Served:
    """An API server that gives this for the definition of Queues, one answer after the other, then the right one."""

    def __init__(self, *queues: Reply | Exception) -> None:
        self.queues = list(queues)

    async def get(self, resource: Resource, name: str) -> Reply:
        if name != "queues.cotenant.dev" or not self.queues:
            return Reply(Outcome.DONE, HERE[name])
        answer = self.queues.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def problems(served: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What it said between its looks, until it waited no more."""
    waits = Definitions(served)
    said: list[str] = []

    async def sleep(seconds: float) -> None:
        assert seconds == definitions.EVERY_S
        said.append(waits.problem)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await waits.wait()
    assert waits.problem == ""
    return said


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        pytest.param((), [], id="they are of this release"),
        pytest.param(
            (older(), older()),
            ["the CustomResourceDefinition queues.cotenant.dev is of an older release: it lacks status"] * 2,
            id="one is older, until it is applied",
        ),
        pytest.param(
            (MISSING,), ["the CustomResourceDefinition queues.cotenant.dev is not there"], id="one is not there"
        ),
        pytest.param(
            (UnreachableError("no answer"),),
            ["the CustomResourceDefinitions cannot be read: no answer"],
            id="nobody answers",
        ),
        pytest.param((FORBIDDEN,), [], id="it may not read them: it does not wait for what it cannot see"),
    ],
)
async def test_it_waits_until_they_have_what_it_writes(
    answers: tuple[Reply | Exception, ...], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await problems(Served(*answers), monkeypatch) == said


def test_before_the_first_look_it_is_not_ready() -> None:
    assert Definitions(Served()).problem  # type: ignore[arg-type]
