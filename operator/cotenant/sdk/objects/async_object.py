"""One object of a namespace as a handle: its document, its versions, whether it is held back, its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from cotenant import names
from cotenant.sdk.api_session import ApiSession
from cotenant.sdk.errors import ClusterUnreachableError, JobTimeoutError, MissingObjectError
from cotenant.sdk.job_paths import object_path

PAUSE_S: Final = 1.0
"""Pause between two looks if there is nothing to watch."""
PATIENCE_S: Final = 60.0
"""If the API server does not answer for this long, the caller gets the error."""
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AsyncObject:
    """One object, by its name. Its state is read from the API server each time."""

    server: ApiSession
    namespace: str
    name: str
    uid: str
    """Uid of this object. A later object of the same name has another one."""

    PLURAL: ClassVar[str]
    """The plural name in its address."""
    KIND: ClassVar[str]
    AWAITED: ClassVar[frozenset[str]] = frozenset({"Succeeded", "Failed"})
    """Phases that `wait` waits for."""
    AWAITED_SAID: ClassVar[str] = "ended"

    @property
    def path(self) -> str:
        return object_path(self.PLURAL, self.namespace, self.name)

    async def document(self) -> Document:
        """The object. Raises MissingObjectError if it is gone."""
        found = await self.server.request("GET", self.path)
        if found["metadata"]["uid"] != self.uid:
            raise MissingObjectError(f"{self.namespace}/{self.name} is gone; another {self.KIND} has its name now")
        return found

    async def status(self) -> Document:
        return dict((await self.document()).get("status") or {})

    async def phase(self) -> str:
        return str((await self.status()).get("phase") or "Pending")

    async def wait(self, timeout_s: float | None = None) -> Document:
        """The final status, good or bad. Raises JobTimeoutError, MissingObjectError."""
        status: Document = {}
        try:
            async with asyncio.timeout(timeout_s):
                async for document in self.versions():
                    status = document.get("status") or {}
                    if self.has_come(document):
                        return dict(status)
        except TimeoutError:
            now = ": ".join(filter(None, (str(status.get("phase") or "Pending"), status.get("message"))))
            said = f"{self.namespace}/{self.name} has not {self.AWAITED_SAID} after {timeout_s:g} s; it is {now}"
            raise JobTimeoutError(said) from None
        raise MissingObjectError(f"{self.namespace}/{self.name} was deleted before it {self.AWAITED_SAID}")

    def has_come(self, document: Document) -> bool:
        """True if `wait` waits for nothing more."""
        return (document.get("status") or {}).get("phase") in self.AWAITED

    async def stop(self) -> None:
        """Make it give its GPUs back and wait. It may save, and `resume` continues it."""
        await self._suspend(True)

    async def resume(self) -> None:
        await self._suspend(False)

    async def _suspend(self, wanted: bool) -> None:
        """The reason of an earlier hold does not count for this one."""
        metadata = {"uid": self.uid, "annotations": {names.ANNOTATION_SUSPEND_REASON: None}}
        await self.server.request("PATCH", self.path, {"metadata": metadata, "spec": {"suspend": wanted}})

    async def delete(self) -> None:
        """End it for good. If it is gone already, that is no error."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": self.uid}}
        try:
            await self.server.request("DELETE", self.path, body)
        except MissingObjectError:
            return

    async def patch(self, spec: Mapping[str, Any]) -> None:
        """Change fields of its spec."""
        body = {"metadata": {"uid": self.uid}, "spec": dict(spec)}
        await self.server.request("PATCH", self.path, body)

    async def versions(self) -> AsyncIterator[Document]:
        """The object, then each later version, across watches that end. Ends when the object is gone."""
        silent_since: float | None = None
        while True:
            try:
                document = await self.document()
                silent_since = None
                yield document
                query = {
                    "fieldSelector": f"metadata.name={self.name}",
                    "resourceVersion": document["metadata"]["resourceVersion"],
                    "timeoutSeconds": "240",
                }
                async for kind, seen in self.server.watch(object_path(self.PLURAL, self.namespace), query):
                    if kind == "DELETED" or seen["metadata"]["uid"] != self.uid:
                        return
                    yield seen
            except MissingObjectError:
                return
            except ClusterUnreachableError:
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > PATIENCE_S:
                    raise
                await asyncio.sleep(PAUSE_S)
