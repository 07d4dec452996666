"""The ways in: a pasted token, a code, a proxy that is named; and who is kept out."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from cotenant.controller.client.kube import UnreachableError
from cotenant.dashboard.access.entrances import Entrances, EntryError, TrustedProxy, viewer_of
from cotenant.dashboard.access.sessions import Sessions, Viewer
from tests.cli.dashboard.access.test_token_claims import token as web_token
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.support.fake_kube import FakeKube

PROXY = TrustedProxy(networks=(ip_network("10.0.12.7/32"), ip_network("fd00::/64")), header="X-Token")


def entrances(callers: dict[str, FakeCaller], proxy: TrustedProxy = PROXY) -> Entrances:
    def client_of(token: str) -> FakeCaller:
        return callers.setdefault(token, FakeCaller(FakeKube()))

    return Entrances(Sessions(lambda: 0.0), client_of=client_of, proxy=proxy)


@pytest.mark.parametrize(
    "token", ["", " ", "a" * 8193, "tök", "a\nb"], ids=["none", "blank", "long", "odd", "two lines"]
)
async def test_what_cannot_be_a_token_is_not_asked_about(token: str) -> None:
    callers: dict[str, FakeCaller] = {}
    with pytest.raises(EntryError, match="no token"):
        await entrances(callers).by_token(token)
    assert callers == {}


async def test_a_token_that_the_api_server_does_not_know_leads_nowhere() -> None:
    caller = FakeCaller(FakeKube())
    caller.token_ended = True
    with pytest.raises(EntryError, match="does not know"):
        await entrances({"t": caller}).by_token("t")
    assert caller.is_closed


async def test_nobody_is_let_in_as_nobody() -> None:
    with pytest.raises(EntryError, match="does not know"):
        await entrances({"t": FakeCaller(FakeKube(), user="system:anonymous")}).by_token("t")


@pytest.mark.parametrize(
    ("user", "may_list", "given", "namespace"),
    [
        ("alice", True, "", ""),
        ("alice", True, "red", "red"),
        ("alice", False, "", "default"),
        ("alice", False, "red", "red"),
        ("system:serviceaccount:blue:trainer", False, "", "blue"),
        ("system:serviceaccount:blue:trainer", True, "", ""),
    ],
)
async def test_people_begin_where_they_may_look(user: str, may_list: bool, given: str, namespace: str) -> None:
    caller = FakeCaller(FakeKube(), user=user, denied=lambda plural, where: not may_list)
    assert (await viewer_of(caller, given)).namespace == namespace


@pytest.mark.parametrize(
    ("peer", "headers", "token"),
    [
        ("10.0.12.7", {"X-Token": "t"}, "t"),
        ("10.0.12.7", {"X-Token": "Bearer t"}, "t"),
        ("fd00::9", {"X-Token": "bearer t"}, "t"),
        ("10.0.12.8", {"X-Token": "t"}, ""),
        ("10.0.12.7", {"Authorization": "Bearer t"}, ""),
        ("10.0.12.7", {}, ""),
        (None, {"X-Token": "t"}, ""),
        ("a socket", {"X-Token": "t"}, ""),
    ],
)
def test_a_header_is_read_from_the_named_proxy_alone(peer: str | None, headers: dict[str, str], token: str) -> None:
    assert PROXY.token(peer, headers) == token
    assert TrustedProxy().token(peer, {"Authorization": "Bearer t"} | headers) == ""


async def test_whoever_the_proxy_speaks_for_is_one_viewer_and_each_token_another() -> None:
    callers: dict[str, FakeCaller] = {}
    doors = entrances(callers)
    found = [await doors.by_proxy("10.0.12.7", {"X-Token": token}) for token in ("a", "b", "a")]
    assert found[0] is found[2]
    assert found[0] is not found[1]
    assert await doors.by_proxy("10.0.12.7", {}) is None
    assert [caller.calls for caller in callers.values()] == [
        ["POST selfsubjectreviews", "POST selfsubjectaccessreviews"]
    ] * 2


async def test_a_code_is_not_spent_on_a_cluster_that_does_not_answer() -> None:
    answers = iter([UnreachableError("gone"), None])

    async def own() -> Viewer:
        if (error := next(answers)) is not None:
            raise error
        return Viewer(FakeCaller(FakeKube()), "alice")

    doors = Entrances(Sessions(lambda: 0.0), own=own, code="once")
    with pytest.raises(UnreachableError):
        await doors.by_code("once")
    assert await doors.by_code("once")
    with pytest.raises(EntryError):
        await doors.by_code("once")
    with pytest.raises(EntryError):
        await doors.by_code("")


async def test_a_session_lasts_no_longer_than_its_token() -> None:
    now = [1_000.0]
    held = Sessions(lambda: now[0] + 7)
    doors = Entrances(held, client_of=lambda token: FakeCaller(FakeKube()), proxy=PROXY, clock=lambda: now[0])
    cookie = await doors.by_token(web_token({"exp": 1_060}))
    passed_on = {"X-Token": web_token({"exp": 1_050})}
    viewer = await doors.by_proxy("10.0.12.7", passed_on)
    assert viewer is not None
    now[0] = 1_049
    assert held.find(cookie) is not None
    assert held.keep(viewer)
    now[0] = 1_050
    assert not held.keep(viewer)
    assert await doors.by_proxy("10.0.12.7", passed_on) is not viewer
    now[0] = 1_060
    assert held.find(cookie) is None


async def test_who_is_refused_reads_when_the_token_ended() -> None:
    caller = FakeCaller(FakeKube())
    caller.token_ended = True
    ended = web_token({"exp": 60})
    doors = entrances({ended: caller})
    for entered in (doors.by_token(ended), doors.by_proxy("10.0.12.7", {"X-Token": ended})):
        with pytest.raises(EntryError, match="it ended at 1970-01-01 00:01:00 UTC"):
            await entered
