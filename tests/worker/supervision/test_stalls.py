"""A whole world that stands still: what is said of it, and when. Times in seconds; ranks began at 0."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_worker.supervision.conductor import Conductor
from cotenant_worker.supervision.failure_cause import RankExit
from cotenant_worker.supervision.hangs import RankHeartbeat
from cotenant_worker.supervision.messages import KillRanks, PodReady, RankExited
from cotenant_worker.supervision.stalls import find_stall
from tests.support.pod_sandbox import contract


def beat(rank: int, *, moved: float = 0.0, turned: float = 0.0, seen: float = 199.5, waits: str = "") -> RankHeartbeat:
    return RankHeartbeat(
        rank, 0, 3, f"train.py:{rank} in main", seen, moved, loop_count=9, looped_at=turned, collective=waits
    )


@pytest.mark.parametrize(
    ("beats", "live", "want"),
    [
        pytest.param([beat(0), beat(1, turned=81)], {0, 1}, None, id="one has turned not long ago"),
        pytest.param([beat(0), beat(1, moved=81)], {0, 1}, None, id="one has come to a collective not long ago"),
        pytest.param([], set(), None, id="all have ended"),
        pytest.param(
            [beat(0, turned=79), beat(1, moved=60)],
            {0, 1},
            "no rank has made a step, a report or a collective for 121 s:"
            " rank 0 stands at train.py:0 in main; rank 1 stands at train.py:1 in main",
            id="nobody gets on",
        ),
        pytest.param(
            [beat(0), beat(1, turned=199)],
            {0},
            "the program has made no step, report or collective for 200 s: rank 0 stands at train.py:0 in main",
            id="the one that turned last has ended",
        ),
        pytest.param(
            [RankHeartbeat(0, 0, -1, "", 199.5)],
            {0},
            "the program has made no step, report or collective since it started 200 s ago: rank 0 stands in a library",
            id="it never began",
        ),
        pytest.param(
            [beat(0), beat(1, seen=150)],
            {0, 1, 2},
            "no rank has made a step, a report or a collective for 200 s: rank 0 stands at train.py:0 in main;"
            " rank 1 has not been heard of for 50 s; rank 2 has not been heard of",
            id="some are silent",
        ),
        pytest.param(
            [beat(rank) for rank in range(9)],
            set(range(9)),
            "no rank has made a step, a report or a collective for 200 s: "
            + "; ".join(f"rank {rank} stands at train.py:{rank} in main" for rank in range(4))
            + " and 5 more",
            id="many ranks",
        ),
        pytest.param(
            [beat(0, turned=160, waits="all_reduce"), beat(1, turned=159, waits="broadcast")],
            {0, 1},
            "all 2 ranks have waited 40 s in collectives that do not fit together:"
            " rank 0 is in all_reduce at train.py:0 in main; rank 1 is in broadcast at train.py:1 in main",
            id="all wait in collectives: said earlier",
        ),
        pytest.param(
            [beat(0, turned=160, waits="all_reduce"), beat(1, turned=159)], {0, 1}, None, id="one does not wait"
        ),
        pytest.param(
            [beat(0, turned=160, waits="all_reduce"), beat(1, turned=159, waits="barrier", seen=180)],
            {0, 1},
            None,
            id="one may have gone on",
        ),
    ],
)
def test_a_standstill_says_where_the_ranks_stand(beats: list[RankHeartbeat], live: set[int], want: str | None) -> None:
    found = find_stall(beats, live, started_at=0.0, now=200.0, timeout_s=120.0)
    assert (found.message if found else None) == want


class Told:
    """The pods of an attempt, as far as the conductor talks to them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.commands: list[Any] = []

    async def send(self, pod: int, message: Any) -> None:
        self.commands.append(message)

    def send_to_head(self, message: Any) -> None:
        self.texts.append(
            message.text.partition(":")[0].removeprefix("the program has made no step, report or collective ")
        )


