"""The forms of the pages, sent by a real browser, which says itself where they come from."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cotenant.controller.client import kube
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.cli.dashboard.test_request_page import PAGE, asked, quota_request, stored
from tests.live.cli.dashboard.chromium import PROGRAM, Chromium, chromium
from tests.live.cli.dashboard.pictures import CODE, served

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="there is no chromium here (Debian: apt-get install chromium)"),
    pytest.mark.timeout(120),
]
LIVE = "document.getElementById('state')?.textContent === 'live'"


@pytest.fixture
def caller() -> FakeCaller:
    return asked()


@pytest.fixture
async def tab(caller: FakeCaller) -> AsyncIterator[Chromium]:
    """The page of a request that waits for an answer, on a narrow screen."""
    async with served(caller) as root, chromium() as browser:
        await browser.look(wide=360)
        await browser.open(f"{root}/login?code={CODE}")
        await browser.open(root + PAGE)
        await browser.until(LIVE)
        yield browser


async def test_an_administrator_approves_a_request_by_its_button(tab: Chromium, caller: FakeCaller) -> None:
    assert await tab.evaluate("document.documentElement.scrollWidth") <= 360
    await tab.evaluate("document.querySelector('input[name=message]').value = 'until Monday'")
    await tab.evaluate("document.querySelector('button[value=Approved]').click()")
    await tab.until("document.body.textContent.includes('Answered by')")
    assert stored(caller)["status"]["approval"] == {"decision": "Approved", "by": "alice", "message": "until Monday"}
    assert tab.complaints == []


async def test_what_is_typed_and_the_focus_stay_if_the_page_changes(tab: Chromium, caller: FakeCaller) -> None:
    field = "document.querySelector('input[name=message]')"
    await tab.evaluate(f"{field}.focus()")
    await tab.call("Input.insertText", text="until Mon")
    caller.kube.put(kube.QUOTA_REQUESTS, quota_request("camera-ready", message="the queue has 3 GPUs less"))
    await tab.until("document.querySelector('main').textContent.includes('3 GPUs less')", most_s=5)
    await tab.call("Input.insertText", text="day")
    assert await tab.evaluate(f"{field}.value") == "until Monday"


HEARD = """
const Source = window.EventSource;
window.EventSource = class extends Source {
  addEventListener(kind, then) {
    super.addEventListener(kind, (event) => { window.heard = event.data ?? ""; then(event); });
  }
};
"""


async def test_a_click_counts_if_the_page_changes_between_press_and_release(tab: Chromium, caller: FakeCaller) -> None:
    """The answer is sent, and refused: it is about the page that was read."""
    await tab.call("Page.enable")
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source=HEARD)
    await tab.call("Page.reload")
    await tab.until(f"'heard' in window && {LIVE}")
    button = "document.querySelector('button[value=Approved]')"
    await tab.evaluate(f"{button}.scrollIntoView({{block: 'center'}})")
    at = await tab.evaluate(f"(({{x, y}}) => ({{x: x + 5, y: y + 5}}))({button}.getBoundingClientRect())")
    await tab.call("Input.dispatchMouseEvent", type="mousePressed", button="left", clickCount=1, **at)
    caller.kube.put(kube.QUOTA_REQUESTS, quota_request("camera-ready", message="the queue has 3 GPUs less"))
    await tab.until("window.heard.includes('3 GPUs less')")
    await tab.call("Input.dispatchMouseEvent", type="mouseReleased", button="left", clickCount=1, **at)
    await tab.until("document.body.textContent.includes('Your answer was not taken: the object has been modified')")
    assert tab.complaints == []


async def test_who_presses_log_out_is_logged_out(tab: Chromium, caller: FakeCaller) -> None:
    await tab.evaluate("document.querySelector('form[action=\"/logout\"] button').click()")
    await tab.until("location.pathname === '/login'")
    assert caller.is_closed
