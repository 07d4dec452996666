"""Sources: a list and then changes, reasons for what is missing, and an end when nobody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from cotenant.controller.client import kube
from cotenant.controller.client.kube import UnreachableError
from cotenant.dashboard.reading.caller_client import DeniedError, Scope
from cotenant.dashboard.reading.rows import JobRow, job_row
from cotenant.dashboard.reading.sources import IDLE_S, Asked, Followed, news, settled
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.cli.dashboard.played_cluster import job
from tests.support.fake_kube import FakeKube

JOBS = Scope(kube.TRAINING_JOBS, "red")


async def following(caller: FakeCaller) -> Followed[JobRow]:
    source = Followed(caller, JOBS, job_row)
    source.look()
    assert await settled([source], 5)
    return source


async def changed(source: Followed[JobRow]) -> list[str]:
    """Names, once something has changed."""
    await news([source], 5)
    return sorted(source.value)


async def test_objects_come_by_a_list_and_changes_by_a_watch() -> None:
    server = FakeKube()
    server.put(kube.TRAINING_JOBS, job("red", "a", "Pending"))
    caller = FakeCaller(server)
    source = await following(caller)
    assert sorted(source.value) == ["red/a"]
    await asyncio.sleep(0)
    server.put(kube.TRAINING_JOBS, job("red", "b", "Running"))
    assert await changed(source) == ["red/a", "red/b"]
    server.remove(kube.TRAINING_JOBS, "a", "red")
    assert await changed(source) == ["red/b"]
    server.put(kube.TRAINING_JOBS, job("blue", "c", "Running"))
    assert sorted(source.value) == ["red/b"]
    source.cancel()


async def test_a_watch_that_cannot_go_on_begins_with_a_list_again() -> None:
    server = FakeKube()
    caller = FakeCaller(server)
    source = await following(caller)
    await asyncio.sleep(0.01)
    server.end_watches(forget=True)
    server.put(kube.TRAINING_JOBS, job("red", "a", "Pending"))
    server.end_watches(forget=True)
    while not source.value:
        await news([source], 5)
    assert sorted(source.value) == ["red/a"]
    source.cancel()


async def test_what_the_caller_may_not_read_is_said_and_nothing_is_kept() -> None:
    server = FakeKube()
    server.put(kube.TRAINING_JOBS, job("red", "a", "Pending"))
    denied = [False]
    caller = FakeCaller(server, denied=lambda plural, namespace: denied[0])
    source = await following(caller)
    denied[0] = True
    await asyncio.sleep(0.01)
    server.end_watches()
    await news([source], 5)
    assert (source.value, source.code) == ({}, 403)
    assert "cannot list" in source.problem
    source.cancel()


@pytest.mark.parametrize(
    ("error", "value", "code"),
    [(DeniedError(404, "not found"), "none yet", 404), (UnreachableError("gone"), "first", 0)],
    ids=["refused: nothing is kept", "unreachable: the last answer stays"],
)
async def test_an_answer_is_asked_for_again(error: Exception, value: str, code: int) -> None:
    answers: Iterator[str | Exception] = iter(["first", error])

    async def ask() -> str:
        found = next(answers, error)
        if isinstance(found, Exception):
            raise found
        return found

    source = Asked(ask, "none yet", 0.01)
    source.look()
    assert await settled([source], 5)
    assert source.value == "first"
    await news([source], 5)
    assert (source.value, source.code, source.problem) == (value, code, str(error))
    source.cancel()


@pytest.mark.looptime
async def test_what_nobody_looks_at_ends_and_begins_again_with_a_look() -> None:
    asked = []

    async def ask() -> int:
        asked.append(1)
        return len(asked)

    source = Asked(ask, 0, 5.0)
    source.look()
    await asyncio.sleep(4 * IDLE_S)
    assert IDLE_S / 5 <= len(asked) <= IDLE_S / 5 + 3
    assert not source.ready.is_set()
    source.look()
    assert await settled([source], 5)
    source.cancel()
    await source.ended()
