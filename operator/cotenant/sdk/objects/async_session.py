"""A session as a handle: whether it runs, and how to resume it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cotenant.sdk.errors import MissingObjectError, failure
from cotenant.sdk.job_paths import object_path
from cotenant.sdk.objects.async_object import AsyncObject
from cotenant.sdk.objects.async_run import AsyncRun

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AsyncSession(AsyncObject):
    """One Session. `wait` returns when it runs, or never will."""

    PLURAL: ClassVar[str] = "sessions"
    KIND: ClassVar[str] = "Session"
    AWAITED: ClassVar[frozenset[str]] = frozenset({"Running", "Suspended", "Ended", "Failed"})
    AWAITED_SAID: ClassVar[str] = "come to run"

    def has_come(self, document: Document) -> bool:
        """A status from before a `resume` does not count."""
        generation = document["metadata"].get("generation", 0)
        is_current = (document.get("status") or {}).get("observedGeneration", generation) >= generation
        return is_current and AsyncObject.has_come(self, document)

    async def ready(self, timeout_s: float | None = None) -> Document:
        """The status once it runs. Raises JobFailedError if it has ended, failed or is suspended; otherwise as
        `wait`.
        """
        status = await self.wait(timeout_s)
        if status.get("phase") != "Running":
            raise failure(f"{self.namespace}/{self.name}", status)
        return status

    async def resume(self) -> None:
        """Continue it. If its application has ended by itself, it is started again."""
        document = await self.document()
        status = document.get("status") or {}
        if status.get("phase") in {"Ended", "Failed"} and status.get("job"):
            await self._drop_ended(str(status["job"]))
        if document["spec"].get("suspend"):
            await self.patch({"suspend": False})

    async def _drop_ended(self, job: str) -> None:
        """Delete the job that records the end, so that the operator makes the next one."""
        try:
            there = await self.server.request("GET", object_path(AsyncRun.PLURAL, self.namespace, job))
        except MissingObjectError:
            return
        if (there.get("status") or {}).get("phase") in AsyncRun.AWAITED:
            await AsyncRun(self.server, self.namespace, job, there["metadata"]["uid"]).delete()
