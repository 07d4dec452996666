"""A job that an administrator moves, from its annotation to its pods on the other node."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import TRAINING_JOBS
from tests.controller.execution.replica import (
    Replica,
    end_pods,
    granted,
    simulate_time,
    simulated_now,
    start_pods,
    status,
    submit,
)

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


def wish(attempt: int, seconds: float, **where: Any) -> str:
    until = datetime.fromtimestamp(simulated_now(), UTC) + timedelta(seconds=seconds)
    return json.dumps({"attempt": attempt, "until": until.isoformat()} | where)


def ask(replica: Replica, text: str) -> None:
    document = replica.kube.stored(TRAINING_JOBS, "train", "red")
    assert document is not None
    metadata = document["metadata"] | {"annotations": {names.ANNOTATION_MOVE: text}}
    replica.kube.put(TRAINING_JOBS, document | {"metadata": metadata})


async def running(workers: int = 2) -> tuple[Replica, str, str]:
    """A replica with a job that runs, its node, and the other one."""
    replica = Replica()
    submit(replica.kube, workers=workers)
    await replica.run()
    await start_pods(replica.kube)
    await replica.run()
    (part,) = status(replica.kube)["placement"]["nodes"]
    return replica, part["node"], "n2" if part["node"] == "n1" else "n1"


async def settled(replica: Replica) -> tuple[int, list[str], str]:
    """Attempts, nodes that are held and the phase, once pods that were asked to end have ended."""
    await replica.run()
    await end_pods(replica.kube)
    await replica.run()
    await start_pods(replica.kube)
    await replica.run()
    found = status(replica.kube)
    return found["attempts"], [part["node"] for part in found["placement"]["nodes"]], found["phase"]


@pytest.mark.parametrize("where", ["off", "to"])
async def test_it_goes_on_where_it_was_asked_to_and_moves_once(where: str) -> None:
    replica, held, other = await running()
    ask(replica, wish(1, 900.0, **{where: [held if where == "off" else other]}))
    assert await settled(replica) == (2, [other], "Running")
    assert status(replica.kube)["eviction"]["kind"] == "Moved"
    assert status(replica.kube)["eviction"]["message"].endswith(
        f"Its new place is reserved, with workers on {other} (2)."
    )
    assert len(await granted(replica.kube)) == 1
    assert await settled(replica) == (2, [other], "Running")  # the annotation is of the attempt before


@pytest.mark.parametrize(
    ("attempt", "seconds", "where"),
    [
        (2, 900.0, {"to": ["n1", "n2"], "off": ["n1", "n2"]}),
        (1, -1.0, {"off": ["n1", "n2"]}),
        (1, 900.0, {"off": ["n1", "n2"]}),
        (1, 900.0, {"class": "L4"}),
    ],
    ids=["another attempt", "too late", "no place", "no such class"],
)
async def test_it_stays_where_it_is_where_the_wish_moves_it_nowhere(
    attempt: int, seconds: float, where: dict[str, Any]
) -> None:
    replica, held, _ = await running()
    ask(replica, wish(attempt, seconds, **where))
    assert await settled(replica) == (1, [held], "Running")


async def test_a_wish_ends_by_the_clock_alone() -> None:
    replica, held, _ = await running()
    submit(replica.kube, "blocks", workers=2)
    await replica.run()
    ask(replica, wish(1, 30.0, off=[held]))
    asked = []
    for seconds in (1.0, 40.0):
        await replica.run(seconds)
        replica.observe()
        jobs = {job.key: job for job in replica.operator.cluster.snapshot(simulated_now()).jobs}
        asked.append((jobs["red/train"].excluded_nodes, jobs["red/train"].move_asked))
    assert asked == [({held}, True), (frozenset(), False)]
    assert status(replica.kube)["phase"] == "Running"
