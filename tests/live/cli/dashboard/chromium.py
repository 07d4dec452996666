"""A real browser, driven by its debugging protocol: pages opened, evaluated, pressed keys, photographed."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from cotenant_local.host.patience import Patience, stretched

PROGRAM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-extensions",
    "--disable-background-networking",
    "--remote-debugging-port=0",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--lang=en-GB",
)
START_S: Final = 60.0
CALL_S: Final = 30.0
SHOWN: Final = 2000
"""Characters of a page's text in a failure."""


class Chromium:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        """What the browser logged as errors: refused by a policy, not found, a script that failed."""

    async def call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(stretched(CALL_S)):
            while True:
                message = await self._socket.receive_json()
                if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                    self.complaints.append(str(message["params"]))
                if message.get("id") == number:
                    if "error" in message:
                        raise RuntimeError(f"{method}: {message['error']}")
                    return message["result"]

    async def look(self, *, wide: int = 1280, high: int = 900, dark: bool = False, scripts: bool = True) -> None:
        """Look at the page on a screen of this size with this preference of colours."""
        await self.call("Log.enable")
        await self.call("Runtime.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=wide, height=high, deviceScaleFactor=1, mobile=wide < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Emulation.setLocaleOverride", locale="en-GB")
        await self.call("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
        await self.call("Emulation.setScriptExecutionDisabled", value=not scripts)

    async def open(self, address: str) -> None:
        await self.call("Page.navigate", url=address)
        await self.until("document.readyState === 'complete'")

    async def evaluate(self, expression: str) -> Any:
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    async def until(self, expression: str, most_s: float = CALL_S) -> None:
        """Wait until it is true on the page. Between two pages there is a document without a body."""
        patience = Patience(most_s)
        while not await self.evaluate(f"document.body !== null && ({expression})"):
            if patience.exhausted():
                raise TimeoutError(f"not within {patience}: {expression}\n{await self._describe()}")
            await asyncio.sleep(0.05)

    async def _describe(self) -> str:
        """Where the page is, what it shows, and what the browser complained of."""
        shown = await self.evaluate("`${location.href} ${document.readyState}\\n${document.body?.innerText}`")
        return "\n".join((str(shown)[:SHOWN], *self.complaints))

    async def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")

    async def picture(self, path: Path) -> None:
        found = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))


@asynccontextmanager
async def chromium(*flags: str) -> AsyncIterator[Chromium]:
    """A browser with an empty profile, ended afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            str(PROGRAM),
            *FLAGS,
            *flags,
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(profile) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                    (tab, *_) = [one for one in await response.json() if one["type"] == "page"]
                async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    yield Chromium(socket)
        finally:
            process.kill()
            await process.wait()


async def _port(path: Path) -> str:
    async with asyncio.timeout(stretched(START_S)):
        while not (text := await asyncio.to_thread(_read, path)).count("\n"):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.1)
    return text.split("\n")[0]


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
