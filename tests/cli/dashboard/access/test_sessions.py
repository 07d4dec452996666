"""Sessions: found by their cookie, over by age, silence, number or the end of their token."""

from __future__ import annotations

import pytest

from cotenant.controller.client.kube import TRAINING_JOBS
from cotenant.dashboard.access import sessions
from cotenant.dashboard.access.sessions import Sessions, Viewer
from cotenant.dashboard.reading.caller_client import Scope
from cotenant.dashboard.reading.rows import job_row
from cotenant.dashboard.reading.sources import settled
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.support.fake_kube import FakeKube


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def viewer(user: str = "alice") -> Viewer:
    return Viewer(FakeCaller(FakeKube()), user)


async def test_a_viewer_is_found_by_their_cookie_alone() -> None:
    held = Sessions(Clock())
    one, other = viewer(), viewer()
    cookies = await held.open(one), await held.open(other)
    assert [held.find(cookie) for cookie in (*cookies, "", "guessed")] == [one, other, None, None]


@pytest.mark.parametrize(
    ("looks_at", "there"),
    [
        ([3000], True),
        ([3601], False),
        ([3000, 6000, 9000], True),
        (list(range(3000, 43_201, 3000)), True),
        ([*range(3000, 43_201, 3000), 43_201], False),
    ],
    ids=["in time", "silent for an hour", "looks again and again", "for half a day", "and no longer"],
)
async def test_a_session_ends_with_silence_and_with_age(looks_at: list[int], there: bool) -> None:
    clock = Clock()
    held = Sessions(clock)
    cookie = await held.open(viewer())
    found = None
    for clock.now in looks_at:
        found = held.find(cookie)
    assert (found is not None) is there


async def test_who_logs_in_again_and_again_puts_out_no_one_else() -> None:
    held = Sessions(Clock())
    other = await held.open(viewer("bob"))
    cookies = [await held.open(viewer()) for _ in range(sessions.SESSIONS_OF_ONE + 2)]
    assert [held.find(cookie) is not None for cookie in cookies] == [False] * 2 + [True] * sessions.SESSIONS_OF_ONE
    assert held.find(other) is not None


async def test_the_oldest_make_room_and_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    held = Sessions(Clock())
    callers = [FakeCaller(FakeKube()) for _ in range(3)]
    cookies = [await held.open(Viewer(caller, "alice")) for caller in callers]
    assert [held.find(cookie) is not None for cookie in cookies] == [False, True, True]
    assert [caller.is_closed for caller in callers] == [True, False, False]


async def test_a_session_whose_token_has_ended_is_over() -> None:
    caller = FakeCaller(FakeKube())
    held, one = Sessions(Clock()), Viewer(caller, "alice")
    cookie = await held.open(one)
    caller.token_ended = True
    await settled([one.follow(Scope(TRAINING_JOBS), job_row)], 1)
    assert held.find(cookie) is None
    await held.sweep()
    assert caller.is_closed


async def test_what_is_read_for_one_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SOURCES_MAX", 3)
    one = viewer()
    for number in range(10):
        one.follow(Scope(TRAINING_JOBS, f"team-{number}"), job_row)
    assert len(one._sources) == 3
    await one.close()


def test_credentials_are_in_no_representation() -> None:
    assert "FakeCaller" not in repr(viewer())
