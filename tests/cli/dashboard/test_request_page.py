"""QuotaRequests on pages: who may approve them answers one, in their own name, and everybody else reads."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cotenant.controller.client import kube
from cotenant.controller.client.kube import Document
from tests.cli.dashboard.conftest import Browser, Open
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.cli.dashboard.played_cluster import HOSTILE, at, played

PAGE = "/requests/speech/camera-ready"


def quota_request(name: str, phase: str = "Pending", **status: Any) -> Document:
    return {
        "metadata": {"namespace": "speech", "name": name, "creationTimestamp": at(-30)},
        "spec": {"quotas": [{"gpus": 4}], "until": at(9000), "reason": f"for the paper {HOSTILE}"},
        "status": {"phase": phase, "queue": "speech", "asked": "4 GPUs", "message": "an administrator has to answer"}
        | status,
    }


def asked(**caller: Any) -> FakeCaller:
    """A caller of a cluster in which a tenant asks for more."""
    found = played(**caller)
    found.kube.put(kube.QUOTA_REQUESTS, quota_request("camera-ready"))
    return found


def stored(caller: FakeCaller) -> Document:
    found = caller.kube.stored(kube.QUOTA_REQUESTS, "camera-ready", "speech")
    assert found is not None
    return found


async def text(browser: Browser, path: str) -> str:
    async with browser.get(path) as response:
        assert response.status == 200, path
        return await response.text()


async def filled(browser: Browser) -> dict[str, str]:
    """What the form of the page sends besides the decision."""
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', await text(browser, PAGE)))


async def answered(browser: Browser, **form: str) -> int:
    async with browser.post(PAGE, data=await filled(browser) | form, allow_redirects=False) as response:
        return response.status


async def test_requests_are_listed_by_what_became_of_them(open_dashboard: Open) -> None:
    caller = asked()
    caller.kube.put(kube.QUOTA_REQUESTS, quota_request("last-year", "Expired"))
    browser = await open_dashboard(caller)
    waiting = await text(browser, "/requests")
    assert ("waiting 1" in waiting, "over 1" in waiting) == (True, True)
    assert ("speech/camera-ready" in waiting, "speech/last-year" in waiting) == (True, False)
    assert "speech/last-year" in await text(browser, "/requests?show=over")
    assert "<img" not in waiting
    assert "speech/camera-ready" not in await text(browser, "/requests?queue=vision")


@pytest.mark.parametrize("decision", ["Approved", "Denied"])
async def test_the_answer_is_written_in_the_name_of_whoever_gives_it(open_dashboard: Open, decision: str) -> None:
    caller = asked()
    browser = await open_dashboard(caller)
    assert await answered(browser, decision=decision, message="until Monday") == 303
    assert stored(caller)["status"]["approval"] == {"decision": decision, "by": "alice", "message": "until Monday"}
    assert stored(caller)["status"]["phase"] == "Pending", "what becomes of it, the operator says"


async def test_what_was_granted_can_be_taken_back_and_not_granted_again(open_dashboard: Open) -> None:
    caller = asked()
    caller.kube.put(kube.QUOTA_REQUESTS, quota_request("camera-ready", "Granted"))
    page = await text(await open_dashboard(caller), PAGE)
    assert ("Revoke" in page, ">Approve<" in page) == (True, False)


async def test_who_may_not_approve_has_no_form_and_a_forged_one_is_refused(open_dashboard: Open) -> None:
    caller = asked(approves=False)
    browser = await open_dashboard(caller)
    page = await text(browser, PAGE)
    assert ("<button name=" in page, "cotenant-administrator" in page) == (False, True)
    metadata = stored(caller)["metadata"]
    forged = {"decision": "Approved", "uid": metadata["uid"], "version": metadata["resourceVersion"]}
    assert await answered(browser, **forged) == 303
    assert "approval" not in stored(caller)["status"]
    assert "Your answer was not taken: only who may approve" in await text(browser, PAGE)


async def test_an_answer_is_to_the_request_that_was_shown(open_dashboard: Open) -> None:
    caller = asked()
    browser = await open_dashboard(caller)
    form = await filled(browser)
    caller.kube.put(kube.QUOTA_REQUESTS, quota_request("camera-ready", asked="400 GPUs"))
    async with browser.post(PAGE, data=form | {"decision": "Approved"}, allow_redirects=False) as response:
        assert response.status == 303
    assert "approval" not in stored(caller)["status"]
    assert "has been modified" in await text(browser, PAGE)


@pytest.mark.parametrize(
    ("path", "form", "headers", "status"),
    [
        pytest.param(PAGE, {"decision": "Approved"}, {"Origin": "https://evil.example"}, 403, id="of another site"),
        pytest.param(PAGE, {"decision": "Perhaps", "uid": "u", "version": "1"}, {}, 400, id="no such decision"),
        pytest.param(PAGE, {"decision": "Approved"}, {}, 400, id="of no object"),
        pytest.param("/requests/speech/..%2f..%2fsecrets", {"decision": "Denied"}, {}, 404, id="of a path"),
    ],
)
async def test_a_form_that_the_page_does_not_have_writes_nothing(
    open_dashboard: Open, path: str, form: dict[str, str], headers: dict[str, str], status: int
) -> None:
    caller = asked()
    browser = await open_dashboard(caller)
    async with browser.post(path, data=form, headers=headers, allow_redirects=False) as response:
        assert response.status == status
    assert "PATCH speech/quotarequests" not in caller.calls
    browser.session.cookie_jar.clear()
    async with browser.post(PAGE, data={"decision": "Approved"}, allow_redirects=False) as response:
        assert (response.status, response.headers.get("Location")) == (303, "/login")
