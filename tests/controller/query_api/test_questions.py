"""Questions over the last plan: one at a time, so many at most, and none where no plan is."""

from __future__ import annotations

import asyncio
import threading

import pytest

from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.query_api.questions import (
    WAITING_MAX,
    WAITING_OF_ONE_MAX,
    NoSituationError,
    Questions,
    TooManyQuestionsError,
)
from cotenant.core.model.plan import Plan
from cotenant.core.policy import DEFAULT
from tests.support.clusters import make_job, make_snapshot


def planned() -> Questions:
    questions = Questions(DEFAULT, Leadership(lambda: True))
    questions.on_plan(make_snapshot(nodes=[], queues=[], jobs=[make_job("a")]), Plan())
    return questions


async def test_a_question_is_about_the_last_plan() -> None:
    questions = planned()
    assert await questions.ask("user", lambda subject: sorted(subject.situation.jobs)) == ["red/a"]
    questions.on_plan(make_snapshot(nodes=[], queues=[], jobs=[make_job("b")]), Plan())
    assert await questions.ask("user", lambda subject: sorted(subject.situation.jobs)) == ["red/b"]


async def test_who_does_not_lead_answers_nothing() -> None:
    questions = planned()
    questions.leadership.changed(False)
    with pytest.raises(NoSituationError, match="ask again"):
        await questions.ask("user", lambda _: 1)


async def test_what_shares_a_plan_shares_what_was_worked_out_of_it() -> None:
    questions = planned()
    lines = [await questions.ask("user", lambda subject: subject.line) for _ in range(2)]
    assert lines[0] is lines[1]


async def test_one_runs_at_a_time_and_more_than_so_many_are_turned_away() -> None:
    questions, open_gate, running = planned(), threading.Event(), list[int]()

    def wait(_: object) -> int:
        running.append(1)
        open_gate.wait(10.0)
        return len(running)

    asked = [asyncio.create_task(questions.ask(f"user-{number}", wait)) for number in range(WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyQuestionsError):
        await questions.ask("another", wait)
    assert len(running) <= 1
    open_gate.set()
    assert await asyncio.gather(*asked) == list(range(1, WAITING_MAX + 1))


async def test_whoever_asks_in_a_loop_leaves_places_for_others() -> None:
    questions, open_gate = planned(), threading.Event()
    asked = [
        asyncio.create_task(questions.ask("loop", lambda _: open_gate.wait(10.0))) for _ in range(WAITING_OF_ONE_MAX)
    ]
    await asyncio.sleep(0)
    with pytest.raises(TooManyQuestionsError):
        await questions.ask("loop", lambda _: True)
    other = asyncio.create_task(questions.ask("other", lambda _: True))
    await asyncio.sleep(0)
    open_gate.set()
    assert await other
    assert await asyncio.gather(*asked) == [True] * WAITING_OF_ONE_MAX
    assert await questions.ask("loop", lambda _: True)
