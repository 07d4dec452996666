"""Photographs the pages of a played cluster: `python -m tests.live.cli.dashboard.pictures FOLDER`. Look at them.

With docs/ as the folder it makes docs/dashboard.png alone, which carries a digest of the page that it shows: a test
fails when the page has become another.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aiohttp import web

from cotenant.dashboard.access.entrances import Entrances, viewer_of
from cotenant.dashboard.access.sessions import Sessions, Viewer
from cotenant.dashboard.server import Dashboard
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.cli.dashboard.played_cluster import played
from tests.cli.dashboard.readme_picture import PICTURE, digest_of_page, stamp
from tests.live.cli.dashboard.chromium import Chromium, chromium

CODE: Final = "pictures"
PATHS: Final = {
    "overview": "/",
    "queues": "/queues",
    "gpus": "/gpus",
    "node": "/nodes/gpu-node-6",
    "line": "/line",
    "timeline": "/timeline",
    "history": "/history",
    "gone": "/jobs/vision/run-0",
    "reliability": "/reliability",
    "showback": "/showback",
    "sessions": "/sessions",
    "session": "/sessions/speech/lab",
    "job": "/jobs/speech/train-1",
    "why": "/jobs/speech/sweep-1",
}
LOOKS: Final = {"light": (1280, 900, False), "dark": (1280, 900, True), "narrow": (400, 844, False)}


@asynccontextmanager
async def served(caller: FakeCaller) -> AsyncIterator[str]:
    """Address of a dashboard of this caller on a port of this machine."""

    async def own() -> Viewer:
        return await viewer_of(caller)

    sessions = Sessions(asyncio.get_running_loop().time)
    dashboard = Dashboard(sessions=sessions, entrances=Entrances(sessions, own=own, code=CODE), is_secure=False)
    runner = web.AppRunner(dashboard.application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def photograph(browser: Chromium, root: str, folder: Path) -> None:
    for look, (wide, high, dark) in LOOKS.items():
        await browser.look(wide=wide, high=high, dark=dark)
        for name, path in PATHS.items():
            await browser.open(root + path)
            await browser.until("document.getElementById('state')?.textContent === 'live'")
            await browser.picture(folder / f"{name}-{look}.png")


async def photograph_for_docs(browser: Chromium, root: str, path: Path) -> None:
    await browser.look(wide=1280, high=860)
    await browser.open(root + PATHS["overview"])
    await browser.until("document.getElementById('state')?.textContent === 'live'")
    await browser.picture(path)
    await asyncio.to_thread(stamp, path, await digest_of_page())


async def main(folder: Path, *, for_docs: bool) -> None:
    async with served(played(datetime.now(UTC))) as root, chromium() as browser:
        await browser.look()
        await browser.open(f"{root}/login?code={CODE}")
        if for_docs:
            await photograph_for_docs(browser, root, folder / "dashboard.png")
        else:
            await photograph(browser, root, folder)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(Path(sys.argv[1]), for_docs=Path(sys.argv[1]).resolve() == PICTURE.parent))
