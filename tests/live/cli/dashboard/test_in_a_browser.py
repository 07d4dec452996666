"""The pages in a real browser: live, by keys, without scripts, on a narrow screen, against a hostile tenant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cotenant.controller.client import kube
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.cli.dashboard.played_cluster import job, played
from tests.cli.dashboard.readme_picture import PICTURE, digest_of_page, stamp_of
from tests.live.cli.dashboard.chromium import PROGRAM, Chromium, chromium
from tests.live.cli.dashboard.pictures import CODE, PATHS, photograph_for_docs, served

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="there is no chromium here (Debian: apt-get install chromium)"),
    pytest.mark.timeout(120),
]
LIVE = "document.getElementById('state')?.textContent === 'live'"


@pytest.fixture
async def caller() -> FakeCaller:
    return played(datetime.now(UTC))


@pytest.fixture
async def root(caller: FakeCaller) -> AsyncIterator[str]:
    async with served(caller) as address:
        yield address


@pytest.fixture
async def tab(root: str) -> AsyncIterator[Chromium]:
    async with chromium() as browser:
        await browser.look()
        await browser.open(f"{root}/login?code={CODE}")
        yield browser


async def test_a_page_shows_a_change_within_a_second_and_keeps_the_focus(
    tab: Chromium, root: str, caller: FakeCaller
) -> None:
    await tab.open(root + "/line")
    await tab.until(LIVE)
    await tab.evaluate("document.querySelector('main tbody a').focus()")
    caller.kube.put(kube.TRAINING_JOBS, job("vision", "just-now", "Pending"))
    await tab.until("document.body.textContent.includes('vision/just-now')", most_s=5)
    assert await tab.evaluate("document.activeElement.textContent") == "vision/sweep-0"


async def test_keys_lead_through_the_views(tab: Chromium, root: str) -> None:
    await tab.open(root + "/")
    await tab.until(LIVE)
    await tab.press("3")
    await tab.until(f"location.pathname === '/gpus' && {LIVE}")  # keys that come before the script are lost
    await tab.press("/")
    await tab.until("document.activeElement.id === 'find'")
    await tab.press("4")
    assert await tab.evaluate("location.pathname + document.activeElement.value") == "/gpus4"


async def test_keys_can_be_turned_off_for_good(tab: Chromium, root: str) -> None:
    """What WCAG 2.2 asks of shortcuts of one character (2.1.4): people who dictate press them without meaning it."""
    await tab.open(root + "/")
    await tab.until(LIVE)
    await tab.evaluate("document.querySelector('#keys button').click()")
    await tab.open(root + "/line")
    await tab.until(f"{LIVE} && document.querySelector('#keys button').textContent === 'Turn on'")
    await tab.press("3")
    await tab.press("/")
    assert await tab.evaluate("location.pathname + document.activeElement.id") == "/line"
    await tab.evaluate("document.querySelector('#keys button').click()")
    await tab.press("3")
    await tab.until("location.pathname === '/gpus'")


async def test_all_pages_are_without_complaint_and_fit_every_screen(tab: Chromium, root: str) -> None:
    for wide, dark in ((1280, False), (1280, True), (360, False), (400, True)):
        await tab.look(wide=wide, dark=dark)
        for path in PATHS.values():
            await tab.open(root + path)
            await tab.until(LIVE)
            assert await tab.evaluate("document.documentElement.scrollWidth") <= wide, path
    assert tab.complaints == []


async def test_a_hostile_job_runs_nothing(tab: Chromium, root: str) -> None:
    for path in ("/jobs/search/hostile", "/jobs/search/train-1", "/line?show=finished"):
        await tab.open(root + path)
        await tab.until(LIVE)
        await asyncio.sleep(0)
        assert (
            await tab.evaluate(
                "document.title !== 'owned' && document.querySelectorAll('main img, main script').length"
            )
            == 0
        )
    assert "onerror" in await tab.evaluate("document.querySelector('main').textContent")


async def test_pages_can_be_read_without_scripts(tab: Chromium, root: str, tmp_path: Path) -> None:
    await tab.look(scripts=False)
    await tab.call("Page.navigate", url=root + "/line")
    await asyncio.sleep(1)
    await tab.picture(tmp_path / "line.png")
    found = await tab.call("DOM.getDocument")
    markup = await tab.call("DOM.getOuterHTML", nodeId=found["root"]["nodeId"])
    assert "Needs 8 GPUs of H100" in markup["outerHTML"]
    assert "UTC</time>" in markup["outerHTML"]
    assert 'id="keys" hidden' in markup["outerHTML"], "without scripts no key works"


async def test_a_picture_for_the_readme_carries_the_digest_of_the_page(
    tab: Chromium, root: str, tmp_path: Path
) -> None:
    await photograph_for_docs(tab, root, made := tmp_path / "dashboard.png")
    assert stamp_of(made.read_bytes()) == await digest_of_page()
    assert PICTURE.read_bytes()[16:24] == made.read_bytes()[16:24], "they are of one size"


async def test_every_field_has_a_label_every_drawing_a_name_and_no_identity_is_used_twice(
    tab: Chromium, root: str
) -> None:
    """What WCAG 2.2 AA asks of names, and can be looked up in a page."""
    unnamed = """[
        ...[...document.querySelectorAll('input:not([type=hidden]), button, a, summary')].filter(
            (one) => !(one.labels?.length || one.textContent.trim() || one.querySelector('title'))),
        ...[...document.querySelectorAll('svg[role=img]')].filter((one) => !one.getAttribute('aria-label')),
        ...[...document.querySelectorAll('[id]')].filter(
            (one) => document.querySelectorAll('#' + CSS.escape(one.id)).length > 1),
        ...(document.querySelectorAll('h1').length === 1 && document.documentElement.lang ? [] : [document.body]),
        ...[...document.querySelectorAll('table')].filter((one) => !one.querySelector('thead th')),
    ].map((one) => one.outerHTML.slice(0, 120))"""
    for path in PATHS.values():
        await tab.open(root + path)
        await tab.until(LIVE)
        assert await tab.evaluate(unnamed) == [], path
