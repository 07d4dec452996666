"""A look is repeated, by the leader alone, and no failure of one ends the rounds."""

from __future__ import annotations

import asyncio

import pytest

from cotenant.controller.client.kube import FencedError, UnreachableError
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.reports.rounds import FOLLOWER_S, repeat
from cotenant.controller.telemetry.metrics import Metrics

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(
    ("error", "counted", "said"),
    [
        pytest.param(FencedError("not sent"), None, [], id="another replica leads"),
        pytest.param(UnreachableError("no answer"), None, ["looks: no answer; tried again soon"], id="an outage"),
        pytest.param(ValueError("a defect"), 1.0, ["looks: a look has failed"], id="a defect"),
    ],
)
async def test_after_a_failure_the_next_look_comes_in_its_time(
    error: Exception, counted: float | None, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    looks, metrics = [], Metrics()

    async def look() -> None:
        looks.append(asyncio.get_running_loop().time())
        if len(looks) == 1:
            raise error

    task = asyncio.create_task(repeat(look, 10.0, "Looks", metrics), name="looks")
    await asyncio.sleep(25)
    task.cancel()
    assert [at - looks[0] for at in looks] == [0, 10, 20]
    assert metrics.registry.get_sample_value("cotenant_failures_contained_total", {"stage": "Looks"}) == counted
    assert caplog.messages == said


async def test_only_the_leader_looks_and_soon_after_it_leads() -> None:
    leads, looks = [False], []

    async def look() -> None:
        looks.append(1)

    task = asyncio.create_task(repeat(look, 60.0, "Looks", Metrics(), Leadership(lambda: leads[0])))
    await asyncio.sleep(200)
    assert not looks
    leads[0] = True
    await asyncio.sleep(FOLLOWER_S)
    task.cancel()
    assert looks == [1]
