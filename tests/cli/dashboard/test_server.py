"""The pages over HTTP: who gets in, what they see, how an update comes, what a hostile tenant cannot do."""

from __future__ import annotations

import asyncio
import json
from html.parser import HTMLParser
from typing import Any

import pytest

from cotenant.controller.client import kube
from cotenant.dashboard.pages import PAGES
from tests.cli.dashboard.conftest import CODE, Browser, Open
from tests.cli.dashboard.played_cluster import HOSTILE, job, played
from tests.cli.dashboard.views.test_run import RECORD

JOBS = ("/jobs/speech/train-1", "/jobs/speech/sweep-1", "/jobs/search/hostile")
PATHS = (*(page.path for page in PAGES), "/nodes/gpu-node-6", *JOBS)


class Tags(HTMLParser):
    """Every tag of a page with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


async def text(browser: Browser, path: str) -> str:
    async with browser.get(path) as response:
        assert response.status == 200, path
        return await response.text()


async def test_without_a_session_there_is_a_login_and_nothing_else(open_dashboard: Open) -> None:
    browser = await open_dashboard(played())
    browser.session.cookie_jar.clear()
    for path in PATHS:
        async with browser.get(path, allow_redirects=False) as response:
            assert (response.status, response.headers.get("Location")) == (303, "/login"), path
        async with browser.get(path, params={"live": "1"}, allow_redirects=False) as response:
            assert response.status == 401


async def test_the_code_of_an_address_is_good_once(browser: Browser) -> None:
    browser.session.cookie_jar.clear()
    async with browser.get(f"/login?code={CODE}") as response:
        assert response.status == 403
        assert "good once" in await response.text()


async def test_a_session_is_a_cookie_that_no_script_and_no_other_site_gets(open_dashboard: Open) -> None:
    browser = await open_dashboard(played())
    (cookie,) = browser.session.cookie_jar
    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"
    assert len(cookie.value) >= 43


@pytest.mark.parametrize("path", PATHS)
async def test_every_page_forbids_what_it_does_not_need(browser: Browser, path: str) -> None:
    async with browser.get(path) as response:
        policy, markup = response.headers["Content-Security-Policy"], await response.text()
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    tags = Tags()
    tags.feed(markup)
    # The page has nothing that its Content-Security-Policy would block.
    assert not [tag for tag, _ in tags.found if tag in ("style", "img", "iframe", "object", "base")]
    for tag, attributes in tags.found:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        assert all(not value.startswith(("http", "//", "javascript:")) for value in attributes.values()), attributes
        assert tag != "script" or attributes["src"].startswith("/assets/dashboard.js")


@pytest.mark.parametrize("path", [*JOBS, "/line?show=finished"])
async def test_what_a_tenant_writes_is_text(browser: Browser, path: str) -> None:
    markup = await text(browser, path)
    assert "<img" not in markup
    assert "onerror=document" not in markup.replace("&lt;img src=x onerror=document", "")
    if path != "/jobs/speech/sweep-1":
        assert HOSTILE.partition(" ")[0].replace("<", "&lt;") in markup


async def test_the_views_show_what_objects_and_the_operator_say(browser: Browser) -> None:
    assert "borrows 5 of 32 (H100): 15.62 %" in await text(browser, "/queues")
    wall = await text(browser, "/gpus")
    assert "fallen off the bus" in wall
    assert "speech/notebook: 24Gi of its memory, 0.3 of its compute" in wall
    line = await text(browser, "/line")
    assert "Needs 8 GPUs of H100 on one node" in line
    assert "it would start now if it asked for 4 GPUs a worker" in line
    why = await text(browser, "/jobs/speech/sweep-1")
    assert "a job of another tenant, 4 GPUs of H100: its queue borrows less" in why
    run = await text(browser, "/jobs/speech/train-1")
    assert "step 1239 loss" in run
    assert "Watched" in run
    assert "2 GPUs on gpu-node-4" in run
    assert "<dt>Cost</dt><dd>4.00 EUR</dd>" in run
    showback = await text(browser, "/showback")
    for part in ("310.5 GPU-hours", "689.5 GPU-hours", "1723.75 EUR", "31 % spent", "not in this period"):
        assert part in showback
    assert ("in EUR" in showback, "250.00" in showback, "500.00" in showback) == (True, True, True)


async def test_a_tenant_sees_their_namespace_and_is_told_what_they_may_not(open_dashboard: Open) -> None:
    def denied(plural: str, namespace: str) -> bool:
        return plural in ("gpunodes", "queuetrees", "queues") or namespace != "speech"

    caller = played(denied=denied, user="system:serviceaccount:speech:default")
    browser = await open_dashboard(caller)
    wall = await text(browser, "/gpus")
    assert ("You see the GPUs of jobs that you may read." in wall, "cannot list" in wall) == (True, False)
    assert "speech/train-0" in wall
    assert "vision" not in wall
    assert "speech/sweep-0" in (line := await text(browser, "/line"))
    assert "vision/sweep" not in line
    assert "cotenant-queue-viewer" in (queues := await text(browser, "/queues"))
    assert "cannot list" not in queues
    assert "689 GPU-hours" in (showback := await text(browser, "/showback"))
    assert ("310.5" in showback, "Budgets are not shown" in showback) == (False, False)
    assert "cannot list" in await text(browser, "/line?namespace=vision")
    assert "There is no job" in await text(browser, "/jobs/vision/train-0")


@pytest.mark.parametrize("path", [page.path for page in PAGES] + ["/nodes/gpu-node-5"])
@pytest.mark.parametrize("asked", ["", "?namespace=vision", "?namespace=*"])
async def test_no_page_shows_a_tenant_what_is_of_another(open_dashboard: Open, path: str, asked: str) -> None:
    def denied(plural: str, namespace: str) -> bool:
        return plural in ("gpunodes", "queuetrees", "queues") or namespace != "speech"

    browser = await open_dashboard(played(denied=denied, user="system:serviceaccount:speech:default"))
    shown = (await text(browser, path + asked)).partition("<main")[2]
    for other in ("vision/", "robotics", "search/", "gpu-node-0", "GPU-0-"):
        assert other not in shown, other


async def test_the_overview_has_the_wall_and_who_waits(browser: Browser) -> None:
    page = await text(browser, "/")
    for part in (
        "gpu-node-7",
        "speech/notebook: 24Gi of its memory",
        "fallen off the bus",
        "WaitingForQuota</b> Needs 8 GPUs",
        "It would start now if it asked for 4 GPUs a worker",
        "4 more wait",
        'href="/nodes/gpu-node-0"',
    ):
        assert part in page


async def test_the_page_of_a_node_has_its_gpus_and_who_holds_them(browser: Browser) -> None:
    page = await text(browser, "/nodes/gpu-node-6")
    for part in (
        "1 of 8 GPUs is not handed out.",
        "Xid 79: fallen off the bus",
        "GPU-6-2",
        "robotics/train-3: 32Gi of its memory",
        "memory Watched",
    ):
        assert part in page
    assert "train-0" not in page
    assert "There is no node nosuch" in await text(browser, "/nodes/nosuch")


async def test_without_the_right_to_nodes_the_page_of_one_has_the_gpus_of_own_jobs(open_dashboard: Open) -> None:
    def denied(plural: str, namespace: str) -> bool:
        return plural == "gpunodes" or namespace != "speech"

    browser = await open_dashboard(played(denied=denied, user="system:serviceaccount:speech:default"))
    page = await text(browser, "/nodes/gpu-node-5")
    assert "You see the GPUs of jobs that you may read." in page
    assert ("speech/train-1" in page, "speech/train-0" in page) == (True, False)


async def test_the_page_of_a_job_that_is_gone_is_the_record_of_its_run(open_dashboard: Open) -> None:
    caller = played()
    hostile = RECORD | {"status": RECORD["status"] | {"message": "<script>4 workers</script>"}}
    caller.answers["/apis/query.cotenant.dev/v1alpha1/namespaces/speech/runs/gone"] = hostile
    page = await text(await open_dashboard(caller), "/jobs/speech/gone")
    for part in ("was deleted", "Deleted", "&lt;script&gt;4 workers", "WaitingForGPUs", "one\ntwo", "1.50", "61 %"):
        assert part in page


async def test_runs_that_are_over_are_listed_filtered_and_paged(open_dashboard: Open) -> None:
    browser = await open_dashboard(played())
    everything = await text(browser, "/history")
    assert "60 runs, page 1 of 2" in everything
    for part in ("Succeeded 30", "Failed 15", "Deleted 15", "vision/run-0<", "592.50 EUR"):
        assert part in everything
    assert "speech/run-59<" not in everything
    assert "speech/run-59<" in await text(browser, "/history?page=2")
    failed = await text(browser, "/history?show=Failed&days=1&user=bob&queue=vision")
    assert "6 runs" in failed
    assert "run-2<" in failed
    assert "run-0<" not in failed


async def test_of_past_runs_everybody_sees_their_own_and_reads_what_is_kept_from_them(open_dashboard: Open) -> None:
    def denied(plural: str, namespace: str) -> bool:
        return namespace != "speech"

    browser = await open_dashboard(played(denied=denied, user="system:serviceaccount:speech:default"))
    own = await text(browser, "/history")
    assert ("30 runs" in own, "speech/run-1<" in own, "vision/" in own) == (True, True, False)
    everywhere = await text(browser, "/history?namespace=*")
    assert "cannot list resource &#34;runs&#34;" in everywhere
    assert "run-1<" not in everywhere


async def test_a_job_that_is_gone_has_its_place_in_the_timeline_and_its_course_on_its_page(browser: Browser) -> None:
    timeline = await text(browser, "/timeline?q=run-0")
    assert "vision/run-0" in timeline
    assert "03-02 12:50 UTC to 03-02 13:30 UTC, Succeeded" in timeline
    page = await text(browser, "/jobs/vision/run-0")
    for says in (
        "waited 03-02 12:30 UTC to 03-02 12:50 UTC",
        "held GPUs 03-02 12:50 UTC to 03-02 13:02 UTC",
        "waited 03-02 13:02 UTC to 03-02 13:15 UTC",
        "held GPUs 03-02 13:15 UTC to 03-02 13:30 UTC",
    ):
        assert says in page
    assert "/timeline?namespace=vision&amp;queue=vision&amp;hours=168" in page


async def next_view(lines: Any) -> str:
    """Markup of the next update."""
    async with asyncio.timeout(10):
        async for line in lines:
            if line.startswith(b"data: "):
                return str(json.loads(line[6:]))
    raise AssertionError("the stream has ended")


async def test_a_change_of_a_job_comes_as_an_update(open_dashboard: Open) -> None:
    caller = played()
    browser = await open_dashboard(caller)
    async with browser.get("/line?live=1") as response:
        assert response.content_type == "text/event-stream"
        while "vision/sweep-0" not in (first := await next_view(response.content)):
            pass
        assert "vision/later" not in first
        caller.kube.put(kube.TRAINING_JOBS, job("vision", "later", "Pending"))
        assert "vision/later" in await next_view(response.content)


async def test_a_page_reads_its_objects_once_and_then_follows_them(open_dashboard: Open) -> None:
    caller = played()
    browser = await open_dashboard(caller)
    for _ in range(3):
        await text(browser, "/line")
        await text(browser, "/timeline")
    asked = [call for call in caller.calls if call.endswith("trainingjobs")]
    assert asked == ["LIST trainingjobs", "WATCH trainingjobs"]


async def test_a_token_that_has_ended_ends_the_session(open_dashboard: Open) -> None:
    caller = played()
    browser = await open_dashboard(caller)
    caller.token_ended = True
    await browser.get("/showback")
    async with browser.get("/line", allow_redirects=False) as response:
        assert response.headers["Location"] == "/login"


async def test_whoever_logs_out_is_forgotten(open_dashboard: Open) -> None:
    caller = played()
    browser = await open_dashboard(caller)
    async with browser.post("/logout", allow_redirects=False) as response:
        assert response.status == 303
    assert caller.is_closed
    async with browser.get("/line", allow_redirects=False) as response:
        assert response.headers["Location"] == "/login"


@pytest.mark.parametrize("path", ["/login", "/logout"])
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Origin": "https://evil.example"}, id="by its origin"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, id="as the browser says"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, id="of a session beside it"),
    ],
)
async def test_a_form_of_another_site_is_refused(browser: Browser, path: str, headers: dict[str, str]) -> None:
    async with browser.post(path, data={"token": "t"}, headers=headers) as response:
        assert response.status == 403


async def test_a_form_of_its_own_is_taken_behind_a_proxy_that_writes_another_host(browser: Browser) -> None:
    """As nginx does unless it is told to pass the browser's Host on."""
    headers = {"Origin": "https://gpus.example.org", "Sec-Fetch-Site": "same-origin", "Host": "cotenant-dashboard"}
    async with browser.post("/logout", headers=headers, allow_redirects=False) as response:
        assert response.status == 303


async def test_assets_are_those_of_the_list(browser: Browser) -> None:
    for path in ("/assets/dashboard.css", "/assets/dashboard.js", "/assets/icon.svg"):
        await text(browser, path)
    for path in ("/assets/nothing", "/assets/..%2fmarkup.py", "/assets/__init__.py"):
        async with browser.get(path) as response:
            assert response.status == 404