@pytest.mark.parametrize(
    ("platform", "turns", "texts", "ends_at"),
    [
        ({}, {}, ["for 120 s", "for 240 s", "for 480 s"], None),
        ({}, {300.0: 8}, ["for 120 s", "for 240 s", "", "for 120 s"], None),
        ({"stallTimeoutSeconds": 300}, {}, ["for 120 s", "for 240 s"], 300.0),
        ({"stallTimeoutSeconds": 60}, {}, ["for 60 s"], 60.0),
        ({"mode": "rayTrain"}, {}, [], None),
    ],
    ids=[
        "said ever more seldom",
        "taken back and said again",
        "ended at the timeout",
        "a short timeout",
        "a driver of Ray Train",
    ],
)
async def test_a_standstill_is_said_and_ends_the_attempt_only_where_the_job_says_so(
    platform: dict[str, Any], turns: dict[float, int], texts: list[str], ends_at: float | None
) -> None:
    now = [0.0]
    pods = Told()
    mode = platform.get("mode", "command")
    conductor = Conductor(contract([1], command=("x",), mode=mode, platform=platform), pods, clock=lambda: now[0])
    await conductor.handle(0, PodReady("127.0.0.1"))
    turned, ended = 7, None
    while now[0] <= 500 and ended is None:
        turned = turns.get(now[0], turned)
        said = RankHeartbeat(0, 0, -1, loop_count=turned)
        await conductor.handle(0, said)
        await conductor._check_stalls()
        ended = now[0] if KillRanks(0) in pods.commands else None
        now[0] += 1.0
    assert (pods.texts, ended) == (texts, ends_at)


async def test_collectives_that_do_not_fit_together_hang_for_as_long_as_any_other() -> None:
    now = [0.0]
    pods = Told()
    conductor = Conductor(contract([1, 1], command=("x",)), pods, clock=lambda: now[0])
    for pod in (0, 1):
        await conductor.handle(pod, PodReady("127.0.0.1"))
    ended = None
    while now[0] <= 1000 and ended is None:
        for rank, waits in enumerate(("all_reduce", "broadcast")):
            said = RankHeartbeat(rank, 0, 5, "a.py:1", loop_count=1, collective=waits)
            await conductor.handle(rank, said)
        await conductor._check_hangs()
        await conductor._check_stalls()
        ended = now[0] if KillRanks(0) in pods.commands else None
        now[0] += 1.0
    assert ended == 600.0
    assert pods.texts[0] == "all 2 ranks have waited 30 s in collectives that do not fit together"


async def test_a_pod_that_is_cut_off_is_not_a_program_that_stands_still() -> None:
    now = [0.0]
    pods = Told()
    job = contract([1, 1], command=("x",), platform={"stallTimeoutSeconds": 5})
    conductor = Conductor(job, pods, clock=lambda: now[0])
    for pod in (0, 1):
        await conductor.handle(pod, PodReady("127.0.0.1"))
        conductor.record_contact(pod)
    now[0] = 10.0
    conductor.record_contact(0)
    await conductor._check_stalls()
    assert KillRanks(0) not in pods.commands
    conductor.record_contact(1)
    await conductor._check_stalls()
    assert KillRanks(0) in pods.commands


@pytest.mark.parametrize(("code", "last"), [(0, ""), (1, "since it started 130 s ago")])
async def test_what_was_said_of_a_standstill_is_taken_back_when_the_job_completes(code: int, last: str) -> None:
    now = [0.0]
    pods = Told()
    conductor = Conductor(contract([1], command=("x",)), pods, clock=lambda: now[0])
    await conductor.handle(0, PodReady("127.0.0.1"))
    for now[0] in (1.0, 131.0):
        await conductor.handle(0, RankHeartbeat(0, 0, -1))
    await conductor._check_stalls()
    ended = RankExit(0, 0, code, None, now[0])
    await conductor.handle(0, RankExited(ended, age_s=0.0))
    await conductor._execute(conductor.supervisor.tick(140.0))
    assert pods.texts[-1] == last


def test_a_rank_that_does_nothing_that_is_counted_is_not_said_to_stand_still() -> None:
    beats = [RankHeartbeat(rank, 0, -1, f"train.py:{rank} in main", 199.5, uncounted=True) for rank in (0, 1)]
    found = find_stall(beats, {0, 1}, started_at=0.0, now=200.0, timeout_s=120.0)
    assert found is not None
    assert not found.all_heard_from  # nothing is said; the job's own stallTimeout may still end it
    assert found.message.endswith(
        "rank 0 stands at train.py:0 in main; rank 1 stands at train.py:1 in main."
        " Steps of a plain loop in JAX are not seen: if it made some, let it report() them"
    )
