"""Sources of a page: objects followed by a watch, and answers that are requested repeatedly.

A source works while a page uses it: the first look starts it, and it stops when nobody has looked for a while. It keeps
rows instead of documents, so ten thousand jobs take some megabytes. `generation` grows with every change, so a page can
wait for the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from cotenant.controller.client.kube import Document, UnreachableError, VersionGoneError, key_of
from cotenant.dashboard.reading.caller_client import CallerClient, DeniedError, Scope

T = TypeVar("T")
IDLE_S: Final = 60.0
"""A source stops after this many seconds without a look."""
AGAIN_S: Final = 2.0
"""Seconds before the API server is asked again if it did not answer."""
DENIED_S: Final = 15.0
"""Seconds before something that the caller may not read is requested again."""
UNAUTHENTICATED: Final = 401


class Source(Generic[T]):
    """A value that is refreshed. It is `ready` when it has a value, or a reason why there is none."""

    def __init__(self, value: T) -> None:
        self.value = value
        self.problem = ""
        """Why the value is missing or out of date, as a sentence."""
        self.code = 0
        """HTTP status of a refusal."""
        self.generation = 0
        self.ready = asyncio.Event()
        self.changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._looked_at = 0.0

    def look(self) -> None:
        """Note a look. It starts the source if it does not run."""
        loop = asyncio.get_running_loop()
        self._looked_at = loop.time()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())

    def cancel(self) -> None:
        """Stop the source."""
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Wait until the source has stopped."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        raise NotImplementedError

    def _publish(self, problem: str = "", code: int = 0) -> None:
        """Publish a new value."""
        self.problem, self.code = problem, code
        self.generation += 1
        self.ready.set()
        self.changed.set()
        self.changed = asyncio.Event()

    def _is_left(self) -> bool:
        return asyncio.get_running_loop().time() - self._looked_at > IDLE_S


class Followed(Source[dict[str, T]]):
    """Rows of the objects of one scope, by `namespace/name`: a list, then a watch from its version on."""

    def __init__(self, client: CallerClient, scope: Scope, read: Callable[[Document], T]) -> None:
        super().__init__({})
        self._client, self._scope, self._read = client, scope, read

    async def _work(self) -> None:
        version = 0
        while not self._is_left():
            try:
                version = version or await self._list()
                version = await self._follow(version)
            except VersionGoneError:
                version = 0
            except DeniedError as error:
                self.value, version = {}, 0
                self._publish(str(error), error.code)
                await asyncio.sleep(DENIED_S)
            except UnreachableError as error:
                version = 0
                self._publish(f"this may be old: {error}")
                await asyncio.sleep(AGAIN_S)
        self.value = {}
        self.ready.clear()

    async def _list(self) -> int:
        found: dict[str, T] = {}
        version = 0
        if not self.ready.is_set():
            self.value = found  # a part is better than nothing, and pages say that it is one
        async for page in self._client.pages(self._scope):
            found.update((key_of(one["metadata"]), self._read(one)) for one in page.items)
            version = page.version
            await asyncio.sleep(0)  # others get their turn between two pages
        self.value = found
        self._publish()
        return version

    async def _follow(self, version: int) -> int:
        async for events in self._client.watch(self._scope, version):
            for event in events:
                version = event.version
                if event.kind == "DELETED":
                    self.value.pop(key_of(event.document["metadata"]), None)
                elif event.kind != "BOOKMARK":
                    self.value[key_of(event.document["metadata"])] = self._read(event.document)
            if any(event.kind != "BOOKMARK" for event in events):
                self._publish()
            if self._is_left():
                break
        return version


class Asked(Source[T]):
    """An answer that is requested every few seconds."""

    def __init__(self, ask: Callable[[], Awaitable[T]], none_yet: T, every_s: float) -> None:
        super().__init__(none_yet)
        self._ask, self._none, self._every_s = ask, none_yet, every_s

    async def _work(self) -> None:
        while not self._is_left():
            pause = self._every_s
            try:
                found = await self._ask()
                if found != self.value or self.problem or not self.ready.is_set():
                    self.value = found
                    self._publish()
            except DeniedError as error:
                self.value, pause = self._none, DENIED_S if error.code != 404 else self._every_s
                self._publish(str(error), error.code)
            except (UnreachableError, VersionGoneError) as error:
                self._publish(str(error))
                pause = max(pause, AGAIN_S)
            await asyncio.sleep(pause)
        self.ready.clear()


async def settled(sources: list[Source[Any]], most_s: float) -> bool:
    """Wait until each source has a value or a reason, but at most this long. Returns whether all have."""
    waiting = [asyncio.ensure_future(source.ready.wait()) for source in sources if not source.ready.is_set()]
    if not waiting:
        return True
    _, late = await asyncio.wait(waiting, timeout=most_s)
    for task in late:
        task.cancel()
    return not late


async def news(sources: list[Source[Any]], most_s: float) -> None:
    """Wait until one of the sources changes, but at most this long."""
    waiting = [asyncio.ensure_future(source.changed.wait()) for source in sources]
    if not waiting:
        await asyncio.sleep(most_s)
        return
    _, late = await asyncio.wait(waiting, timeout=most_s, return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
